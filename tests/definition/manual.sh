#!/bin/sh
# The manual pages know exactly the options that --help shows, subcommand by subcommand, and call their values the same;
# --help fits a large screen.
# usage: manual.sh DBLOCK MAN_DIRECTORY
# shellcheck disable=SC2317 # functions are called by their names
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

# What FUNCTION finds in the global --help and in that of each subcommand; in all pages.
in_all_help() { # FUNCTION
  {
    "$dblock" --help | "$1" global
    for subcommand in $subcommands; do
      "$dblock" "$subcommand" --help | "$1" "$subcommand"
    done
  } | sort >"$work/help"
}
in_all_pages() { # FUNCTION
  {
    "$1" "$pages/dblock.1" global
    for subcommand in $subcommands; do
      "$1" "$pages/dblock-$subcommand.1" "$subcommand"
    done
  } | sort >"$work/man"
}

# "run --key" and "run -k" for every option line of --help.
options_of_help() {
  sed -n 's/^  \(-[A-Za-z]\), \(--[a-z-]*\).*/\1 \2/p; s/^      \(--[a-z-]*\).*/\1/p' |
    tr ' ' '\n' | sed "s/^/$1 /"
}

in_all_help options_of_help

# In a page: ".It Fl k , Fl -key Ar KEY" of the list of options.
options_of_page() {
  awk -v name="$2" '
    /^\.Sh / { inside = ($2 == "OPTIONS" || $3 == "OPTIONS") }
    /^\.It Fl / && inside { for (i = 2; i < NF; ++i) if ($i == "Fl") print name " -" $(i + 1) }
  ' "$1"
}

in_all_pages options_of_page

failed=0
if ! diff "$work/help" "$work/man" >"$work/diff"; then
  failed=1
  sed -n 's/^< \(.*\)/the manual lacks: \1/p; s/^> \(.*\)/the manual invents: \1/p' "$work/diff" >&2
fi

# "run --any key" for every option of --help with a value; of "D|forever" and "[D]" the D, and HOW for "on|off".
values_of_help() {
  sed -n 's/^  ....\(--[a-z-]*\) \[*\([A-Z][A-Z]*\).*/\1 \2/p; s/^  ....\(--[a-z-]*\) [a-z][a-z]*|.*/\1 HOW/p' |
    sed "s/^/$1 /; s/ D$/ DURATION/; s/ CMD$/ COMMAND/" | tr '[:upper:]' '[:lower:]'
}

in_all_help values_of_help

# In a page: ".It Fl -any Ar key"; words to choose from may stand there as they are: ".It Fl -line Cm fifo | one".
values_of_page() {
  awk -v name="$2" '
    /^\.Sh / { inside = ($2 == "OPTIONS" || $3 == "OPTIONS") }
    /^\.It Fl / && inside {
      for (i = 2; i < NF; ++i) {
        if ($i != "Fl" || $(i + 1) !~ /^-/) continue
        at = i + 2
        if ($at == "Op") ++at
        if ($at == "Ar") print name " -" $(i + 1) " " $(at + 1)
        if ($at == "Cm") print name " -" $(i + 1) " how"
      }
    }
  ' "$1"
}

in_all_pages values_of_page

if ! diff "$work/help" "$work/man" >"$work/diff"; then
  failed=1
  sed -n 's/^< \(.*\)/--help alone names this value: \1/p; s/^> \(.*\)/the manual alone names this value: \1/p' "$work/diff" >&2
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
  lines=$("$dblock" "$subcommand" --help | sed '/^Advanced:$/,$d' | wc -l)
  [ "$lines" -le 50 ] || { failed=1; echo "dblock $subcommand --help: $lines lines do not fit a screen" >&2; }
done
exit $failed
