#!/bin/bash
# handoff_local.sh - how soon the next job starts when a lock is given back: the embedded store against flock(1).
#
#   tests/bench/handoff_local.sh [--rounds N] [--waiters N] [BUILD_DIR]    (default: 50, 20, build/release)
#
# One waiter: from the end of the holder's job to the start of the next, rounds of both in turn, medians.
# Many waiters: the time between the starts of two jobs in a row, all waiting for the same lock.
# Only the ratios mean anything elsewhere.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
rounds=50
waiters=20
while [ $# -gt 1 ]; do
  case $1 in
    --rounds) rounds=$2 ;;
    --waiters) waiters=$2 ;;
    *) echo "handoff_local.sh: unknown option $1" >&2; exit 64 ;;
  esac
  shift 2
done
dblock=${1:-$root/build/release}/src/dblock
[ -x "$dblock" ] || {
  echo "handoff_local.sh: $dblock is missing; build with: cmake --workflow --preset release" >&2
  exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
"${CC:-cc}" -O2 -o "$work/stamp" "$here/handoff_stamp.c"
mkfifo "$work/go"
mkdir -m 700 "$work/db"

# Runs a job under TOOL's lock, waiting for it.
under() {
  case $1 in
    flock) flock "$work/lock" "${@:2}" ;;
    dblock) "$dblock" run --db "sqlite:$work/db/locks.db" --key handoff --wait 60s -- "${@:2}" ;;
  esac
}

# The holder's job has begun when it has the pipe open: only then does opening the other end not block. A
# waiter says nothing when it begins to wait, so it gets a moment.
round() { # TOOL WAITERS
  local i
  rm -f "$work/ended" "$work/started"
  under "$1" "$work/stamp" "$work/ended" "$work/go" &
  exec 9>"$work/go"
  for ((i = 0; i < $2; i++)); do
    under "$1" "$work/stamp" "$work/started" 9>&- &
  done
  sleep "$(printf '%d.%03d' $((($2 * 10 + 150) / 1000)) $((($2 * 10 + 150) % 1000)))"
  exec 9>&-
  wait
}

# Sorted numbers on stdin: median and 99th percentile in microseconds.
summary() {
  sort -n | awk '{ v[NR] = $1 } END { if (NR) printf "%8.0f %8.0f\n", v[int((NR + 1) / 2)] / 1000, v[int(NR * 0.99 + 0.99)] / 1000 }'
}

for ((r = 0; r < rounds; r++)); do
  for tool in flock dblock; do
    round "$tool" 1
    echo $(($(cat "$work/started") - $(cat "$work/ended"))) >>"$work/$tool.one"
  done
done
for ((r = 0; r < (rounds + 9) / 10; r++)); do
  for tool in flock dblock; do
    round "$tool" "$waiters"
    sort -n "$work/started" | awk 'NR > 1 { print $1 - last } { last = $1 }' >>"$work/$tool.many"
  done
done

printf '%-34s %8s %8s\n' 'microseconds' median p99
for tool in flock dblock; do
  printf '%-34s %s\n' "$tool: end of job to next start" "$(summary <"$work/$tool.one")"
done
for tool in flock dblock; do
  printf '%-34s %s\n' "$tool: start to start, $waiters waiters" "$(summary <"$work/$tool.many")"
done
