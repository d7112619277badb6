#!/bin/sh
# The README's way from a checkout to a cron job, line by line as it is written: build, first locks, package, database,
# cron. Replaced are only the hour of the cron line, and db.example.com, which is a server of this script's own with a
# certificate in that name. For a machine of its own (a container, a chroot): installs packages, makes a user, writes
# below /etc, and in the end removes user, package and files. Run it as root, at the top of the checkout.
set -eu

die() {
  echo "first_minutes.sh: $*" >&2
  exit 1
}

# The N-th fenced block of the README's section HEADING, without the indentation of a list.
block() {
  awk -v heading="$1" -v want="$2" '
    /^ *```/ { open = !open; if (open && section == heading) ++count; next }
    open { if (section == heading && count == want) { sub(/^   /, ""); print }; next }
    /^#/ { section = $0; sub(/^#+ /, "", section) }
  ' README.md
}

try() { # WHAT HEADING N
  echo "== $1"
  lines=$(block "$2" "$3")
  [ -n "$lines" ] || die "README.md has no block $3 under '$2'"
  sh -euc "$lines" || die "these lines of the README do not work: $lines"
}

as_etl() {
  setpriv --reuid=etl --regid=etl --init-groups env -i HOME=/home/etl PATH=/usr/bin:/bin sh -euc "$1"
}

clear_up() {
  for process in ${server-} ${cron-}; do
    kill "$process" || true
    wait "$process" || true
  done
  apt-get purge -y dblock || true
  userdel --remove etl || true
  rm -rf "${certificates:?}" /etc/dblock.password /etc/cron.d/nightly-etl /usr/local/bin/etl.sh
} >/dev/null 2>&1

# A server for db.example.com, and the authority that has signed its certificate.
start_server() {
  chmod 755 "$certificates"
  (
    cd "$certificates"
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem
    openssl req -newkey rsa:2048 -nodes -subj /CN=db.example.com -addext subjectAltName=DNS:db.example.com \
      -keyout server.key -out server.csr
    openssl x509 -req -days 2 -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -copy_extensions copy \
      -out server.pem
    mariadb-install-db --no-defaults --user=root --datadir="$certificates/data" \
      --auth-root-authentication-method=normal --skip-test-db --skip-name-resolve --force
  ) >"$certificates/log" 2>&1 || die "$(cat "$certificates/log")"
  grep -q ' db.example.com$' /etc/hosts 2>/dev/null || echo '127.0.0.77 db.example.com' >>/etc/hosts
  mariadbd --no-defaults --user=root --datadir="$certificates/data" --socket="$certificates/socket" \
    --bind-address=127.0.0.77 --ssl-cert="$certificates/server.pem" --ssl-key="$certificates/server.key" \
    >>"$certificates/log" 2>&1 &
  server=$!
  await "the server's answer" mariadb-admin --no-defaults --skip-ssl --socket="$certificates/socket" --silent ping
}

await() { # WHAT COMMAND...
  what=$1
  shift
  tries=900
  until "$@" >/dev/null 2>&1; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || die "waited for 90 s for $what: $(tail -n 20 "$certificates/log")"
    sleep 0.1
  done
}

[ ! -e /etc/dblock.conf ] || die "dblock is configured here; this needs a machine of its own"
certificates=$(mktemp -d)
trap clear_up EXIT
try "install, build, run a job under a lock" "Quick start" 1
try "the same job on MariaDB" "Quick start" 2
try "the package" "Quick start" 4

echo "== connect a database"
id etl >/dev/null 2>&1 || useradd --create-home etl
start_server
block "Connect a database" 1 | mariadb --no-defaults --skip-ssl --socket="$certificates/socket"
printf 'choose-another-password\n' | sh -euc "$(block 'Connect a database' 2)"
echo "$(block 'Connect a database' 3)&tls-ca=$certificates/ca.pem" >>/etc/dblock.conf
# The administrator's client: this server's root has no password, and comes by the socket.
sh -euc "$(block 'Connect a database' 4 | sed -e "s|tls=verify-full|&\&tls-ca=$certificates/ca.pem|" \
  -e "s|mariadb -h .*|mariadb --no-defaults --skip-ssl --socket=$certificates/socket|")" ||
  die "the tables and the rights of the jobs are not made"
as_etl "$(block 'Connect a database' 5)" || die "the first commands with a database do not work"

echo "== cron"
# shellcheck disable=SC2016 # the job's
printf '#!/bin/sh\necho "$DBLOCK_TOKEN" >>/home/etl/tokens\n' >/usr/local/bin/etl.sh
chmod 755 /usr/local/bin/etl.sh
block "Cron, with an alert" 1 | sed 's/^30 2 /* * /' >/etc/cron.d/nightly-etl
grep -q '^\* \* \* \* \* ' /etc/cron.d/nightly-etl || die "the cron line does not begin at 30 2: $(cat /etc/cron.d/nightly-etl)"
cron -f &
cron=$!
await "the job that cron starts, once a minute" test -s /home/etl/tokens
# shellcheck disable=SC2016 # the page's own marks
alert=$(sed -n 's/^- An alert, on one host: `[^`]* etl  \(dblock [^`]*\)`.*/\1/p' README.md)
[ -n "$alert" ] || die "README.md has no line for an alert"
as_etl "$alert" || die "the alert of the README finds no success"
echo "ok: from the checkout to cron"
