#!/bin/sh
# growth.sh - what dblock costs when there is much of it: loops at once, holders, waiters, both, keys.
#
#   tests/bench/growth.sh [--quick] [--only throughput|holders|waiters|crowd|keys] [--json FILE] [BUILD_DIR]
#
# Default: build/release, and growth.json in the build directory; 25 minutes. --quick divides the numbers and ends after
# two minutes: a check of this script, not a measurement. --only measures one of the parts.
#
# Prints a table. The server is a throw-away below $TMPDIR, and shares the processors with all the programs that load it:
# the server's own processor time for a run is what travels to another machine, runs a second are not. Exits 1 when
# something is over its limit or broke off. README.md beside this script says what each row is.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
quick=
parts="throughput holders waiters crowd keys"
json=
with_server=
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=--quick && shift ;;
    --only) parts=${2:?--only needs a part} && shift 2 ;;
    --json) json=${2:?--json needs a file} && shift 2 ;;
    --with-server) with_server=yes && shift ;; # this script's own second start, below
    -*) echo "growth.sh: unknown option $1" >&2 && exit 64 ;;
    *) break ;;
  esac
done
build=${1:-$root/build/release}
json=${json:-$build/growth.json}
dblock=$build/src/dblock
# shellcheck disable=SC2034 # report.sh uses it
bench=$build/tests/bench
for program in "$dblock" "$bench/bench_pairs"; do
  [ -x "$program" ] || {
    echo "growth.sh: $program is missing; build with: cmake --workflow --preset release" >&2
    exit 1
  }
done
if [ -z "$with_server" ]; then
  # A million rows stay in memory, as on a server that has been given some.
  MARIADBD_ARGS="--innodb-buffer-pool-size=1G --innodb-log-file-size=256M ${MARIADBD_ARGS-}"
  export MARIADBD_ARGS
  # shellcheck disable=SC2086 # $quick is nothing or one word
  DBLOCK=$dblock exec "$root/tests/with-mariadb.sh" "$0" --with-server $quick --only "$parts" --json "$json" "$build"
fi
if [ -z "$quick" ]; then
  point=4 own_loops="1 2 4 8 16 32 64" one_loops="1 4 16 64"
  window=30 some=100 many=1000 lines="10 100 500" settling=50 crowded_for=600
  few_keys=100 more_keys=10000 most_keys=1000000 idle_keys=100000
else
  point=1 own_loops="1 8" one_loops="1 8"
  window=3 some=10 many=100 lines="10 50" settling=3 crowded_for=20
  few_keys=100 more_keys=1000 most_keys=100000 idle_keys=10000
fi
# shellcheck disable=SC2034 # report.sh uses it
pairs=${quick:+30} pairs=${pairs:-150}

# shellcheck source=/dev/null
. "$here/report.sh"
work=$(mktemp -d)
crowd= # the runs that hold or wait
holds_by='' holds_for='' # options of those that hold, before and after `run`
# shellcheck disable=SC2086 # process ids
trap 'rm -f "$work/go"; [ -z "$crowd" ] || kill $crowd 2>/dev/null || true; wait; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

few="${DBLOCK_DB%/dblock\?*}/dblock_few?${DBLOCK_DB#*\?}"
local=sqlite:$work/local/locks.db
ticks_a_second=$(getconf CLK_TCK)

fail() {
  echo "growth.sh: $*" >&2
  exit 1
}

of() { # DIGITS A-FORMULA
  awk "BEGIN { printf \"%.$1f\", $2 }"
}

# Seconds, in steps so that this ends soon after the server or this script has been ended.
rest() { # SECONDS
  left=$1
  while [ "$left" -gt 0 ]; do
    sleep 1
    [ -S "$DBLOCK_SOCKET" ] || fail "the server has ended"
    left=$((left - 1))
  done
}

now() { # seconds
  cut -d ' ' -f 1 /proc/uptime
}

before=$(statements)
asking=$(($(statements) - before)) # what asking costs

