#!/usr/bin/env bash
# install.sh DIRECTORY - put a MySQL server from Debian sid into a directory, for the tests.
# install.sh --pin     - write today's packages of Debian sid into packages.txt, beside this script.
#
# Debian 12 has no MySQL, so the server comes with the C library and whatever else it needs, all below DIRECTORY, and
# DIRECTORY/mysqld starts it by that C library's own dynamic linker. Nothing is installed on this machine, and neither
# this nor the server needs root. About 50 MB are loaded, 230 MB kept.
#
# packages.txt names each package with its SHA-256, so that the tests judge the same server wherever they run. The
# mirror, which is that of apt's configuration, drops old packages of sid. Where one of the list is gone, or the list is for
# another processor, today's packages are taken, and a line on stderr says so: then pin anew and run the tests.
# A directory that has a working server of the same list is left as it is.
set -euo pipefail

name=install.sh
fail() {
  echo "$name: $*" >&2
  exit 1
}

[ $# = 1 ] || {
  echo "usage: $name DIRECTORY | --pin" >&2
  exit 64
}
for program in apt-get dpkg-deb awk sha256sum; do
  command -v "$program" >/dev/null || fail "$program not found: this works on Debian and its like"
done

# Lines "SHA-256 PATH-BELOW-THE-MIRROR", behind a first line that names the processor.
pins=$(cd "$(dirname "$0")" && pwd)/packages.txt
processor=$(dpkg --print-architecture)
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
mkdir "$new/packages" "$new/root"

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
mirror=${mirror%/}

# Loads the packages of a list, and fails when one is not there or is not the one of the list.
load() { # LIST
  local sum path wanted=()
  while read -r sum path; do
    wanted+=("$mirror/$path" "$new/packages/$(basename "$path")" "SHA256:$sum")
  done < <(grep -E '^[0-9a-f]{64} ' "$1")
  /usr/lib/apt/apt-helper -o Acquire::Retries=3 download-file "${wanted[@]}" >"$new/log" 2>&1
}

# Prints the list of today's packages, by an apt of its own to which nothing is installed yet: all that the server depends
# on, but for what only its package's scripts need. Apt checks the signatures of the lists as usual.
list_of_today() {
  local apt=$new/apt keyring=/usr/share/keyrings/debian-archive-keyring.gpg path
  [ -e "$keyring" ] || fail "$keyring not found (Debian: debian-archive-keyring)"
  mkdir -p "$apt/lists/partial" "$apt/archives/partial"
  : >"$apt/status"
  echo "deb [signed-by=$keyring] $mirror sid main" >"$apt/sources.list"
  cat >"$apt/apt.conf" <<END
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "$apt";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
APT::Sandbox::User "";
Acquire::Retries "3";
END
  export APT_CONFIG=$apt/apt.conf
  apt-get update >"$new/log" 2>&1 || {
    cat "$new/log" >&2
    fail "no package lists of Debian sid from $mirror"
  }
  apt-get install --yes --no-install-recommends --print-uris mysql-server-core >"$apt/plan" ||
    fail "apt finds no way to install mysql-server-core"
  echo "$processor"
  awk '/^.[a-z+]+:/ { sub(/_.*/, "", $2); print $2 }' "$apt/plan" |
    grep -vE '^(perl|libperl|libgdbm|libdb5|libc-gconv|libsasl2-modules)' >"$apt/names"
  xargs -a "$apt/names" apt-cache show --no-all-versions |
    awk '$1 == "Filename:" { path = $2 } $1 == "SHA256:" { sum = $2 } /^$/ && path { print sum, path; path = "" }
         END { if (path) print sum, path }'
  unset APT_CONFIG
}

if [ "$1" = --pin ]; then
  list_of_today >"$new/list"
  mv "$new/list" "$pins"
  chmod 644 "$pins"
  exit 0
fi

root=$1
if [ -x "$root/mysqld" ] && cmp -s "$pins" "$root/packages.txt" && "$root/mysqld" --no-defaults --version 2>/dev/null; then
  exit 0
fi

cp "$pins" "$new/list"
if [ "$(head -n 1 "$pins")" != "$processor" ] || ! load "$new/list"; then
  echo "$name: the packages of packages.txt cannot be had here; taking today's of Debian sid, which nobody has tried" >&2
  rm -f "$new"/packages/*
  list_of_today >"$new/list"
  load "$new/list" || {
    cat "$new/log" >&2
    fail "cannot load the packages from $mirror"
  }
fi
for package in "$new"/packages/*.deb; do
  dpkg-deb -x "$package" "$new/root"
done
cp "$new/list" "$new/root/packages.txt"
rm -rf "$new/root/usr/share/doc" "$new/root/usr/share/man" "$new/root/usr/share/locale"

# Which directory is a matter of the processor.
linker=$(cd "$new/root" && echo usr/lib*/ld-linux*.so.*)
[ -e "$new/root/$linker" ] || fail "no dynamic linker in what was unpacked"
libraries=$(dirname "$(cd "$new/root" && find usr/lib -name 'libc.so.6' | head -n 1)")
cat >"$new/root/mysqld" <<END
#!/bin/sh
root=\$(cd "\$(dirname "\$0")" && pwd) || exit 1
exec "\$root/$linker" --library-path "\$root/$libraries:\$root/usr/lib/mysql/private" \\
  --argv0 "\$root/usr/sbin/mysqld" "\$root/usr/sbin/mysqld" "\$@"
END
chmod +x "$new/root/mysqld"
"$new/root/mysqld" --no-defaults --version || fail "the server that was unpacked does not run"

rm -rf "$root"
mkdir -p "$(dirname "$root")"
chmod 755 "$new/root"
mv "$new/root" "$root"
