#!/bin/sh
# waiting.sh - applications that wait for a lock beside runs: in the line, and without a place in it.
#
#   tests/bench/waiting.sh [--rounds N] [--seconds N] [--clients N] [BUILD_DIR]   (default: 3, 20, 50, build/release)
#
# CLIENTS applications and as many loops of `dblock run --wait` want one lock, and hold it for 20 ms each. The two ways to
# wait take turns; each value is the median of the rounds. README.md beside this script says what each row is.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
rounds=3 seconds=20 clients=50
while [ $# -gt 1 ]; do
  case $1 in
    --rounds) rounds=$2 ;;
    --seconds) seconds=$2 ;;
    --clients) clients=$2 ;;
    *) echo "waiting.sh: unknown option $1" >&2 && exit 64 ;;
  esac
  shift 2
done
build=${1:-$root/build/release}
dblock=$build/src/dblock
program=$build/tests/bench/bench_waiting
[ -x "$program" ] || {
  echo "waiting.sh: $program is missing; build with: cmake --workflow --preset release" >&2
  exit 1
}
if [ -z "${DBLOCK_SOCKET-}" ]; then
  MARIADBD_ARGS="--max-connections=400 ${MARIADBD_ARGS-}" DBLOCK=$dblock exec "$root/tests/with-mariadb.sh" "$0" \
    --rounds "$rounds" --seconds "$seconds" --clients "$clients" "$build"
fi

# shellcheck source=/dev/null
. "$here/report.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# What clients have sent. The statements inside a procedure do not count here, but in report.sh's statements().
questions() {
  counters "VARIABLE_NAME = 'QUESTIONS'"
}

# Appends a line to $work/HOW: the program's, then statements and sent statements a second, and the share of a processor
# that the server took, in percent.
measure() { # HOW
  statements=$(statements) questions=$(questions) ticks=$(server_ticks)
  line=$("$program" "$dblock" "$1" "$clients" "$clients" 20 "$seconds" 2>"$work/log")
  statements=$(($(statements) - statements)) questions=$(($(questions) - questions)) ticks=$(($(server_ticks) - ticks))
  echo "$line $((statements / seconds)) $((questions / seconds)) $((ticks * 100 / $(getconf CLK_TCK) / seconds))" \
    >>"$work/$1"
}

middle() { # HOW COLUMN
  awk -v column="$2" '{ print $column }' "$work/$1" | sort -n | sed -n "$(((rounds + 1) / 2))p"
}

show() { # HOW TITLE
  row "$2: turns of applications" "$(middle "$1" 2)" "" "" \
    "wait $(middle "$1" 3) ms in the median, $(middle "$1" 4) ms at the longest"
  row "$2: turns of runs" "$(middle "$1" 6)" "" "" \
    "wait $(middle "$1" 7) ms in the median, $(middle "$1" 8) ms at the longest"
  row "$2: statements a second" "$(middle "$1" 9)" "" "" \
    "$(middle "$1" 10) of them sent by clients; server $(middle "$1" 11) % of a processor"
}

n=0
while [ $n -lt "$rounds" ]; do
  measure line
  measure no-place
  n=$((n + 1))
done
echo "$clients applications and $clients runs, $seconds s, medians of $rounds rounds"
start_report "$work/rows"
show line 'in line'
show no-place 'without a place'
