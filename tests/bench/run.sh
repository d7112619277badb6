#!/bin/sh
# run.sh - speed and memory of `dblock run` against its budgets and its peers, on this machine, now.
#
#   tests/bench/run.sh [--pairs N] [BUILD_DIR]        (default: 200 pairs, build/release)
#
# Prints a table; only the ratios mean anything elsewhere. Every server is a throw-away on this host; peers
# that are not installed are skipped, and said to be (Debian: etcd-server etcd-client redis-server redis-tools;
# strace for the count of forks). Exits 1 when something is over its budget.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
pairs=200
if [ "${1-}" = --pairs ]; then
  pairs=$2
  shift 2
fi
build=${1:-$root/build/release}
dblock=$build/src/dblock
bench=$build/tests/bench
for program in "$dblock" "$bench/bench_baseline" "$bench/bench_pairs"; do
  [ -x "$program" ] || {
    echo "run.sh: $program is missing; build with: cmake --workflow --preset release" >&2
    exit 1
  }
done
if [ -z "${DBLOCK_SOCKET-}" ]; then
  DBLOCK=$dblock exec "$root/tests/with-mariadb.sh" "$0" --pairs "$pairs" "$build"
fi

work=$(mktemp -d)
servers=
over=0
# shellcheck disable=SC2086 # process ids
trap '[ -z "$servers" ] || kill $servers 2>/dev/null || true; wait; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

sql() {
  mariadb --no-defaults --socket="$DBLOCK_SOCKET" --user=root --batch --skip-column-names --execute="$1" dblock
}

say() {
  printf '%-46s %-24s %-12s %s\n' "$@"
}

# Compares with awk: VALUE OPERATOR LIMIT.
verdict() {
  if awk "BEGIN { exit !($1 $2 $3) }"; then
    echo ok
  else
    echo OVER
  fi
}

row() { # MEASURE VALUE-TO-SHOW NUMBER OPERATOR LIMIT [LIMIT-TO-SHOW]
  verdict=$(verdict "$3" "$4" "$5")
  [ "$verdict" = ok ] || over=1
  say "$1" "$2" "${6:-$4 $5}" "$verdict"
}

pair() {
  "$bench/bench_pairs" --pairs "$pairs" --warmup 20 "$@"
}

# dblock against something slower: how many times faster.
faster_than() { # NAME LIMIT COMMAND...
  peer=$1 limit=$2
  shift 2
  pair "$@" ::: "$dblock" run --key bench -- true >"$work/result"
  read -r a b ratio pairwise low high <"$work/result"
  row "times faster than $peer" "$ratio ($a / $b ms)" "$ratio" ">=" "$limit"
}

skip() {
  say "times faster than $1" "SKIPPED: $2" "" ""
}

against_baseline() { # LABEL
  pair "$dblock" run --key bench -- true ::: "$bench/bench_baseline" "$DBLOCK_SOCKET" dblock bench-c true \
    >"$work/result"
  read -r a b ratio pairwise low high <"$work/result"
  row "run -- true / C program, $1" "$ratio ($a / $b ms)" "$ratio" "<=" 1.3
  say "  median of pairwise ratios (quartiles)" "$pairwise ($low to $high)" "" ""
}

# The embedded store, on the disk of $TMPDIR.
against_flock() {
  store=sqlite:$work/local/locks.db
  mkdir -m 700 "$work/local"
  "$dblock" --db "$store" run --key bench -- true
  pair "$dblock" --db "$store" run --key bench -- true ::: flock "$work/flock" true >"$work/result"
  read -r a b ratio pairwise low high <"$work/result"
  row "run -- true on the embedded store / flock" "$ratio ($a / $b ms)" "$ratio" "<=" 2
  say "  median of pairwise ratios (quartiles)" "$pairwise ($low to $high)" "" ""
}

# Every statement counts under one COM_ variable, a prepared one when executed; preparing counts on top. (QUESTIONS
# would count the goodbye, COM_QUIT, as well.)
statements() {
  sql "SELECT SUM(VARIABLE_VALUE) FROM information_schema.GLOBAL_STATUS
       WHERE VARIABLE_NAME = 'COM_STMT_PREPARE'
          OR (VARIABLE_NAME LIKE 'COM\_%' AND VARIABLE_NAME NOT LIKE 'COM\_STMT\_%')"
}

