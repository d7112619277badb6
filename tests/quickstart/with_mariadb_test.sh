#!/bin/sh
# Checks tests/with-mariadb.sh: exit codes pass through, stdin reaches the command, and neither server nor
# directory outlives the script, even when it is killed outright. Argument: the script.
set -u

script=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
TMPDIR=$work # so that leftovers are seen
export TMPDIR
failed=0

check() { # DESCRIPTION EXPECTED ACTUAL
  if [ "$2" = "$3" ]; then
    echo "ok: $1"
  else
    echo "FAILED: $1: expected '$2', got '$3'"
    failed=1
  fi
}

leftovers() {
  find "$work" -maxdepth 1 -name 'dblock-mariadb.*' | wc -l
}

# Waits up to 10 s for a condition given as a command.
eventually() {
  tries=100
  until "$@"; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || return 1
    sleep 0.1
  done
}

# shellcheck disable=SC2317 # called by `eventually`
no_leftovers() {
  [ "$(leftovers)" = 0 ]
}

# shellcheck disable=SC2016 # expanded by the inner shell
answer=$(echo "from stdin" | "$script" sh -c '
  mariadb --no-defaults --socket="$DBLOCK_SOCKET" --user=root --batch --skip-column-names \
    --execute="SELECT DATABASE()" dblock
  cat
  exit 42')
check "the command's exit code is passed on" 42 $?
check "the database is there and stdin is the caller's" "dblock
from stdin" "$answer"
check "nothing is left after a normal end" 0 "$(leftovers)"

MARIADBD_ARGS=--no-such-option "$script" true 2>"$work/stderr"
check "a server that does not start is 125" 125 $?
check "its last words are shown" 1 "$(grep -c 'unknown option' "$work/stderr")"
check "nothing is left after a failed start" 0 "$(leftovers)"

DBLOCK=false "$script" true 2>/dev/null
check "a failed migration is 125" 125 $?

# shellcheck disable=SC2016
"$script" sh -c 'echo $$ >"$1"; exec sleep 300' sh "$work/pid" &
victim=$!
eventually test -s "$work/pid"
kill -9 $victim
wait $victim 2>/dev/null
eventually no_leftovers
check "nothing is left after kill -9 of the script" 0 "$(leftovers)"
kill "$(cat "$work/pid")" 2>/dev/null

exit $failed
