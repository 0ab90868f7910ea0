#!/bin/bash
set -euo pipefail
umask 077
# dnf needs more memory than the smallest instance has.
swap=/var/set-up-swap
trap 'swapoff $swap; rm -f $swap' EXIT
{ dd if=/dev/zero of=$swap bs=1M count=256 && mkswap $swap && swapon $swap; } || rm -f $swap
# The minimal image lacks both. The agent is for Session Manager.
install() { dnf install -y python3-boto3 amazon-ssm-agent "$1"; }
install valkey || install redis6
dnf clean all
is_dual_stack=$(printenv AWS_USE_DUALSTACK_ENDPOINT || echo false)
echo "{\"Agent\": {\"UseDualStackEndpoint\": $is_dual_stack}}" > /etc/amazon/ssm/amazon-ssm-agent.json
systemctl enable amazon-ssm-agent
systemctl restart amazon-ssm-agent
service=valkey
[ -d /etc/valkey ] || service=redis6
token=$(curl -sfX PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' http://169.254.169.254/latest/api/token)
metadata() { curl -sf -H "X-aws-ec2-metadata-token: $token" "http://169.254.169.254/latest/meta-data/$1"; }
node=$(metadata tags/instance/burstcache-node)
kind=redis eviction=allkeys-lru share=0.75 persistence=
if [[ $node = state-* ]]; then
  persistence=$(metadata tags/instance/burstcache-state)
  # A full database of state refuses writes. Saving takes memory, too.
  kind=state eviction=noeviction share=0.6
fi
digest_of_password() { burstcache-secret "$1" "$2" | tr -d '\n' | sha256sum | cut -d ' ' -f 1; }
users_of_redis() {
  reader=$(digest_of_password redis reader)
  control=$(digest_of_password redis control)
  cat <<USERS
user reader on #$reader ~object:* ~recent:* ~load:* ~hits ~left-out ~result:* \
  +ping +eval +evalsha +hget +hmget +hstrlen +hset +hdel +get +getrange +set +del +expire +lpush +lpushx +ltrim
user control on #$control ~object:* ~recent:* ~load:* ~hits ~left-out \
  +ping +eval +evalsha +hset +hdel +get +set +exists +expire +del +unlink +lrange +ltrim +rpush +config|get +info
USERS
}
users_of_state() {
  holder=$(digest_of_password state holder)
  keeper=$(digest_of_password state keeper)
  cat <<USERS
user holder on #$holder ~* &* +@all -@admin +acl|whoami \
  +client|id +client|info +client|getname +client|setname +client|setinfo +client|reply +client|no-touch \
  +client|tracking +client|trackinginfo +client|caching +client|getredir +client|help
user keeper on #$keeper +save +bgsave +info +acl|setuser +client|kill
USERS
}
burstcache-secret redis tls > /etc/$service/burstcache.pem
address=$(metadata local-ipv4)
echo "NODE=$node" > /etc/burstcache-node-name.env
maxmemory_kb=$(awk -v share="$share" '/MemTotal/ { print int($2 * share) }' /proc/meminfo)
cat > /etc/$service/burstcache.conf <<CONFIG
bind $address 127.0.0.1
port 0
tls-port 6379
tls-cert-file /etc/$service/burstcache.pem
tls-key-file /etc/$service/burstcache.pem
tls-auth-clients no
# With a default user that needs no password, protected mode would refuse all other machines.
user default off resetpass
maxmemory $((maxmemory_kb * 1024))
maxmemory-policy $eviction
save ""
logfile ""
CONFIG
users_of_$kind >> /etc/$service/burstcache.conf
if [ $kind = state ]; then
  folder=/var/lib/$service
  [ "$persistence" != aof ] || folder=/var/lib/$service/volume/redis  # absent unless the volume is mounted
  cat >> /etc/$service/burstcache.conf <<CONFIG
dir $folder
appendonly $([ "$persistence" = aof ] && echo yes || echo no)
appendfsync everysec
unixsocket /var/lib/$service/state.sock
CONFIG
fi
chown --reference=/etc/$service/$service.conf /etc/$service/burstcache.{conf,pem}
chmod --reference=/etc/$service/$service.conf /etc/$service/burstcache.{conf,pem}
grep -qx "include /etc/$service/burstcache.conf" /etc/$service/$service.conf ||
  echo "include /etc/$service/burstcache.conf" >> /etc/$service/$service.conf
mkdir -p /etc/systemd/system/$service.service.d
# Redis answers for three more seconds when the instance stops. By then no reader has an older digest.
cat > /etc/systemd/system/$service.service.d/burstcache.conf <<'DROP_IN'
[Unit]
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0
[Service]
Restart=always
RestartSec=1
ExecStop=
ExecStop=/usr/bin/sleep 3
StandardOutput=journal+console
DROP_IN
if [ "$persistence" = rdb ]; then
  echo vm.overcommit_memory=1 > /etc/sysctl.d/burstcache.conf  # else a large database cannot fork to save
  bucket=$(metadata tags/instance/burstcache-state-bucket)
  burstcache-secret state keeper > /etc/burstcache-keeper
  cat > /etc/burstcache-state.env <<ENVIRONMENT
STATE_BUCKET=$bucket
STATE_DIR=/var/lib/$service
STATE_SOCKET=/var/lib/$service/state.sock
STATE_MARK=/run/burstcache-state-is-restored
STATE_PROGRAM=/usr/local/sbin/burstcache-state
STATE_KEEPER=/etc/burstcache-keeper
ENVIRONMENT
  burstcache-secret state program > /usr/local/sbin/burstcache-state
  chmod 755 /usr/local/sbin/burstcache-state
  cat > /etc/systemd/system/$service.service.d/state.conf <<'DROP_IN'
[Service]
EnvironmentFile=/etc/burstcache-node.env
EnvironmentFile=/etc/burstcache-node-name.env
EnvironmentFile=/etc/burstcache-state.env
TimeoutStartSec=infinity
ExecStartPre=+/usr/local/sbin/burstcache-state restore
ExecStop=
ExecStop=-+/usr/bin/timeout 80 /bin/sh -c '[ -z "$$MAINPID" ] || until $$STATE_PROGRAM save last; do sleep 5; done'
DROP_IN
fi
if [ "$persistence" = aof ]; then
  dnf install -y e2fsprogs  # mkfs.ext4
  dnf clean all
  echo vm.overcommit_memory=1 > /etc/sysctl.d/burstcache.conf  # else a large database cannot fork to rewrite its log
  cat > /etc/burstcache-volume.env <<ENVIRONMENT
STATE_INSTANCE=$(metadata instance-id)
STATE_POINT=/var/lib/$service/volume
ENVIRONMENT
  burstcache-secret state volume > /usr/local/sbin/burstcache-volume
  chmod 755 /usr/local/sbin/burstcache-volume
  cat > /etc/systemd/system/$service.service.d/state.conf <<DROP_IN
[Unit]
After=var-lib-$service-volume.mount
[Service]
EnvironmentFile=/etc/burstcache-node.env
EnvironmentFile=/etc/burstcache-node-name.env
EnvironmentFile=/etc/burstcache-volume.env
TimeoutStartSec=infinity
ExecStartPre=+/usr/local/sbin/burstcache-volume
DROP_IN
fi
systemctl daemon-reload
if [ "$persistence" = aof ]; then
  systemctl enable $service
  # The first boot ends soon, without Redis: during an update the former instance may still use the volume.
  [ -e /run/burstcache-first-boot ] || systemctl start --no-block $service
else
  systemctl enable --now $service
fi
touch /var/lib/redis-is-set-up
