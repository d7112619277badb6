#!/usr/bin/env bash
# Installs the package on this machine, looks at what a user gets, removes and purges it. For root, on a Debian where
# dblock is not installed; leaves nothing behind. Root's local locks, which the quick start makes, are put aside meanwhile.
# What a run of this test left that was killed, the next one clears up.
# usage: deb_test.sh PACKAGE.deb SOURCE_DIRECTORY
set -euo pipefail

[ $# -eq 2 ] || {
  echo "usage: $0 PACKAGE.deb SOURCE_DIRECTORY" >&2
  exit 2
}
deb=$(realpath "$1") sources=$(realpath "$2")
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
[ "$(id -u)" = 0 ] || { echo "only root can install packages" >&2; exit 2; }
store=/var/lib/dblock
aside=/var/lib/dblock-put-aside-by-deb-test # also the mark of a run that has not ended
put_back() {
  dpkg --purge dblock >/dev/null 2>&1 || true
  if [ -e $aside/dblock ]; then
    rm -rf $store
    mv $aside/dblock $store
  fi
  rm -rf $aside
}
[ ! -e $aside ] || put_back
if [ -e /etc/dblock.conf ] || dpkg-query -W dblock >/dev/null 2>&1; then
  echo "dblock is or was installed here, and this test would remove it" >&2
  exit 2
fi

work=$(mktemp -d)
chmod 755 "$work"
trap 'put_back; rm -rf "$work"' EXIT
mkdir $aside
[ ! -e $store ] || mv $store $aside/

bad=0
failed() {
  echo "FAILED: $*"
  bad=1
}
# Says what holds; a failure is noted and the rest still looked at.
expect() { # WHAT COMMAND [ARG...]
  local what=$1
  shift
  if "$@" >"$work/output" 2>&1; then
    echo "ok: $what"
  else
    failed "$what ($*, exit code $?)"
    sed 's/^/  /' "$work/output"
  fi
}
quietly() {
  "$@" >"$work/output" 2>&1 || {
    cat "$work/output"
    return 1
  }
}

# Images for containers often leave manual pages out.
dpkg_options=(--path-include='/usr/share/man/*' --path-include='/usr/share/doc/*')
install_package() {
  quietly apt-get install -y --no-install-recommends --reinstall -o Dpkg::Options::="${dpkg_options[0]}" \
    -o Dpkg::Options::="${dpkg_options[1]}" -o Dpkg::Options::=--force-confold -o APT::Sandbox::User=root "$deb"
}
# Names and modes. What dpkg, apt and caches write for themselves is not the package's, nor are folders for links of all
# packages' units, which come with the first and go with the last.
wants=/etc/systemd/system/timers.target.wants
snapshot() {
  find /etc /opt /usr /var -xdev \( -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache -o -path /var/log \
    -o -path /var/tmp -o -path /var/backups -o -path /etc/ld.so.cache \) -prune -o \
    ! -path $wants ! -path /var/lib/systemd ! -path '/var/lib/systemd/deb-systemd-helper-*ed' -printf '%p %M %u\n' | sort
}

# What it depends on stays when it goes.
quietly apt-get satisfy -y --no-install-recommends "$(dpkg-deb -f "$deb" Depends)"
stamps=/var/lib/systemd/timers # of timers that have been on
mkdir -p $stamps
snapshot >"$work/before"
install_package

expect 'every file is as it was packed' test -z "$(dpkg --verify dblock)"
expect 'its needs are met' test "$(dpkg-query -W -f '${db:Status-Status}' dblock libmariadb3)" = installedinstalled
expect 'the version' test "$(dblock --version | head -n 1)" = "dblock $(dpkg-deb -f "$deb" Version | sed 's/-[^-]*$//')"
expect 'a job runs under a lock of root' dblock run --local --key pkg -- true
expect 'root finds its locks' grep -q pkg <(dblock inspect --local --all)
mkdir "$work/home"
chown nobody "$work/home"
expect 'so does one of another user' setpriv --reuid=nobody --regid=nogroup --clear-groups \
  env -i HOME="$work/home" /usr/bin/dblock run --local --key pkg -- true
dblock run --key pkg -- true >"$work/unset" 2>&1 && failed 'without configuration a run must fail'
expect 'nothing is configured' grep -q '^dblock: exit 78 ' "$work/unset"
dblock run --db mysql://nobody@127.0.0.1:1/none --key pkg -- true >"$work/mysql" 2>&1 || true
expect "MariaDB's client library is found" grep -q '^dblock: exit 69 ' "$work/mysql"

