#!/bin/sh
# run.sh - speed and memory of `dblock run` against its budgets and its peers, on this machine, now.
#
#   tests/bench/run.sh [--pairs N] [--json FILE] [BUILD_DIR]
#
# Default: 300 pairs, build/release, and bench.json in the build directory. Prints a table; only its ratios mean
# anything elsewhere. Every server is a throw-away of this script below $TMPDIR. What is not installed is skipped, and
# said to be (Debian: etcd-server etcd-client redis-server redis-tools; strace for the count of forks). Exits 1 when
# something is over its budget. README.md beside this script says what each row is.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
pairs=300
json=
with_server=
while [ $# -gt 0 ]; do
  case $1 in
    --pairs) pairs=${2:?--pairs needs a number} && shift 2 ;;
    --json) json=${2:?--json needs a file} && shift 2 ;;
    --with-server) with_server=yes && shift ;; # this script's own second start, below
    -*) echo "run.sh: unknown option $1" >&2 && exit 64 ;;
    *) break ;;
  esac
done
build=${1:-$root/build/release}
json=${json:-$build/bench.json}
dblock=$build/src/dblock
bench=$build/tests/bench
for program in "$dblock" "$bench/bench_baseline" "$bench/bench_pairs"; do
  [ -x "$program" ] || {
    echo "run.sh: $program is missing; build with: cmake --workflow --preset release" >&2
    exit 1
  }
done
if [ -z "$with_server" ]; then
  cmake --build "$build" --target bench_handoff >&2
  DBLOCK=$dblock exec "$root/tests/with-mariadb.sh" "$0" --with-server --pairs "$pairs" --json "$json" "$build"
fi

# shellcheck source=/dev/null
. "$here/report.sh"
# shellcheck source=/dev/null
. "$here/peers/servers.sh"
work=$(mktemp -d)
servers=
waiters=
holder=
# shellcheck disable=SC2086 # process ids
trap '[ -z "$servers$waiters$holder" ] || kill $servers $waiters $holder 2>/dev/null || true; wait; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

against_c() { # PROGRAM LIMIT HOW [SERVER]
  name="dblock run / C program, $3${4:+, $4}"
  if [ ! -x "$bench/$1" ]; then
    skip "$name" "$2" "not built: no static libraries"
    return
  fi
  compare "$name" "$2" "dblock run${4:+, $4}" "C program, $3${4:+, $4}" "$dblock" run --key bench -- true ::: \
    "$bench/$1" "$DBLOCK_SOCKET" dblock bench-c true
}

# The store in a file, in a directory as --local makes it, but on the disk of the servers.
against_flock() {
  store=sqlite:$work/local/locks.db
  mkdir -m 700 "$work/local"
  "$dblock" --db "$store" run --key bench -- true
  compare "dblock run --local / flock" "<= 1.5" "dblock run --local" flock \
    "$dblock" --db "$store" run --key bench -- true ::: flock "$work/flock" true
  shape="C program, SQLite / flock"
  if [ ! -x "$bench/bench_baseline_local" ]; then
    skip "$shape" "" "not built: no static libraries"
    return
  fi
  compare "$shape" "" "C program, SQLite" flock \
    "$bench/bench_baseline_local" "$work/local/shape.db" true ::: flock "$work/flock" true
}

handoff() { # WAITERS LIMIT-OF-MEDIAN LIMIT-OF-P99
  name="handoff, $1 in line / update"
  if ! "$bench/bench_handoff" "$1" >"$work/handoff"; then
    broken "$name" "$2"
    return
  fi
  read -r _ update u1 u3 _ median q1 q3 _ p99 _ count <"$work/handoff"
  more="\"handoffs\": $count, \"update_us\": {\"median\": $update, \"quartiles\": [$u1, $u3]}"
  more="$more, \"handoff_us\": {\"median\": $median, \"quartiles\": [$q1, $q3], \"p99\": $p99}"
  row "$name, median" "$(awk "BEGIN { printf \"%.2f\", $median / $update }")" "" "$2" \
    "$median us ($q1 to $q3) / $update us ($u1 to $u3); $count handoffs" "$more"
  row "$name, p99" "$(awk "BEGIN { printf \"%.2f\", $p99 / $update }")" "" "$3" "$p99 us / $update us" "$more"
}

handoffs() {
  sql "SET GLOBAL max_connections = 700"
  for n in 1 10 100; do
    handoff $n "<= 2" "<= 6"
  done
  if awk '/^Max open files/ { exit $4 >= 1024 }' /proc/self/limits; then
    skip "handoff, 500 in line / update" "" "fewer than 1024 open files allowed"
  elif awk '/^MemAvailable:/ { exit $2 >= 2097152 }' /proc/meminfo; then
    skip "handoff, 500 in line / update" "" "less than 2 GiB of memory free"
  else
    handoff 500 "" "" # no budget: the promise ends at 100
  fi
}

repeat() { # COUNT COMMAND...
  n=$1 && shift
  while [ "$n" -gt 0 ]; do
    "$@"
    n=$((n - 1))
  done
}

