#!/bin/bash
# What README.md and tests/proof.md say of other lock tools, tried on the real ones. Each line printed is one claim.
# flock, etcd and Redis come with Debian (util-linux, etcd-server, etcd-client, redis-server, redis-tools). consul does
# not: what is said of it was read in its source, or run where a consul is in PATH.
# usage: peers.sh [flock|etcdctl|redis|consul]...
# shellcheck disable=SC2317 # functions are called by name
set -u

box=$(mktemp -d)
failed=0
servers=()
clean_up() {
  pkill -KILL -f "$box/job" 2>/dev/null
  ((${#servers[@]} == 0)) || kill "${servers[@]}" 2>/dev/null
  wait 2>/dev/null
  rm -rf "$box"
}
trap clean_up EXIT

# A job that can be told by its name, and that would run for longer than all of this takes.
# shellcheck disable=SC2016 # for the shell within
printf '#!/bin/bash\nexec -a "%s $1" sleep 300\n' "$box/job" >"$box/named"
chmod +x "$box/named"

running() { pgrep -f "^$box/job $1 " >/dev/null; }
until_true() {
  local i
  for ((i = 0; i < 300; ++i)); do
    "$@" && return
    sleep 0.1
  done
  return 1
}
claim() {
  local text=$1
  shift
  if "$@"; then
    echo "ok    $text"
  else
    echo "FALSE $text"
    failed=1
  fi
}

try_flock() {
  flock "$box/lock" "$box/named" flock &
  until_true running flock
  flock -n "$box/lock" true
  claim 'flock: a held lock is exit 1, like a job that fails' [ $? = 1 ]
  kill -KILL %flock
  wait %flock 2>/dev/null
  claim 'flock: killed, its job runs on' running flock
  claim 'flock: killed, its lock stays with the job' sh -c "! flock -n '$box/lock' true"
  pkill -KILL -f "^$box/job flock"
}

try_etcdctl() {
  local lease
  export ETCDCTL_API=3 ETCDCTL_ENDPOINTS=http://127.0.0.1:23790
  etcd --data-dir "$box/etcd" --listen-client-urls "$ETCDCTL_ENDPOINTS" --advertise-client-urls "$ETCDCTL_ENDPOINTS" \
    --listen-peer-urls http://127.0.0.1:23800 --initial-advertise-peer-urls http://127.0.0.1:23800 \
    --initial-cluster default=http://127.0.0.1:23800 >"$box/etcd.log" 2>&1 &
  servers+=($!)
  until_true sh -c 'etcdctl endpoint health >/dev/null 2>&1'
  etcdctl lock k "$box/named" etcdctl &
  until_true running etcdctl
  kill -TERM %etcdctl
  sleep 1 # nothing happens, which cannot be awaited
  claim 'etcdctl lock: TERM is swallowed while the job runs' running etcdctl
  lease=$(etcdctl lease list | tail -n 1)
  etcdctl lease revoke "$lease" >/dev/null
  claim 'etcdctl lock: when the lease is lost, another runs' timeout 10 etcdctl lock k true
  claim 'etcdctl lock: … beside the first job, which is not stopped' running etcdctl
  kill -KILL %etcdctl
  wait %etcdctl 2>/dev/null
  claim 'etcdctl lock: killed, its job runs on' running etcdctl
  pkill -KILL -f "^$box/job etcdctl"
}

try_redis() {
  local redis="redis-cli -p 23791"
  redis-server --port 23791 --save '' --dir "$box" >"$box/redis.log" 2>&1 &
  servers+=($!)
  until_true sh -c "$redis ping >/dev/null 2>&1"
  # shellcheck disable=SC2016 # for the shell within
  printf '#!/bin/sh\n[ "$(%s set k $$ nx px 1000)" = OK ] || exit 1\n"$@"\n%s del k >/dev/null\n' "$redis" "$redis" >"$box/lock.sh"
  sh "$box/lock.sh" "$box/named" redis &
  until_true running redis
  claim 'a SET NX PX script: when the time is up, another runs' until_true sh "$box/lock.sh" true
  claim 'a SET NX PX script: … beside the first job, which is not stopped' running redis
  pkill -KILL -f "^$box/job redis"
}

try_consul() {
  consul agent -dev -http-port 23792 >"$box/consul.log" 2>&1 &
  servers+=($!)
  export CONSUL_HTTP_ADDR=127.0.0.1:23792
  until_true sh -c 'consul members >/dev/null 2>&1'
  consul lock locks/k "$box/named" consul &
  until_true running consul
  kill -KILL %consul
  wait %consul 2>/dev/null
  claim 'consul lock: killed, its job runs on' running consul
  pkill -KILL -f "^$box/job consul"
  consul lock locks/f false
  claim "consul lock: the job's failure is exit 0" [ $? = 0 ]
}

# Runs function $2 where program $1 is installed.
try() {
  if command -v "$1" >/dev/null; then "$2"; else echo "skip  $1 is not installed"; fi
}
[ $# -gt 0 ] || set -- flock etcdctl redis consul
for peer in "$@"; do
  case $peer in
    flock) try flock try_flock ;;
    etcdctl) try etcd try_etcdctl ;;
    redis) try redis-server try_redis ;;
    consul) try consul try_consul ;;
    *) echo "unknown peer: $peer" >&2; failed=1 ;;
  esac
done
exit $failed