for page in "$sources"/man/*.[1-9]; do
  name=${page##*/}
  expect "manual page $name" grep -q "$(printf '/man%s/%s.gz' "${name##*.}" "$name")" <(man -w "${name##*.}" "${name%.*}")
done
if [ -e /usr/share/bash-completion/bash_completion ]; then
  # shellcheck disable=SC2016 # the inner shell's
  expect 'bash loads the completion' bash --norc -c '. /usr/share/bash-completion/bash_completion
    _completion_loader dblock; complete -p dblock'
fi
if [ -e "$sources/completions/_dblock" ]; then
  expect 'completion for zsh' test -s /usr/share/zsh/vendor-completions/_dblock
  if command -v zsh >/dev/null; then
    # shellcheck disable=SC2016
    expect 'zsh knows it' env HOME="$work/home" zsh -fc 'autoload -Uz compinit; compinit -u -D; [ "$_comps[dblock]" = _dblock ]'
  fi
fi
if [ -e "$sources/completions/dblock.fish" ]; then
  expect 'completion for fish' test -s /usr/share/fish/vendor_completions.d/dblock.fish
  if command -v fish >/dev/null; then
    expect 'fish knows it' grep -q '^run' <(HOME=$work/home fish -c 'complete -C "dblock ru"')
  fi
fi

expect 'everybody may read the configuration, root may write it' test "$(stat -c '%a %U %G' /etc/dblock.conf)" = '644 root root'
expect 'it is a conffile' test "$(dpkg-query -W -f '${Conffiles}' dblock | awk '{ print $1 }' | tr -d '\n')" = /etc/dblock.conf

unit=$(dpkg -L dblock | grep '/dblock-reap\.service$')
if command -v systemd-analyze >/dev/null; then
  expect 'systemd accepts the units' test -z "$(systemd-analyze verify "$unit" "${unit%.service}.timer" 2>&1 | grep dblock)"
fi
expect 'the timer is not enabled' test ! -e $wants/dblock-reap.timer
# The unit's own condition and command, as systemd would run them.
unit_command() {
  sed -n "s/^$1=//p" "$unit"
}
condition=$(unit_command ExecCondition) start=$(unit_command ExecStart)
expect 'the service has a condition and a command' test -n "$condition" -a -n "$start"
sh -c "$condition" && failed 'the service would start though nothing is configured'
sed -i 's/^#local = yes$/local = yes/' /etc/dblock.conf
expect 'the service starts once something is configured' sh -c "$condition"
expect 'it reaps' sh -c "$start"
# As README.md has the password file made: for the user of the jobs alone.
install -m 600 -o nobody /dev/null "$work/password"
capabilities=$(unit_command CapabilityBoundingSet | tr 'A-Z ' 'a-z,' | sed 's/cap_/+/g')
expect 'with the powers that the service has left, root reads the password of the jobs' \
  setpriv --inh-caps=-all --bounding-set="-all,$capabilities" cat "$work/password"

# A newer package of the same content: the administrator's file and the enabled timer stay.
mkdir -p $wants
ln -s "${unit%.service}.timer" $wants/
install_package
expect 'an upgrade keeps the configuration' grep -qx 'local = yes' /etc/dblock.conf
expect 'an upgrade keeps the timer enabled' test -L $wants/dblock-reap.timer

quietly dpkg --remove dblock
expect 'removed: the binary is gone' test ! -e /usr/bin/dblock
expect 'removed: the configuration stays' grep -qx 'local = yes' /etc/dblock.conf
expect 'removed: the locks stay' test -e $store/locks.db
expect 'removed: no unit is looked for' test "$(readlink /etc/systemd/system/dblock-reap.timer)" = /dev/null
install_package
expect 'back: the unit is no longer masked' test ! -e /etc/systemd/system/dblock-reap.timer
expect 'back: the timer is enabled as before' test -L $wants/dblock-reap.timer

touch $stamps/stamp-dblock-reap.timer
quietly dpkg --purge dblock
snapshot >"$work/after"
expect 'purged: nothing is left' diff "$work/before" "$work/after"
dpkg-query -W dblock >/dev/null 2>&1 && failed 'purged: dpkg still knows it'
exit $bad
