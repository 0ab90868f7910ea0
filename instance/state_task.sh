#!/bin/sh
set -eu
umask 077
dir="${REDIS_DIR:-/tmp}"
data="${STATE_VOLUME:-/state}/redis"
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
# A holder's name contains its database's, because another database's task may get the address that a holder knows.
cat > "$dir/redis.conf" <<CONFIG
bind ${REDIS_HOST:-* -::*}
port $port
unixsocket $data/redis.sock
dir $data
maxmemory ${MAXMEMORY_MB}mb
maxmemory-policy noeviction
save ""
logfile ""
user default off resetpass
user holder-${NODE#state-} on #$(digest_of "$REDIS_HOLDER_PASSWORD") ~* &* +@all -@admin +acl|whoami \
  +client|id +client|info +client|getname +client|setname +client|setinfo +client|reply +client|no-touch \
  +client|tracking +client|trackinginfo +client|caching +client|getredir +client|help
user keeper on #$(digest_of "$REDIS_KEEPER_PASSWORD") +save +bgsave +info +acl|setuser +client|kill
CONFIG
[ "$port" != 0 ] || tls >> "$dir/redis.conf"
unset REDIS_HOLDER_PASSWORD REDIS_KEEPER_PASSWORD REDIS_TLS_PEM
server=$(first_of valkey-server redis-server)

# The keeper saves the database before its task ends. Redis ends with this program.
# shellcheck disable=SC2329  # the trap invokes it
stop() {
  trap '' TERM
  give_up_s=$(($(now_s) + 110))
  until [ -e "$data/saved" ] || [ "$(now_s)" -ge "$give_up_s" ]; do sleep 0.2; done
  exit 0
}
trap stop TERM

until [ -e "$data/restored" ]; do sleep 0.2; done
# A server that was killed loads its last save.
while :; do
  "$server" "$dir/redis.conf" || :
  sleep 1
done &
wait
