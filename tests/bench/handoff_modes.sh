#!/bin/sh
# handoff_modes.sh - how soon the one that waits gets a lock that nobody wakes it for, in each mode and store.
#
#   tests/bench/handoff_modes.sh [BUILD_DIR]        (default: build/release)
#
# Two minutes; milliseconds, medians and 99th percentiles of 100 handoffs, all rows at the same time. Exits 1 when a
# 99th percentile is over 200 ms, the longest time between two looks of the first waiter, and two updates. The server is a
# throw-away below $TMPDIR. README.md beside this script says what each row is.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${1:-$root/build/release}
dblock=$build/src/dblock
bench=$build/tests/bench/bench_handoff
[ -x "$dblock" ] || {
  echo "handoff_modes.sh: $dblock is missing; build with: cmake --workflow --preset release" >&2
  exit 1
}
if [ -z "${DBLOCK_SOCKET-}" ]; then
  cmake --build "$build" --target bench_handoff >&2
  DBLOCK=$dblock exec "$root/tests/with-mariadb.sh" "$0" "$build"
fi

work=$(mktemp -d)
trap 'wait; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

measure() { # NAME DATABASE MODE
  DBLOCK_DB=$2 "$bench" 1 "$3" >"$work/$1.row" &
}

measure brief "$DBLOCK_DB&connection=brief" exclusive
for mode in exclusive shared slots keys; do
  measure "$mode" "$DBLOCK_DB" $mode
  "$dblock" --db "sqlite:$work/$mode.db" run --key first -- true
  measure "local-$mode" "sqlite:$work/$mode.db" $mode
done
wait
printf '%-16s %8s %8s %8s\n' mode update median p99
status=0
for name in exclusive brief shared slots keys local-exclusive local-shared local-slots local-keys; do
  awk -v name=$name '{ printf "%-16s %8.1f %8.1f %8.1f\n", name, $2 / 1000, $6 / 1000, $10 / 1000; over = $10 - 2 * $2 > 200000 }
    END { exit over || NR == 0 }' "$work/$name.row" || status=1
done
exit $status