count_statements() {
  n=20
  before=$(statements)
  own=$(($(statements) - before)) # what asking costs
  before=$(statements)
  i=0
  while [ $i -lt $n ]; do
    "$dblock" run --key bench -- true
    i=$((i + 1))
  done
  used=$(($(statements) - before - own))
  row "statements per run" "$(awk "BEGIN { print $used / $n }")" "$used" "<=" "3 * $n" "<= 3"
}

# Private memory of a run while its job sleeps: dblock and its guardian, not the job.
private_kib() {
  awk '/^Private_(Clean|Dirty):/ { sum += $2 } END { print sum }' "/proc/$1/smaps_rollup"
}

children() {
  cat "/proc/$1"/task/*/children 2>/dev/null
}

measure_process() {
  # shellcheck disable=SC2016 # expanded by the inner shell
  "$dblock" run --key bench-memory -- sh -c 'echo started >"$0"; exec sleep 60' "$work/started" &
  run=$!
  tries=100
  until [ -s "$work/started" ] || [ $tries = 0 ]; do
    sleep 0.1
    tries=$((tries - 1))
  done
  sleep 1 # past the first lines of the heartbeat thread
  guardian=$(children $run | awk '{ print $1 }')
  sum=$(private_kib $run)
  if [ -n "$guardian" ]; then sum=$((sum + $(private_kib "$guardian"))); fi
  row "private memory of a run, guardian included" "$(awk "BEGIN { printf \"%.1f MiB\", $sum / 1024 }")" \
    "$sum" "<=" "12 * 1024" "<= 12 MiB"
  say "  of it dblock / guardian" "$(private_kib $run) / $(private_kib "$guardian") KiB" "" ""
  say "shared libraries mapped" "$(awk '$6 ~ /\.so/ { print $6 }' "/proc/$run/maps" | sort -u | wc -l)" "" ""
  kill $run
  wait $run 2>/dev/null || true
}

count_forks() {
  if ! command -v strace >/dev/null; then
    say "processes and threads made" "SKIPPED: no strace" "" ""
    return
  fi
  strace -f -qq -e trace=fork,vfork,clone,clone3 -o "$work/strace" "$dblock" run --key bench -- true
  say "processes and threads made" "$(grep -cE '(fork|clone3?)\(.*= [0-9]+$|resumed>.*= [0-9]+$' "$work/strace")" "" ""
}

# Some free-looking port on loopback; the server that takes it fails, and is then skipped, when it is not.
port() {
  awk -v seed="$$" -v nth="$1" 'BEGIN { srand(seed * 7 + nth); print 20000 + int(rand() * 12000) }'
}

await() { # COMMAND... that succeeds when a server is up, within 10 s
  tries=100
  until "$@" >/dev/null 2>&1; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || return 1
    sleep 0.1
  done
}

against_etcd() {
  if ! command -v etcd >/dev/null || ! command -v etcdctl >/dev/null; then
    skip "etcdctl lock" "not installed"
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
    faster_than "etcdctl lock" 3 etcdctl --endpoints "$client" lock bench true
  else
    skip "etcdctl lock" "etcd did not start"
  fi
}

against_redis() {
  if ! command -v redis-server >/dev/null || ! command -v redis-cli >/dev/null; then
    skip "a redis-cli script" "not installed"
    return
  fi
  redis=$(port 3)
  redis-server --bind 127.0.0.1 --port "$redis" --dir "$work" --save '' --appendonly no >"$work/redis.log" 2>&1 &
  servers="$servers $!"
  if await redis-cli -p "$redis" ping; then
    faster_than "a redis-cli script" 2 "$here/peers/redis-cli-lock.sh" "$redis" bench true
  else
    skip "a redis-cli script" "redis-server did not start"
  fi
}

sql "CREATE TABLE bench_lock (name VARBINARY(255) PRIMARY KEY, owner VARBINARY(255), expires DATETIME(6));
     INSERT INTO bench_lock VALUES ('bench', NULL, NULL)"
"$dblock" run --key bench -- true
"$dblock" run --key bench-c -- true

printf '%s, %s pairs each, on %s CPUs\n\n' "$("$dblock" --version)" "$pairs" "$(nproc)"
say "measure" "value" "budget" ""
against_baseline "server as installed"
sql "SET GLOBAL innodb_flush_log_at_trx_commit = 0"
against_baseline "commits not flushed"
sql "SET GLOBAL innodb_flush_log_at_trx_commit = 1"
against_flock
faster_than "a mariadb-CLI script" 3 "$here/peers/mariadb-cli-lock.sh" "$DBLOCK_SOCKET" dblock bench true
against_etcd
against_redis
count_statements
measure_process
count_forks
exit $over
