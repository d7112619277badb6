#!/usr/bin/env bash
# Applications take dblock's locks from plain SQL: the client of one language, against one server.
#   DBLOCK=… DBLOCK_TEST_SERVER=DIRECTORY run.sh python|java|go|node|php|ruby
# DIRECTORY/address holds the server's socket and port; `dblock_test_server start DIRECTORY` makes it.
#
# Each client has rights on its counter, and EXECUTE as `dblock migrate --print-grants USER --applications` prints it.
# It reads the counter and writes it in two statements, so that two holders at once lose an increment.
#
# That this test can fail was seen with client.py. Without dblock_acquire and dblock_assert_held, 11 of 283 increments
# were lost. Without renewals, the client that works longer than its TTL ended with 76. Without dblock_assert_held and
# the look at the deadline, the revoked client did not end. With an end at the first error, the client whose connection
# was cut did not connect again.
set -eu

if [ $# -ne 1 ] || [ -z "${DBLOCK-}" ] || [ -z "${DBLOCK_TEST_SERVER-}" ]; then
  echo "usage: DBLOCK=path/to/dblock DBLOCK_TEST_SERVER=directory $0 python|java|go|node|php|ruby" >&2
  exit 2
fi
language=$1
sources=$(cd "$(dirname "$0")" && pwd)
export LC_ALL=C.UTF-8
read -r socket port <"$DBLOCK_TEST_SERVER/address"
work=$(mktemp -d)
name=app_${language}_$$
waiting_name=${name}_frozen
slowness=${DBLOCK_TEST_SLOWNESS:-1}
failed=0

root_sql() { # DATABASE SQL
  mariadb --no-defaults --socket="$socket" --user=root --batch --skip-column-names "$1" --execute="$2"
}
# shellcheck disable=SC2317 # called by trap
clean_up() {
  local job
  for job in $(jobs -p); do kill -KILL "$job" 2>/dev/null || true; done
  root_sql "" "DROP DATABASE IF EXISTS $name; DROP DATABASE IF EXISTS $waiting_name; DROP USER IF EXISTS $name@'%'" || true
  rm -rf "$work"
}
trap clean_up EXIT

check() { # DESCRIPTION EXPECTED ACTUAL
  if [ "$2" = "$3" ]; then
    echo "ok: $1"
  else
    echo "FAILED: $1: expected '$2', got '$3'"
    failed=1
  fi
}
not_run() {
  echo "NOT RUN: $1"
  exit 0
}

# Sets `client`, the command that runs the client.
prepare_client() {
  local python
  case $language in
    python)
      for python in python3 /usr/bin/python3; do
        if "$python" -c 'import pymysql' 2>/dev/null; then
          client=("$python" "$sources/client.py")
          return
        fi
      done
      not_run "no Python with pymysql (Debian: python3-pymysql)"
      ;;
    java)
      local driver=/usr/share/java/mariadb-java-client.jar
      { command -v javac && [ -e $driver ]; } >/dev/null ||
        not_run "no javac, or no JDBC driver (Debian: default-jdk-headless, libmariadb-java)"
      javac -d "$work" "$sources/Client.java"
      client=(java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$work:$driver" Client)
      ;;
    go)
      { command -v go && [ -e /usr/share/gocode/src/github.com/go-sql-driver/mysql ]; } >/dev/null ||
        not_run "no go, or no driver (Debian: golang-go, golang-github-go-sql-driver-mysql-dev)"
      GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=${GOCACHE:-$work/cache} go build -o "$work/client" "$sources/client.go"
      client=("$work/client")
      ;;
    node)
      # Debian has the older driver alone, which the client runs with as well; it cannot log in to MySQL 9.
      local driver modules=${NODE_PATH-}:/usr/share/nodejs:/usr/lib/nodejs
      for driver in mysql2 mysql; do
        if NODE_PATH=$modules node -e "require('$driver')" 2>/dev/null; then
          sed "s/require(\"mysql2\")/require(\"$driver\")/" "$sources/client.js" >"$work/client.js"
          client=(env NODE_PATH="$modules" node "$work/client.js")
          return
        fi
      done
      not_run "no node with mysql2 or mysql (Debian: nodejs, node-mysql)"
      ;;
    php)
      php -r 'exit(extension_loaded("mysqli") ? 0 : 1);' 2>/dev/null ||
        not_run "no PHP with mysqli (Debian: php-cli, php-mysql)"
      client=(php "$sources/client.php")
      ;;
    ruby)
      ruby -e 'require "mysql2"' 2>/dev/null || not_run "no Ruby with mysql2 (Debian: ruby-mysql2)"
      client=(ruby "$sources/client.rb")
      ;;
    *)
      echo "there is no client in $language" >&2
      exit 2
      ;;
  esac
}

