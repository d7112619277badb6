#!/usr/bin/env bash
# install.sh DIRECTORY - put a MySQL server from Debian sid into a directory, for the tests.
#
# Debian 12 has no MySQL, so the server comes with the C library and whatever else it needs, all below DIRECTORY, and
# DIRECTORY/mysqld starts it by that C library's own dynamic linker. Nothing is installed on this machine, and neither
# this nor the server needs root. Packages come from the Debian mirror that apt is configured with, and apt checks
# their signatures as usual. A directory that has a working server is left as it is; about 50 MB are loaded, 230 MB kept.
set -euo pipefail

name=install.sh
fail() {
  echo "$name: $*" >&2
  exit 1
}

[ $# = 1 ] || {
  echo "usage: $name DIRECTORY" >&2
  exit 64
}
for program in apt-get dpkg-deb awk; do
  command -v "$program" >/dev/null || fail "$program not found: this works on Debian and its like"
done

root=$1
if [ -x "$root/mysqld" ] && "$root/mysqld" --no-defaults --version 2>/dev/null; then
  exit 0
fi

# A mirror is one that has Debian's releases in it: what apt has from elsewhere is not asked.
find_mirror() {
  # shellcheck disable=SC2016 # for apt to expand
  apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' "Created-By: Packages" | sort -u |
    awk '$1 == "Debian" && $2 !~ /security\/?$/ { print $2; exit }'
}

mirror=$(find_mirror)
if [ -z "$mirror" ]; then
  apt-get update >/dev/null || fail "apt-get update failed"
  mirror=$(find_mirror)
fi
[ -n "$mirror" ] || fail "apt is configured with no mirror of Debian"

mkdir -p "$root"
rm -rf "$root/new"
mkdir -p "$root/new/apt/lists/partial" "$root/new/apt/archives/partial" "$root/new/packages"
trap 'rm -rf "$root/new"' EXIT
new=$(cd "$root/new" && pwd)

# An apt of its own, to which nothing is installed yet.
: >"$new/apt/status"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$keyring" ] || fail "$keyring not found (Debian: debian-archive-keyring)"
echo "deb [signed-by=$keyring] $mirror sid main" >"$new/apt/sources.list"
cat >"$new/apt/apt.conf" <<END
Dir::Etc::sourcelist "$new/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "$new/apt";
Dir::State::lists "$new/apt/lists";
Dir::State::status "$new/apt/status";
Dir::Cache "$new/apt";
APT::Sandbox::User "";
Acquire::Retries "3";
END
export APT_CONFIG=$new/apt/apt.conf

apt-get update >"$new/apt/log" 2>&1 || {
  cat "$new/apt/log" >&2
  fail "no package lists of Debian sid from $mirror"
}

# All that the server depends on, but for what only its package's scripts need.
apt-get install --yes --no-install-recommends --print-uris mysql-server-core >"$new/apt/plan" ||
  fail "apt finds no way to install mysql-server-core"
mapfile -t packages < <(awk '/^.[a-z+]+:/ { sub(/_.*/, "", $2); print $2 }' "$new/apt/plan" |
  grep -vE '^(perl|libperl|libgdbm|libdb5|libc-gconv|libsasl2-modules)')
[ "${#packages[@]}" -gt 1 ] || fail "apt's plan names no packages"
(cd "$new/packages" && apt-get download "${packages[@]}") >"$new/apt/log" 2>&1 || {
  cat "$new/apt/log" >&2
  fail "cannot download from $mirror"
}
for package in "$new"/packages/*.deb; do
  dpkg-deb -x "$package" "$new"
done
rm -rf "$new/apt" "$new/packages" "$new/usr/share/doc" "$new/usr/share/man" "$new/usr/share/locale"

# Which directory is a matter of the processor.
linker=$(cd "$new" && echo usr/lib*/ld-linux*.so.*)
[ -e "$new/$linker" ] || fail "no dynamic linker in what was unpacked"
libraries=$(dirname "$(cd "$new" && find usr/lib -name 'libc.so.6' | head -n 1)")
cat >"$new/mysqld" <<END
#!/bin/sh
root=\$(cd "\$(dirname "\$0")" && pwd) || exit 1
exec "\$root/$linker" --library-path "\$root/$libraries:\$root/usr/lib/mysql/private" \\
  --argv0 "\$root/usr/sbin/mysqld" "\$root/usr/sbin/mysqld" "\$@"
END
chmod +x "$new/mysqld"
"$new/mysqld" --no-defaults --version || fail "the server that was unpacked does not run"

rm -rf "${root:?}/etc" "${root:?}/usr" "${root:?}/mysqld"
mv "$new"/* "$root/"
