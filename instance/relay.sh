#!/bin/sh
set -eu
umask 077
host="${RELAY_HOST:-[::]}"
dir="${RELAY_DIR:-/tmp}"
printf '%s\n' "$RELAY_TLS_PEM" > "$dir/relay-tls.pem"
cat > "$dir/relay.conf" <<CONFIG
listen: "$host:${RELAY_PORT:-4222}"
http: "$host:${RELAY_MONITOR_PORT:-8222}"
max_payload: 8MB
tls {
  cert_file: "$dir/relay-tls.pem"
  key_file: "$dir/relay-tls.pem"
}
authorization {
  users: [
    {
      user: "proxy", password: "$RELAY_PROXY_PASSWORD"
      permissions: { publish: ["get.>"], subscribe: ["_INBOX.proxy.>"] }
    }
    {
      user: "cache", password: "$RELAY_CACHE_PASSWORD"
      permissions: { allow_responses: true, subscribe: ["get.>", "control.>"] }
    }
    {
      user: "control", password: "$RELAY_CONTROL_PASSWORD"
      permissions: { publish: ["control.>"], subscribe: ["_INBOX.control.>"] }
    }
  ]
}
CONFIG
exec nats-server --config "$dir/relay.conf"
