#!/bin/sh
# The manual pages know exactly the options that --help shows, subcommand by subcommand; --help fits a large screen.
# usage: manual.sh DBLOCK MAN_DIRECTORY
set -eu

if [ $# -ne 2 ]; then
  echo "usage: $0 DBLOCK MAN_DIRECTORY" >&2
  exit 2
fi
dblock=$1 pages=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
LC_ALL=C
export LC_ALL

subcommands=$("$dblock" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ -n "$subcommands" ] || { echo "--help lists no subcommands" >&2; exit 1; }

# "run --key" and "run -k" for every option line of --help.
options_of_help() {
  sed -n 's/^  \(-[A-Za-z]\), \(--[a-z-]*\).*/\1 \2/p; s/^      \(--[a-z-]*\).*/\1/p' |
    tr ' ' '\n' | sed "s/^/$1 /"
}

{
  "$dblock" --help | options_of_help global
  for subcommand in $subcommands; do
    "$dblock" "$subcommand" --help | options_of_help "$subcommand"
  done
} | sort >"$work/help"

# In a page: ".It Fl k , Fl -key Ar KEY" of the list of options.
options_of_page() {
  awk -v name="$2" '
    /^\.Sh / { inside = ($2 == "OPTIONS" || $3 == "OPTIONS") }
    /^\.It Fl / && inside { for (i = 2; i < NF; ++i) if ($i == "Fl") print name " -" $(i + 1) }
  ' "$1"
}

{
  options_of_page "$pages/dblock.1" global
  for subcommand in $subcommands; do
    options_of_page "$pages/dblock-$subcommand.1" "$subcommand"
  done
} | sort >"$work/man"

failed=0
if ! diff "$work/help" "$work/man" >"$work/diff"; then
  failed=1
  sed -n 's/^< \(.*\)/the manual lacks: \1/p; s/^> \(.*\)/the manual invents: \1/p' "$work/diff" >&2
fi

# Defaults, too: "(default 2m)" of --help must stand beside the option in the manual.
for subcommand in $subcommands; do
  "$dblock" "$subcommand" --help | sed -n 's/^.*--\([a-z-]*\) .*(default \([0-9A-Za-z]*\))$/\1 \2/p' >"$work/defaults"
  while read -r option value; do
    awk -v option="-$option" -v value="$value" '
      /^\.It / { item = 0; for (i = 2; i <= NF; ++i) if ($i == option) item = 1 }
      item && index($0, value) { found = 1 }
      END { exit !found }
    ' "$pages/dblock-$subcommand.1" || {
      failed=1
      echo "dblock $subcommand: --$option lacks its default $value" >&2
    }
  done <"$work/defaults"
done

for subcommand in $subcommands; do
  grep -q "^\.Xr dblock-$subcommand 1" "$pages/dblock.1" || { failed=1; echo "dblock(1) lacks: $subcommand" >&2; }
  lines=$("$dblock" "$subcommand" --help | wc -l)
  [ "$lines" -le 50 ] || { failed=1; echo "dblock $subcommand --help: $lines lines do not fit a screen" >&2; }
done
exit $failed
