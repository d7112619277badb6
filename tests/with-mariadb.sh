#!/bin/sh
# with-mariadb.sh - run a command against a throw-away MariaDB server, then remove every trace of it.
#
#   [DBLOCK=path/to/dblock] tests/with-mariadb.sh COMMAND [ARG...]
#
# The server has its own data directory and Unix socket, no network, and an account root without a password.
# COMMAND finds the database in DBLOCK_DB (and the bare socket in DBLOCK_SOCKET); when DBLOCK names a binary,
# `dblock migrate` has run. Exits with COMMAND's exit code; 125 when the server could not be started.
#
#   MARIADBD_ARGS   further options for mariadbd, separated by spaces
#
# A keeper process owns the server and the directory. It reads a pipe that this script alone holds open, so it
# clears up however this script ends, `kill -9` included.
set -u

name=with-mariadb.sh
PATH=$PATH:/usr/sbin:/sbin # mariadbd lives there, and a user's PATH often stops short of it
as_root=
[ "$(id -u)" != 0 ] || as_root=--user=root

fail() {
  echo "$name: $*" >&2
  exit 125
}

# shellcheck disable=SC2086 # $as_root is nothing or one word
make_data_directory() {
  rm -rf "$dir/data"
  mariadb-install-db --no-defaults $as_root --datadir="$dir/data" --auth-root-authentication-method=normal \
    --skip-test-db --skip-name-resolve --force >>"$dir/install.log" 2>&1 </dev/null
}

# shellcheck disable=SC2086 # MARIADBD_ARGS are separated by spaces
keep_server() {
  dir=$1
  server=0
  exec <"$dir/alive"
  # Once in thousands of times the program that fills the tables dies, on a machine that is busy.
  if make_data_directory || make_data_directory; then
    mariadbd --no-defaults $as_root --datadir="$dir/data" --socket="$dir/s" --pid-file="$dir/pid" \
      --tmpdir="$dir" --skip-networking --skip-name-resolve --innodb-buffer-pool-size=32M \
      --innodb-log-file-size=16M ${MARIADBD_ARGS-} >"$dir/server.log" 2>&1 </dev/null &
    server=$!
  fi
  echo "$server" >"$dir/server"
  read -r _ # the end of the pipe: the script has ended
  [ "$server" = 0 ] || kill "$server" 2>/dev/null
  wait
  rm -rf "$dir"
}

if [ "${1-}" = --keep-server ]; then
  keep_server "$2"
  exit 0
fi

[ $# -gt 0 ] || fail "usage: [DBLOCK=path/to/dblock] $name COMMAND [ARG...]"
for program in mariadbd mariadb-install-db mariadb setsid; do
  command -v $program >/dev/null ||
    fail "$program not found (Debian: mariadb-server-core, mariadb-client-core, util-linux)"
done

# Socket paths are short (108 bytes), so a long TMPDIR will not do.
parent=${TMPDIR:-/tmp}
[ ${#parent} -le 60 ] || parent=/tmp
dir=$(mktemp -d "$parent/dblock-mariadb.XXXXXX") || fail "no temporary directory"
mkfifo "$dir/alive" || fail "no pipe in $dir"
setsid sh "$0" --keep-server "$dir" >/dev/null 2>&1 &
keeper=$!
exec 9>"$dir/alive"

# The last words before an exit: let go of the server and wait until it is gone.
finish() {
  exec 9>&-
  wait $keeper
  exit "$1"
}

tries=0
until mariadb --no-defaults --socket="$dir/s" --user=root --execute="SELECT 1" >/dev/null 2>&1 9>&-; do
  tries=$((tries + 1))
  server=$(cat "$dir/server" 2>/dev/null)
  if [ $tries -gt 600 ] || { [ -n "$server" ] && [ ! -e "/proc/$server/exe" ]; }; then
    echo "$name: the server did not start; its last words:" >&2
    if [ -e "$dir/server.log" ]; then
      tail -n 20 "$dir/server.log" >&2
    else
      cat "$dir/install.log" >&2 # its advice comes last, the reason before
    fi
    finish 125
  fi
  sleep 0.1
done
mariadb --no-defaults --socket="$dir/s" --user=root --execute="CREATE DATABASE dblock" 9>&- || finish 125

DBLOCK_SOCKET=$dir/s
DBLOCK_DB="mysql://root@localhost/dblock?socket=$dir/s"
export DBLOCK_SOCKET DBLOCK_DB
if [ -n "${DBLOCK-}" ]; then
  "$DBLOCK" migrate >"$dir/migrate.log" 2>&1 9>&- || {
    cat "$dir/migrate.log" >&2
    echo "$name: $DBLOCK migrate failed" >&2
    finish 125
  }
fi

"$@" 9>&-
finish $?
