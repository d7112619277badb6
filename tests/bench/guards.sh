#!/bin/sh
# guards.sh - what an uncontended lock costs, in numbers that do not depend on how busy the machine is.
#
#   tests/bench/guards.sh [BUILD_DIR]        (default: build/release)
#
# Counts system calls, page faults, statements and shared libraries of `dblock run -- true`, what the server receives,
# reads and writes for it, and the instructions of `dblock acquire`: valgrind does not know a system call that `run`
# needs. Exits 1 when a number is over its limit, which is the number measured on Debian 12 (x86-64) and a twentieth
# more; of page faults, which depend on the kernel, a tenth more. A limit that is far above its number is to be lowered.
# Needs strace, GNU time, valgrind and a server's programs (Debian: mariadb-server-core mariadb-client).
# shellcheck disable=SC2317 # functions are called by middle and added_during
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${1:-$root/build/release}
dblock=$build/src/dblock
for program in "$dblock" strace valgrind /usr/bin/time; do
  command -v "$program" >/dev/null || {
    echo "guards.sh: $program is missing" >&2
    exit 1
  }
done
if [ -z "${DBLOCK_SOCKET-}" ]; then
  DBLOCK=$dblock exec "$root/tests/with-mariadb.sh" "$0" "$build"
fi

# shellcheck source=/dev/null
. "$here/report.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 700 "$work"
# Nothing of this machine's configuration is read.
: >"$work/options"
export DBLOCK_DEFAULTS_FILE="$work/options" DBLOCK_CONFIG="$work/options" DBLOCK_HOLDER=guard@host
# The middle of five runs of a command that prints a number.
middle() {
  for _ in 1 2 3 4 5; do "$@"; done | sort -n | sed -n 3p
}

traced() { # STORE: the system calls of all processes of a run
  DBLOCK_DB=$1 strace -f -qq -o "$work/calls" "$dblock" run --key guard -- /bin/true
  grep -cvE 'resumed>|^[0-9]+ (\+\+\+|---)' "$work/calls"
}

libraries() { # of dblock itself: those that are opened before the guardian is forked
  traced "$1" >/dev/null
  sed -n '/clone/q; p' "$work/calls" | grep -c 'openat(.*\.so[.0-9]*".* = [0-9]'
}

faults() {
  DBLOCK_DB=$1 /usr/bin/time -f %R -o "$work/faults" "$dblock" run --key guard -- /bin/true
  cat "$work/faults"
}

instructions() {
  rm -f "$work"/callgrind.*
  DBLOCK_DB=$1 valgrind --tool=callgrind --callgrind-out-file="$work/callgrind.%p" "$dblock" acquire --key guard-i \
    --ttl 1h >"$work/owner" 2>"$work/log" || {
    cat "$work/log" >&2
    exit 1
  }
  DBLOCK_DB=$1 "$dblock" release --key guard-i --owner "$(cat "$work/owner")"
  cat "$work"/callgrind.* | awk '/^(summary|totals):/ { sum = $2 } END { print sum }'
}

received() {
  counters "VARIABLE_NAME = 'BYTES_RECEIVED'"
}

touched() {
  counters "VARIABLE_NAME LIKE 'HANDLER%' AND VARIABLE_NAME NOT IN ('HANDLER_COMMIT', 'HANDLER_PREPARE')"
}

ten_runs() {
  for _ in 1 2 3 4 5 6 7 8 9 10; do "$dblock" run --key guard --note none -- /bin/true; done
}

server=$DBLOCK_DB
embedded=sqlite:$work/locks.db
for store in "$server" "$embedded"; do
  DBLOCK_DB=$store "$dblock" run --key guard -- /bin/true
  DBLOCK_DB=$store "$dblock" run --key guard-i -- /bin/true
done

start_report "$work/rows"
row 'statements of a run' "$(statements_during "$dblock" run --key guard -- /bin/true)" "" "<= 3"
row 'bytes that the server receives in a run' "$(($(added_during received ten_runs) / 10))" "" "<= 5270"
row 'rows that the server reads and writes in a run' "$(($(added_during touched ten_runs) / 10))" "" "<= 20"
row 'libraries of a run, besides the linker' "$(libraries "$server")" "" "<= 1"
row 'system calls of a run on a server' "$(middle traced "$server")" "" "<= 394"
row 'page faults of a run on a server' "$(middle faults "$server")" "" "<= 366"
row 'instructions of acquire on a server' "$(middle instructions "$server")" "" "<= 1711000"
row 'system calls of a run on the embedded store' "$(middle traced "$embedded")" "" "<= 549"
row 'page faults of a run on the embedded store' "$(middle faults "$embedded")" "" "<= 390"
row 'instructions of acquire, embedded store' "$(middle instructions "$embedded")" "" "<= 3119000"
if over_budget; then exit 1; fi
