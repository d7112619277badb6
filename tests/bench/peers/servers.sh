# shellcheck shell=sh
# Throw-away servers for the other lock tools, and the comparison with each: sourced by run.sh, which kills $servers
# when it is interrupted. Every server has a data directory of its own on the disk of MariaDB's, and runs only during
# its comparison. Redis saves nothing, as most who use it for locks have it.
# shellcheck disable=SC2154 # run.sh knows $dblock, $here and $work

# Some free-looking port on loopback; the server fails when it is not free, and its tool is then skipped.
port() {
  awk -v seed="$$" -v nth="$1" 'BEGIN { srand(seed * 7 + nth); print 20000 + int(rand() * 12000) }'
}

end_servers() {
  # shellcheck disable=SC2086 # process ids
  {
    kill $servers || true
    wait $servers || true
  } 2>/dev/null
  servers=
}

installed() { # PROGRAM...
  for program in "$@"; do
    command -v "$program" >/dev/null || return 1
  done
}

# How many times faster dblock is than a tool.
faster_than() { # TOOL LIMIT COMMAND...
  tool=$1 limit=$2
  shift 2
  compare "$tool / dblock run" "$limit" "$tool" "dblock run" "$@" ::: "$dblock" run --key bench -- true
}

against_mariadb_script() {
  faster_than "mariadb script" ">= 3.5" "$here/peers/mariadb-cli-lock.sh" "$DBLOCK_SOCKET" dblock bench true
}

against_etcd() {
  if ! installed etcd etcdctl; then
    skip "etcdctl lock / dblock run" ">= 3.5" "not installed"
    return
  fi
  client=http://127.0.0.1:$(port 1) peer_url=http://127.0.0.1:$(port 2)
  etcd --data-dir "$work/etcd" --listen-client-urls "$client" --advertise-client-urls "$client" \
    --listen-peer-urls "$peer_url" --initial-advertise-peer-urls "$peer_url" \
    --initial-cluster "default=$peer_url" >"$work/etcd.log" 2>&1 &
  servers="$servers $!"
  ETCDCTL_API=3
  export ETCDCTL_API
  if await etcdctl --endpoints "$client" endpoint health; then
    faster_than "etcdctl lock" ">= 3.5" etcdctl --endpoints "$client" lock bench true
  else
    skip "etcdctl lock / dblock run" ">= 3.5" "etcd did not start"
  fi
  end_servers
}

# One server that is its own cluster, and writes to disk: the development mode does not.
against_consul() {
  if ! installed consul; then
    skip "consul lock / dblock run" ">= 6" "not installed"
    return
  fi
  address=127.0.0.1:$(port 4)
  consul agent -server -bootstrap-expect 1 -data-dir "$work/consul" -bind 127.0.0.1 -http-port "${address#*:}" \
    -server-port "$(port 5)" -serf-lan-port "$(port 6)" -serf-wan-port -1 -dns-port -1 >"$work/consul.log" 2>&1 &
  servers="$servers $!"
  if await consul lock -http-addr "$address" locks/up true; then
    faster_than "consul lock" ">= 6" consul lock -http-addr "$address" locks/bench true
  else
    skip "consul lock / dblock run" ">= 6" "consul did not start"
  fi
  end_servers
}

against_redis() {
  if ! installed redis-server redis-cli; then
    skip "redis-cli script / dblock run" ">= 2" "not installed"
    return
  fi
  redis-server --port 0 --unixsocket "$work/redis" --dir "$work" --save '' --appendonly no >"$work/redis.log" 2>&1 &
  servers="$servers $!"
  if await redis-cli -s "$work/redis" ping; then
    faster_than "redis-cli script" ">= 2" "$here/peers/redis-cli-lock.sh" "$work/redis" bench true
  else
    skip "redis-cli script / dblock run" ">= 2" "redis-server did not start"
  fi
  end_servers
}
