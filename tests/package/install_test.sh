#!/bin/sh
# `cmake --install` puts everything below the prefix, and that below DESTDIR. usage: install_test.sh BUILD SOURCE_DIRECTORY
set -eu

[ $# -eq 2 ] || { echo "usage: $0 BUILD SOURCE_DIRECTORY" >&2; exit 2; }
build=$1 sources=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/plain/opt/some where" --strip >/dev/null
DESTDIR=$work/staged cmake --install "$build" --prefix "/opt/some where" --strip >/dev/null

bad=0
failed() {
  echo "FAILED: $*"
  bad=1
}
for root in "$work/plain" "$work/staged"; do
  prefix="$root/opt/some where"
  if find "$root" -type f ! -path "$prefix/*" | grep .; then
    failed "outside the prefix"
  fi
  {
    echo bin/dblock
    echo share/doc/dblock/examples/dblock.conf
    echo lib/systemd/system/dblock-reap.service
    echo lib/systemd/system/dblock-reap.timer
    for page in "$sources"/man/*.[1-9]; do
      echo "share/man/man${page##*.}/${page##*/}"
    done
    [ ! -e "$sources/completions/dblock.bash" ] || echo share/bash-completion/completions/dblock
    [ ! -e "$sources/completions/_dblock" ] || echo share/zsh/site-functions/_dblock
    [ ! -e "$sources/completions/dblock.fish" ] || echo share/fish/vendor_completions.d/dblock.fish
  } >"$work/expected"
  while IFS= read -r file; do
    [ -s "$prefix/$file" ] || failed "not installed, or empty: $file"
  done <"$work/expected"
  "$prefix/bin/dblock" --version >/dev/null || failed "the installed binary does not start"
done
grep -qxF "ExecStart=\"$work/plain/opt/some where/bin/dblock\" reap" \
  "$work/plain/opt/some where/lib/systemd/system/dblock-reap.service" || failed "the service does not name the installed binary"
grep -qxF 'ExecStart="/opt/some where/bin/dblock" reap' \
  "$work/staged/opt/some where/lib/systemd/system/dblock-reap.service" || failed "the service names DESTDIR"
[ $bad != 0 ] || echo "ok: $(wc -l <"$work/expected") files below the prefix and below DESTDIR"
exit $bad