# shellcheck disable=SC2317 # called by statements_during
runs() { # COUNT
  repeat "$1" "$dblock" run --key bench -- true
}

# In turns, so that what else the server does falls on both. A tick is a hundredth of a second.
server_time() {
  ours=0 theirs=0 rounds=20 each=100
  for _ in $(seq $rounds); do
    ours=$((ours + $(added_during server_ticks runs $each)))
    theirs=$((theirs + $(added_during server_ticks repeat $each "$bench/bench_baseline" "$DBLOCK_SOCKET" dblock bench-c true)))
  done
  row "server's time, dblock run / C program" "$(awk "BEGIN { printf \"%.2f\", $ours / $theirs }")" "" "<= 1.7" \
    "$(awk "BEGIN { printf \"%.2f ms / %.2f ms\", $ours * 10 / $rounds / $each, $theirs * 10 / $rounds / $each }") a run, unflushed"
}

# shellcheck disable=SC2317 # called by await
hundred_in_line() {
  [ "$(sql "SELECT COUNT(*) FROM dblock_waiter WHERE lock_key = 'bench-idle'")" -eq 100 ]
}

# Real processes, as they would wait on a hundred hosts. The lease is one of `acquire`: it has no session whose end would
# wake the first waiter, so the first waiter looks often. The others sleep, and look at the lock every 30 to 60 s.
idle_waiters() {
  name="statements a second of 100 idle waiters"
  "$dblock" acquire --key bench-idle --ttl 1h >"$work/acquired"
  n=100
  while [ $n -gt 0 ]; do
    "$dblock" run --key bench-idle --wait 10m -- true >/dev/null 2>&1 &
    waiters="$waiters $!"
    n=$((n - 1))
  done
  if await hundred_in_line; then
    sleep 50
    row "$name" "$(awk "BEGIN { printf \"%.1f\", $(statements_during sleep 30) / 30 }")" "" "<= 20" "counted for 30 s"
  else
    broken "$name" "<= 20"
  fi
  # shellcheck disable=SC2086 # process ids
  {
    kill $waiters
    wait $waiters || true
  } 2>/dev/null
  waiters=
}

# Private memory of a run while its job sleeps: dblock and its guardian, not the job.
private_kib() {
  awk '/^Private_(Clean|Dirty):/ { sum += $2 } END { print sum }' "/proc/$1/smaps_rollup"
}

measure_process() {
  # shellcheck disable=SC2016 # expanded by the inner shell
  "$dblock" run --key bench-memory -- sh -c 'echo started >"$0"; exec sleep 600' "$work/started" 2>/dev/null &
  holder=$!
  await test -s "$work/started"
  sleep 1 # past the first lines of the heartbeat thread
  guardian=$(cat "/proc/$holder"/task/*/children | awk '{ print $1; exit }')
  own=$(private_kib "$holder") guardians=$(private_kib "$guardian")
  row "private memory of a run" "$(awk "BEGIN { printf \"%.1f\", ($own + $guardians) / 1024 }")" MiB "<= 4" \
    "dblock $own KiB, its guardian $guardians KiB"
  row "shared libraries mapped" "$(awk '$6 ~ /\.so/ { print $6 }' "/proc/$holder/maps" | sort -u | wc -l)" "" ""
  kill "$holder"
  wait "$holder" 2>/dev/null || true
  holder=
}

count_forks() {
  if ! command -v strace >/dev/null; then
    skip "processes and threads made by a run" "" "no strace"
    return
  fi
  strace -f -qq -e trace=fork,vfork,clone,clone3 -o "$work/strace" "$dblock" run --key bench -- true
  row "processes and threads made by a run" \
    "$(grep -cE '(fork|clone3?)\(.*= [0-9]+$|resumed>.*= [0-9]+$' "$work/strace")" "" ""
}

sql "CREATE TABLE bench_lock (name VARBINARY(255) PRIMARY KEY, owner VARBINARY(255), expires DATETIME(6));
     INSERT INTO bench_lock VALUES ('bench', NULL, NULL)"
"$dblock" run --key bench-c -- true
runs 100
sync # the new data directory is on disk: nothing is left that would be written during the first comparison

load_before=$(load)
machine=$(describe_machine "$work")
versions=$(describe_versions "$dblock" "$(sql 'SELECT VERSION()')")
print_facts "$machine" "$versions" "$load_before"
start_report "$work/rows"
against_c bench_baseline "<= 1.0" shared
against_c bench_baseline_static "<= 1.2" static
sql "SET GLOBAL innodb_flush_log_at_trx_commit = 0"
against_c bench_baseline "<= 1.0" shared unflushed
server_time
sql "SET GLOBAL innodb_flush_log_at_trx_commit = 1"
against_flock
against_mariadb_script
against_etcd
against_consul
against_redis
handoffs
row "statements of a run" "$(awk "BEGIN { print $(statements_during runs 20) / 20 }")" "" "<= 3" "mean of 20 runs"
idle_waiters
measure_process
count_forks
write_json "$machine" "$versions" "$load_before" >"$json"
warn_when_busy "$load_before"
printf '\nload after %s; written: %s\n' "$(load)" "$json"
if over_budget; then exit 1; fi
