#!/bin/sh
# The manual page and the completion know exactly the options that --help shows, subcommand by subcommand.
# usage: help_drift.sh DBLOCK MAN_PAGE COMPLETION
set -eu

if [ $# -ne 3 ]; then
  echo "usage: $0 DBLOCK MAN_PAGE COMPLETION" >&2
  exit 2
fi
dblock=$1 man_page=$2 completion=$3
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

# In the manual: ".Ss Global options" or ".Ss dblock run", then ".It Fl k , Fl -key Ar KEY".
awk '
  /^\.S[hs] / {
    section = ""
    if ($2 == "Global") section = "global"
    if ($2 == "dblock") section = $3
  }
  /^\.It Fl / && section != "" {
    for (i = 2; i < NF; ++i) if ($i == "Fl") print section " -" $(i + 1)
  }
' "$man_page" | sort >"$work/man"

# In the completion: "    run) options='-k --key …' ;;".
sed -n "s/^ *\([a-z]*\)) options='\([^']*\)'.*/\1 \2/p" "$completion" |
  awk '{ for (i = 2; i <= NF; ++i) print $1 " " $i }' | sort >"$work/completion"

failed=0
for other in man completion; do
  if ! diff "$work/help" "$work/$other" >"$work/diff"; then
    failed=1
    sed -n "s/^< \(.*\)/$other lacks: \1/p; s/^> \(.*\)/$other invents: \1/p" "$work/diff" >&2
  fi
done

# Defaults, too: "(default 2m)" of --help must stand beside the option in the manual.
for subcommand in $subcommands; do
  "$dblock" "$subcommand" --help | sed -n 's/^.*--\([a-z-]*\) .*(default \([0-9A-Za-z]*\))$/\1 \2/p' >"$work/defaults"
  while read -r option value; do
    awk -v want="$subcommand" -v option="-$option" -v value="$value" '
      /^\.S[hs] / { inside = ($2 == "dblock" && $3 == want); item = 0 }
      /^\.It / { item = 0; for (i = 2; i <= NF; ++i) if ($i == option) item = 1 }
      inside && item && index($0, value) { found = 1 }
      END { exit !found }
    ' "$man_page" || {
      failed=1
      echo "man: dblock $subcommand: --$option lacks its default $value" >&2
    }
  done <"$work/defaults"
done

for subcommand in $subcommands; do
  grep -q "subcommands='.*\b$subcommand\b.*'" "$completion" || { failed=1; echo "completion lacks: $subcommand" >&2; }
  lines=$("$dblock" "$subcommand" --help | wc -l)
  [ "$lines" -le 40 ] || { failed=1; echo "dblock $subcommand --help: $lines lines do not fit a screen" >&2; }
done
exit $failed
