#!/bin/sh
# The part of each completion between "# begin: " and "# end" is made from the option table.
# usage: completions.sh check|update GENERATOR DIRECTORY
set -eu

if [ $# -ne 3 ]; then
  echo "usage: $0 check|update GENERATOR DIRECTORY" >&2
  exit 2
fi
mode=$1 generator=$2 directory=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

failed=0
for shell in bash zsh fish; do
  case $shell in
    zsh) file=$directory/_dblock ;;
    *) file=$directory/dblock.$shell ;;
  esac
  "$generator" "$shell" >"$work/table"
  awk -v table="$work/table" '
    /^# end$/    { inside = 0 }
    !inside      { print }
    /^# begin: / { inside = 1; while ((getline line < table) > 0) print line; ++found }
    END          { exit found != 1 || inside }
  ' "$file" >"$work/made" || { echo "$file: not one part from \"# begin: \" to \"# end\"" >&2; exit 1; }
  if [ "$mode" = update ]; then
    cat "$work/made" >"$file"
  elif ! diff "$file" "$work/made" >&2; then
    echo "$file is out of date; build the target update-completions" >&2
    failed=1
  fi
done
exit $failed