# Runs a command. Sets $seconds, the $cpu_ms of the server and the statements $asked meanwhile.
observe() { # COMMAND...
  asked_before=$(statements) from=$(now) ticks=$(server_ticks)
  "$@" || return 1
  seconds=$(of 2 "$(now) - $from")
  cpu_ms=$(of 0 "($(server_ticks) - $ticks) * 1000 / $ticks_a_second")
  asked=$(($(statements) - asked_before - asking))
}

# Load by loops of runs ----------------------------------------------------------------------------------------------

# One loop of runs, while the file `go` is there. Leaves how many, and the longest in hundredths of a second.
run_loop() { # FILE KEY [OPTION...]
  file=$1 key=$2 count=0 longest=0
  shift 2
  until [ -e "$work/go" ]; do sleep 0.02; done
  while [ -e "$work/go" ]; do
    read -r up _ </proc/uptime
    start=${up%.*}${up#*.}
    "$dblock" run --key "$key" "$@" -- true || break
    read -r up _ </proc/uptime
    up=$((${up%.*}${up#*.} - start))
    [ $up -le $longest ] || longest=$up
    count=$((count + 1))
  done
  [ -e "$work/go" ] || echo "$count $longest" >"$file"
}

# Loops of runs beside a command. Sets $cycles and the $longest in seconds. A key that ends in / gets the loop's number.
loops() { # COUNT KEY BESIDE [OPTION...]
  count=$1 prefix=$2 beside=$3 looping=
  shift 3
  rm -f "$work"/loop.*
  n=0
  while [ $n -lt "$count" ]; do
    n=$((n + 1))
    case $prefix in
      */) run_loop "$work/loop.$n" "$prefix$n" "$@" & ;;
      *) run_loop "$work/loop.$n" "$prefix" "$@" & ;;
    esac
    looping="$looping $!"
  done
  : >"$work/go"
  $beside
  rm -f "$work/go"
  # shellcheck disable=SC2086 # process ids
  wait $looping
  [ "$(cat "$work"/loop.* 2>/dev/null | wc -l)" = "$count" ] || return 1 # a run failed
  # shellcheck disable=SC2046 # two numbers
  set -- $(awk '{ sum += $1 } $2 > most { most = $2 } END { printf "%d %.2f", sum, most / 100 }' "$work"/loop.*)
  cycles=$1 longest=$2
}

throughput() { # NAME COUNT KEY BESIDE [OPTION...]
  title=$1
  shift
  if ! observe loops "$@"; then
    broken "$title" ""
    return
  fi
  rate=$(of 0 "$cycles / $seconds") ms=$(of 3 "$cpu_ms / $cycles") each=$(of 2 "$asked / $cycles")
  row "$title" "$rate" /s "" "server $ms ms CPU and $each statements a run; longest $longest s" \
    "\"server_cpu_ms_per_run\": $ms, \"statements_per_run\": $each, \"longest_s\": $longest"
}

throughputs() {
  for n_loops in $own_loops; do
    throughput "runs, $n_loops loops, a key each" "$n_loops" loop/ "rest $point"
  done
  for n_loops in $one_loops; do
    throughput "runs, $n_loops loops, one key" "$n_loops" one "rest $point" --wait forever
  done
  start hold 1 1
  await are_held 1 || fail "the holder did not start"
  throughput "refused runs, 4 loops, one key" 4 held/1 "rest $point" -E 0
  end_crowd
}

# Load by holders and waiters ----------------------------------------------------------------------------------------

hold() { # NUMBER
  # shellcheck disable=SC2086 # options
  "$dblock" $holds_by run --key "held/$1" $holds_for -- sleep 3600 >/dev/null 2>&1 &
  crowd="$crowd $!"
}

queue() { # NUMBER: waits, as $waits_by says, for one of the keys held/1 to held/$queues
  # shellcheck disable=SC2086 # options
  "$dblock" run --key "held/$(($1 % queues + 1))" $waits_by -- true >/dev/null 2>&1 &
  crowd="$crowd $!"
}

start() { # hold|queue FROM TO
  n=$2
  while [ "$n" -le "$3" ]; do
    "$1" "$n"
    [ $((n % 20)) != 0 ] || sleep 0.1
    n=$((n + 1))
  done
}

end_crowd() {
  # shellcheck disable=SC2086 # process ids
  {
    kill $crowd || true
    wait $crowd || true
  } 2>/dev/null
  crowd=
}

# shellcheck disable=SC2317 # called by await
are_held() { # COUNT
  [ "$(sql "SELECT COUNT(*) FROM dblock_lock WHERE expire_time > UTC_TIMESTAMP(6)")" -ge "$1" ]
}

status() { # VARIABLE
  sql "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = '$1'"
}

available_kib() {
  awk '/^MemAvailable:/ { print $2 }' /proc/meminfo
}

# Time of a run of another key against that of a run on the embedded store, whose ratio a busy machine moves little.
# The ratio is kept for the fit.
cost() { # FIT BESIDE
  compare "run, beside $2" "" "dblock run" "dblock run --local" "$dblock" run --key other -- true ::: \
    "$dblock" --db "$local" run --key other -- true
  # shellcheck disable=SC2154 # compare's line of numbers
  echo "$line" | awk 'NF == 10 { print $8 }' >>"$work/$1"
}

crowd_row() { # NAME
  connects=$(status Connections)
  observe rest "$window"
  connects=$(of 1 "($(status Connections) - $connects - 3) / $seconds") # less our own
  per_second=$(of 1 "$asked / $seconds") percent=$(of 1 "$cpu_ms / $seconds / 10")
  open=$(($(status Threads_connected) - 1)) most=$(sql 'SELECT @@max_connections')
  row "$1, statements" "$per_second" /s "" \
    "server $percent % of a core; $open connections of $most, $connects new ones a second" \
    "\"server_cpu_percent\": $percent, \"connections\": $open, \"connects_per_second\": $connects, \"seconds\": $seconds"
}

holders() {
  sql "SET GLOBAL max_connections = 2000"
  cost holders "no holder"
  start hold 1 "$some"
  await are_held "$some" || fail "the holders did not start"
  cost holders "$some holders"
  free=$(available_kib)
  start hold $((some + 1)) "$many"
  if await are_held "$many"; then
    cost holders "$many holders"
    crowd_row "$many holders"
    row "$many holders, memory of each" "$(of 1 "($free - $(available_kib)) / 1024 / ($many - $some)")" MiB "" \
      "of the machine: dblock, guardian, job, and the server's part"
  else
    broken "$many holders, statements" ""
  fi
  end_crowd
}

line_lengths() {
  queues=1 waiting=0
  start hold 1 1
  await are_held 1 || fail "the holders did not start"
  cost waiters "no waiter"
  for length in $lines; do
    start queue $((waiting + 1)) "$length"
    waiting=$length
    rest 2
    cost waiters "$length waiters of one key"
  done
  end_crowd
}

waiters() { # NAME SECONDS-TO-SETTLE
  queues=10
  start hold 1 $queues
  await are_held $queues || fail "the holders did not start"
  start queue 1 "$many"
  rest "$2"
  crowd_row "$many waiters of 10 keys$1"
  cost beside "$many waiters$1"
  end_crowd
}

# shellcheck disable=SC2317 # called by await
are_waiting() { # COUNT
  [ "$(sql "SELECT COUNT(*) FROM dblock_waiter")" -ge "$1" ]
}

alive() { # of the crowd
  # shellcheck disable=SC2086 # process ids
  ps -o pid= -p "$(echo $crowd | tr ' ' ,)" | wc -l
}

# Many holders, and as many waiters, on a server of few connections. Nobody may lose a lease, and with it the job.
few_connections() {
  sql "SET GLOBAL max_connections = 151"
  title="$many holders (TTL 2m)" queues=10 waits_by="--wait forever"
  holds_by="--db $DBLOCK_DB&connection=brief" holds_for="--ttl 2m --wait 5m"
  start hold 1 "$many"
  await are_held "$many" || fail "the holders did not start"
  crowd_row "$title, connection=brief"
  start queue 1 "$many"
  await are_waiting "$many" || fail "the waiters did not come"
  sql "FLUSH STATUS"
  rest "$crowded_for"
  row "$title and $many waiters of 10 keys, left after $crowded_for s" "$(alive)" "" "== $((2 * many))" \
    "at most $(status Max_used_connections) connections of 151"
  crowd_row "$title and $many waiters of 10 keys"
  end_crowd
  holds_by='' holds_for=''
}

all_waiters() {
  sql "SET GLOBAL max_connections = 2000"
  waits_by="--wait forever"
  line_lengths
  waiters "" "$settling" # a new waiter looks at the lock when it comes, then every 30 to 60 s
  sql "SET GLOBAL max_connections = 151"
  waiters ", most unconnected" 10
  sql "SET GLOBAL max_connections = 2000"
  waits_by="--attempts 10 --backoff 30s"
  waiters ", --attempts, 30 s apart" 1
}

# A table of many keys -----------------------------------------------------------------------------------------------

insert_keys() { # DATABASE PREFIX FROM TO AGE HELD
  sql "INSERT INTO $1.dblock_lock (lock_key, lock_value, create_time, update_time, expire_time, token, version,
         lock_count, kind, ttl_us, margin_us, holder_host, holder_pid, holder_user, holder_command, holder_note)
       SELECT CONCAT('$2/', seq), IF($6, CONCAT('owner-', seq), NULL), UTC_TIMESTAMP(6) - INTERVAL $5,
         UTC_TIMESTAMP(6) - INTERVAL $5, IF($6, UTC_TIMESTAMP(6) + INTERVAL 1 DAY, NULL), 1000000 + seq, 1, $6, 'run',
         120000000, 3000000, 'host.example.com', 4711, 'etl', '/usr/local/bin/etl.sh', ''
       FROM seq_$3_to_$4;
       INSERT INTO $1.dblock_fence (lock_key, slot, token)
       SELECT CONCAT('$2/', seq), 0, 1000000 + seq FROM seq_$3_to_$4;
       ANALYZE TABLE $1.dblock_lock, $1.dblock_fence" >/dev/null
}

# shellcheck disable=SC2317 # called by await
is_written() {
  [ "$(status Innodb_buffer_pool_pages_dirty)" -lt 200 ]
}

# Nothing is left that the server would write to disk during the next comparison.
settle() {
  sql "SET GLOBAL innodb_max_dirty_pages_pct = 0"
  await is_written || true
  sql "SET GLOBAL innodb_max_dirty_pages_pct = DEFAULT"
}

against_few() { # KEYS NAME LIMIT ARGUMENT... of dblock
  title="$2, $1 / $few_keys keys" limit=$3
  shift 3
  compare "$title" "$limit" "many keys" "few keys" "$dblock" --db "$DBLOCK_DB" "$@" ::: "$dblock" --db "$few" "$@"
}

fill_more() { # FROM TO
  insert_keys dblock bulk "$1" "$2" "0 DAY" FALSE
  settle
  against_few "$2" "run" "<= 2" run --key bulk/50 -- true
  echo "$line" | awk 'NF == 10 { print $8 }' >>"$work/keys"
  inspect_all "$2"
}

inspect_all() { # KEYS
  title="inspect --all --json of $1 keys"
  if [ ! -x /usr/bin/time ]; then
    skip "$title" "" "GNU time is not installed"
  elif ! /usr/bin/time -f '%e %M' -o "$work/time" "$dblock" inspect --all --json >"$work/listing"; then
    broken "$title" ""
  else
    read -r took kib <"$work/time"
    row "$title, time" "$took" s "" "$(of 0 "$(wc -c <"$work/listing") / 1048576") MiB of JSON"
    row "$title, memory" "$(of 1 "$kib / 1024")" MiB "" "at its peak"
    echo "$kib" >>"$work/memory"
  fi
  rm -f "$work/listing"
}

# shellcheck disable=SC2317 # called by loops
reap_idle() {
  from_reap=$(now)
  "$dblock" reap --forget-after 1d >/dev/null 2>"$work/reap" || cat "$work/reap"
  reaped_in=$(of 1 "$(now) - $from_reap")
}

reaping() {
  insert_keys dblock idle 1 "$idle_keys" "3 DAY" FALSE
  settle
  against_few "$((most_keys + idle_keys))" "reap --dry-run of $idle_keys idle" "" reap --dry-run --forget-after 1d
  throughput "runs, 4 loops, before reap" 4 loop/ "rest $point"
  throughput "runs, 4 loops, beside reap" 4 loop/ reap_idle
  kept=$(sql "SELECT COUNT(*) FROM dblock_lock WHERE lock_key LIKE 'idle/%'")
  row "reap of $idle_keys idle keys beside them" "$reaped_in" s "" "$kept of them are left"
}

many_keys() {
  "$dblock" --db "$few" migrate >/dev/null
  sql "DELETE FROM dblock_lock; DELETE FROM dblock_fence"
  echo 1 >"$work/keys"
  for database in dblock dblock_few; do
    insert_keys $database bulk 1 $few_keys "0 DAY" FALSE
    insert_keys $database ten 1 10 "0 DAY" TRUE
  done
  fill_more $((few_keys + 1)) $more_keys
  fill_more $((more_keys + 1)) $most_keys
  against_few $most_keys "inspect --key" "<= 2" inspect --key ten/5
  against_few $most_keys "inspect --prefix, 10 hits" "<= 2" inspect --prefix ten/
  # shellcheck disable=SC2016 # expanded by the inner shell
  both='"$0" "$@" release --key bulk/50 --owner "$("$0" "$@" acquire --key bulk/50 --ttl 1m)"'
  compare "acquire and release, $most_keys / $few_keys keys" "<= 2" "many keys" "few keys" \
    sh -c "$both" "$dblock" --db "$DBLOCK_DB" ::: sh -c "$both" "$dblock" --db "$few"
  against_few $most_keys "reap --dry-run, nothing to reap" "" reap --dry-run
  reaping
}

# Largest against smallest of what was measured while one number grew.
fit() { # NAME FILE
  spread=$(sort -n "$work/$2" 2>/dev/null | awk 'NR == 1 { least = $1 } END { if (NR > 1) printf "%.2f", $1 / least }')
  if [ -z "$spread" ]; then
    skip "fit: $1" "" "not measured"
    return
  fi
  judged=$(awk "BEGIN { print $spread <= 1.25 ? \"flat\" : \"not flat\" }")
  row "fit: $1" "$spread" "" "" "$judged: $(paste -s -d ' ' "$work/$2")"
}

sql "CREATE DATABASE dblock_few"
mkdir -m 700 "$work/local"
"$dblock" --db "$local" run --key other -- true
"$dblock" run --key other -- true
load_before=$(load)
machine=$(describe_machine "$work")
versions=$(describe_versions "$dblock" "$(sql 'SELECT VERSION()')" | head -n 4)
print_facts "$machine" "$versions" "$load_before"
start_report "$work/rows"
for part in $parts; do
  case $part in
    throughput) throughputs ;;
    holders) holders ;;
    waiters) all_waiters ;;
    crowd) few_connections ;;
    keys) many_keys ;;
    *) fail "no part is called $part" ;;
  esac
done
fit "run against holders" holders
fit "run against waiters of one other key" waiters
fit "run against keys" keys
fit "memory of inspect --all against keys" memory
write_json "$machine" "$versions" "$load_before" >"$json"
warn_when_busy "$load_before"
printf '\nload after %s; written: %s\n' "$(load)" "$json"
if over_budget; then exit 1; fi
