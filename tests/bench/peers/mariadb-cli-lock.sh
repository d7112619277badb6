#!/bin/sh
# The lock script people write around the command-line client: one UPDATE to take it, one to give it back.
#   mariadb-cli-lock.sh SOCKET DATABASE KEY COMMAND [ARG...]
# Table: bench_lock(name, owner, expires). 75 when held. No renewal, no token, no care for the job: the least
# such a script can do.
set -eu

socket=$1 database=$2 key=$3
shift 3
owner=$(uname -n)-$$

sql() {
  mariadb --no-defaults --socket="$socket" --user=root --batch --skip-column-names --execute="$1" "$database"
}

taken=$(sql "UPDATE bench_lock SET owner = '$owner', expires = UTC_TIMESTAMP(6) + INTERVAL 120 SECOND
  WHERE name = '$key' AND (owner IS NULL OR expires < UTC_TIMESTAMP(6)); SELECT ROW_COUNT()")
[ "$taken" = 1 ] || exit 75
status=0
"$@" || status=$?
sql "UPDATE bench_lock SET owner = NULL WHERE name = '$key' AND owner = '$owner'"
exit $status