prepare_database() { # NAME
  root_sql "" "CREATE DATABASE $1"
  DBLOCK_DB="mysql://root@localhost/$1?socket=$socket" "$DBLOCK" migrate >"$work/migrate.log" 2>&1 ||
    { cat "$work/migrate.log"; exit 1; }
  root_sql "$1" "CREATE TABLE counter (n BIGINT NOT NULL); INSERT INTO counter VALUES (0);
    CREATE USER IF NOT EXISTS $name@'%' IDENTIFIED BY 'secret'; GRANT SELECT, UPDATE ON $1.counter TO $name@'%'"
  root_sql "$1" "$(DBLOCK_DB="mysql://root@localhost/$1?socket=$socket" "$DBLOCK" migrate --print-grants "$name@%" --applications)"
}

counter() {
  root_sql "$DB_NAME" "SELECT n FROM counter"
}
run_client() { # TTL_MS PATIENCE_MS STEPS; exits with the client's code, and a kill reaches the client
  LOCK_TTL_MS=$1 LOCK_PATIENCE_MS=$2 exec "${client[@]}" work "$3"
}
# shellcheck disable=SC2317 # called by soon
connections() { # those of clients to the first database
  root_sql "" "SELECT id FROM information_schema.processlist WHERE user = '$name' AND db = '$name'"
}
# Runs a command until it succeeds, for up to 30 s.
soon() { # DESCRIPTION COMMAND…
  local tries=$((600 * slowness)) what=$1
  shift
  until "$@"; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || { echo "FAILED: $what"; exit 1; }
    sleep 0.05
  done
}
# shellcheck disable=SC2317 # called by soon
counter_left() { # VALUE
  [ "$(counter)" != "$1" ]
}
# shellcheck disable=SC2317 # called by soon
no_connection() {
  [ -z "$(connections)" ]
}
# shellcheck disable=SC2317 # called by soon
places() { # that count, of the first database
  root_sql "$name" "SELECT COUNT(*) FROM dblock_waiter WHERE seen_until > UTC_TIMESTAMP(6)"
}
# shellcheck disable=SC2317 # called by soon
has_place() {
  [ "$(places)" = 1 ]
}
# shellcheck disable=SC2317 # called by soon
no_place() {
  [ "$(places)" = 0 ]
}
# A client connects for its work, then for the lock; sets `newest` to the later connection. A list that the server
# makes while a session is busy can lack that session.
# shellcheck disable=SC2317 # called by soon
both_connected() {
  local both
  both=$(connections | sort -n)
  [ "$(wc -l <<<"$both")" = 2 ] && newest=${both##*$'\n'}
}
# shellcheck disable=SC2317 # called by soon
newer_connection() { # THAN
  local newest
  newest=$(connections | sort -n | tail -n 1)
  [ "${newest:-0}" -gt "$1" ]
}
# Awaits a process; its exit code is in `code` then.
await() { # PROCESS
  code=0
  wait "$1" 2>/dev/null || code=$?
}
run_to_the_end() { # ARGUMENTS OF run_client
  run_client "$@" &
  await $!
}

prepare_client
prepare_database "$name"
prepare_database "$waiting_name"
export DB_HOST=127.0.0.1 DB_PORT=$port DB_USER=$name DB_PASSWORD=secret DB_NAME=$name
export DBLOCK_DB="mysql://root@localhost/$name?socket=$socket"

# A frozen client finds its deadline past when it goes on. Beside the other cases, under a lock of another database.
frozen_client() {
  local client_id
  export DB_NAME=$waiting_name
  run_client 2000 60000 100000 2>"$work/frozen.log" &
  client_id=$!
  soon "the client that is to be frozen works" counter_left 0
  kill -STOP $client_id
  sleep 2.5
  kill -CONT $client_id
  await $client_id
  check "a client that was frozen beyond its lease ends with 76" 76 "$code"
  exit $failed
}
frozen_client &
frozen=$!

# Clients and runs under one lock lose no increment. The first client works longer than its TTL.
started=()
run_client 2000 60000 250 &
started+=($!)
for _ in 1 2 3; do
  run_client 5000 60000 10 &
  started+=($!)
done
export socket name
for _ in 1 2 3; do
  # shellcheck disable=SC2016 # for the shell within
  "$DBLOCK" run --key work --wait 60s --quiet -- bash -euc '
    sql() { mariadb --no-defaults --socket="$socket" --user=root --batch --skip-column-names "$name" --execute="$1"; }
    n=$(sql "SELECT n FROM counter")
    sql "UPDATE counter SET n = $((n + 1))"' &
  started+=($!)
done
codes=
for job in "${started[@]}"; do
  await "$job"
  codes+="$code "
done
check "clients and runs all come to their turn" "0 0 0 0 0 0 0 " "$codes"
check "no increment is lost" 283 "$(counter)"

# A revoked client stops.
before=$(counter)
run_client 10000 60000 100000 2>"$work/revoked.log" &
revoked=$!
soon "the client that is to be revoked works" counter_left "$before"
shown=0
"$DBLOCK" release --key work --force >"$work/shown" 2>&1 || shown=$?
check "release --force shows the application" 75 $shown
token=$(sed -n 's/.*--token \([0-9]*\).*/\1/p' "$work/shown" | head -n 1)
"$DBLOCK" release --key work --force --token "$token" >>"$work/shown" 2>&1 || cat "$work/shown"
await $revoked
check "a client whose lease is revoked ends with 76" 76 "$code"

# While the lock is held: a client with little patience, and one that loses its connection while it waits.
root_sql "$name" "CALL dblock_acquire('work', 'tester', 600000, 0, NULL, NULL)" >"$work/tester"
run_to_the_end 60000 300 1
check "a client that runs out of patience ends with 75" 75 "$code"
soon "its place in the line ends with its patience" no_place
soon "that client's connections end" no_connection
run_client 60000 60000 1 2>"$work/waiting.log" &
waiting=$!
soon "a client has its two connections" both_connected
soon "a client that waits has a place in the line" has_place
lost=$newest
root_sql "" "KILL $lost"
soon "the client connects again" newer_connection "$lost"
root_sql "$name" "CALL dblock_release('work', 'tester')" >>"$work/tester"
await $waiting
check "a client whose connection was lost connects again and is granted the lock" 0 "$code"
check "and has left the line" 0 "$(places)"

# The lock of a client that is killed is granted again when its lease and its margin (2 s and 200 ms) have passed.
before=$(counter)
run_client 2000 60000 100000 2>"$work/killed.log" &
killed=$!
soon "the client that is to be killed works" counter_left "$before"
kill -KILL $killed
await $killed
soon "the killed client's connections end" no_connection
before=$(counter)
free_at=$(root_sql "$name" "SELECT expire_time + INTERVAL margin_us MICROSECOND FROM dblock_lock")
run_to_the_end 2000 60000 1
check "a killed client's lock is granted to another" 0 "$code"
check "not before the lease and its margin have passed" 1 \
  "$(root_sql "$name" "SELECT create_time >= '$free_at' FROM dblock_lock")"
check "the killed client has written nothing since" $((before + 1)) "$(counter)"

wait $frozen || failed=1
if [ $failed = 1 ]; then
  tail -n 5 "$work"/*.log
fi
exit $failed
