#!/bin/sh
set -eu
umask 077
dir="${REDIS_DIR:-/tmp}"
port="${REDIS_PLAIN_PORT:-0}"
now_s() {
  read -r up _ < /proc/uptime
  echo "${up%%.*}"
}
digest_of() { printf %s "$1" | sha256sum | cut -d ' ' -f 1; }
first_of() {
  for program; do
    command -v "$program" && return
  done
}
watcher_password=$(head -c 32 /dev/urandom | sha256sum | cut -d ' ' -f 1)
# In a task, Redis itself terminates TLS. With a plain port, a proxy in front of it does.
tls() {
  printf '%s\n' "$REDIS_TLS_PEM" > "$dir/redis.pem"
  cat <<TLS
tls-port 6379
tls-cert-file $dir/redis.pem
tls-key-file $dir/redis.pem
tls-auth-clients no
TLS
}
cat > "$dir/redis.conf" <<CONFIG
bind ${REDIS_HOST:-* -::*}
port $port
unixsocket $dir/redis.sock
dir $dir
maxmemory ${MAXMEMORY_MB}mb
maxmemory-policy allkeys-lru
save ""
logfile ""
user default off resetpass
user watcher on #$(digest_of "$watcher_password") resetchannels &attended +ping +subscribe
user reader on #$(digest_of "$REDIS_READER_PASSWORD") resetchannels \
~object:* ~recent:* ~load:* ~hits ~left-out ~result:* \
+ping +eval +evalsha +hget +hmget +hstrlen +hset +hdel +get +getrange +set +del +expire +lpush +lpushx +ltrim
user control on #$(digest_of "$REDIS_CONTROL_PASSWORD") resetchannels &attended \
~object:* ~recent:* ~load:* ~hits ~left-out +publish \
+ping +eval +evalsha +hset +hdel +get +set +exists +expire +del +unlink +lrange +ltrim +rpush +config|get +info
CONFIG
[ "$port" != 0 ] || tls >> "$dir/redis.conf"
unset REDIS_READER_PASSWORD REDIS_CONTROL_PASSWORD REDIS_TLS_PEM

# Redis answers for three more seconds after SIGTERM. By then no reader has an older digest.
# shellcheck disable=SC2329  # the trap invokes it
stop() {
  trap '' TERM
  sleep 3
  kill -TERM "$server" || :
}
"$(first_of valkey-server redis-server)" "$dir/redis.conf" &
server=$!
trap stop TERM

# Control publishes to the channel while it knows of the task. A task that nobody attends ends itself.
note_attendance() {
  client=$(first_of valkey-cli redis-cli)
  export REDISCLI_AUTH="$watcher_password" VALKEYCLI_AUTH="$watcher_password"
  while :; do
    "$client" -s "$dir/redis.sock" --user watcher --no-auth-warning SUBSCRIBE attended < /dev/null 2> /dev/null |
      while read -r line; do
        case $line in message*) now_s > "$dir/attended.new" && mv "$dir/attended.new" "$dir/attended" ;; esac
      done || :
    sleep 1
  done
}
await_neglect() {
  while [ $(($(now_s) - $(cat "$dir/attended"))) -lt "${UNATTENDED_S:-1800}" ]; do
    sleep "${ATTENDANCE_CHECK_S:-10}"
  done
  echo "the control plane has not attended this task for ${UNATTENDED_S:-1800} s: it ends"
  kill -TERM $$
}
now_s > "$dir/attended"
note_attendance &
noting=$!
await_neglect &
awaiting=$!

status=0
while kill -0 "$server" 2> /dev/null; do
  wait "$server" && status=0 || status=$?
done
kill "$noting" "$awaiting" 2> /dev/null || :
exit "$status"
