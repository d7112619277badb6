#!/bin/sh
# guards.sh - what an uncontended lock costs, in numbers that do not depend on how busy the machine is.
#
#   tests/bench/guards.sh [BUILD_DIR]        (default: build/release)
#
# Counts system calls, page faults, statements and shared libraries of `dblock run -- true`, and the instructions of
# `dblock acquire`: valgrind does not know a system call that `run` needs. Exits 1 when a number is over its limit, which
# is the number measured on Debian 12 (x86-64) and a twentieth more; of page faults, which depend on the kernel, a tenth
# more. A limit that is far above its number is to be lowered. Needs strace, GNU time, valgrind and a server's programs
# (Debian: mariadb-server-core mariadb-client).
# shellcheck disable=SC2317 # functions are called by middle
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

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 700 "$work"
: >"$work/options" # the option files of this machine are not read
over=0

guard() { # WHAT NUMBER LIMIT
  verdict=ok
  if [ "$2" -gt "$3" ]; then
    verdict=OVER
    over=1
  fi
  printf '%-44s %9s  limit %9s  %s\n' "$1" "$2" "$3" "$verdict"
}

# The middle of five runs of a command that prints a number.
middle() {
  for _ in 1 2 3 4 5; do "$@"; done | sort -n | sed -n 3p
}

lock() { # STORE SUBCOMMAND [ARG...]: with nothing of this machine's configuration
  store=$1
  shift
  "$dblock" --db "$store" --defaults-file "$work/options" --config "$work/options" "$@"
}

traced() { # STORE: the system calls of all processes of a run
  strace -f -qq -o "$work/calls" "$dblock" --db "$1" --defaults-file "$work/options" --config "$work/options" \
    run --key guard -- /bin/true
  grep -cvE 'resumed>|^[0-9]+ (\+\+\+|---)' "$work/calls"
}

libraries() { # of dblock itself: those that are opened before the guardian is forked
  traced "$1" >/dev/null
  sed -n '/clone/q; p' "$work/calls" | grep -c 'openat(.*\.so[.0-9]*".* = [0-9]'
}

faults() {
  /usr/bin/time -f %R -o "$work/faults" "$dblock" --db "$1" --defaults-file "$work/options" --config "$work/options" \
    run --key guard -- /bin/true
  cat "$work/faults"
}

instructions() {
  rm -f "$work"/callgrind.*
  valgrind --tool=callgrind --callgrind-out-file="$work/callgrind.%p" "$dblock" --db "$1" \
    --defaults-file "$work/options" --config "$work/options" acquire --key guard-i --ttl 1h >"$work/owner" 2>"$work/log" || {
    cat "$work/log" >&2
    exit 1
  }
  lock "$1" release --key guard-i --owner "$(cat "$work/owner")"
  cat "$work"/callgrind.* | awk '/^(summary|totals):/ { sum = $2 } END { print sum }'
}

# A prepared statement counts when it is prepared and when it is executed.
statements() {
  mariadb --no-defaults --socket="$DBLOCK_SOCKET" --user=root --batch --skip-column-names dblock --execute="
    SELECT SUM(VARIABLE_VALUE) FROM information_schema.GLOBAL_STATUS
     WHERE VARIABLE_NAME = 'COM_STMT_PREPARE'
        OR (VARIABLE_NAME LIKE 'COM\_%' AND VARIABLE_NAME NOT LIKE 'COM\_STMT\_%')"
}

server=$DBLOCK_DB
unset DBLOCK_DB
embedded=sqlite:$work/locks.db
for store in "$server" "$embedded"; do
  lock "$store" run --key guard -- /bin/true
  lock "$store" run --key guard-i -- /bin/true
done

before=$(statements)
own=$(($(statements) - before))
before=$(statements)
lock "$server" run --key guard -- /bin/true
guard 'statements of a run' $(($(statements) - before - own)) 3
guard 'libraries of a run, besides the linker' "$(libraries "$server")" 1
guard 'system calls of a run on a server' "$(middle traced "$server")" 394
guard 'page faults of a run on a server' "$(middle faults "$server")" 366
guard 'instructions of acquire on a server' "$(middle instructions "$server")" 1711000
guard 'system calls of a run on the embedded store' "$(middle traced "$embedded")" 549
guard 'page faults of a run on the embedded store' "$(middle faults "$embedded")" 390
guard 'instructions of acquire, embedded store' "$(middle instructions "$embedded")" 2735000
exit $over
