#!/bin/sh
# Files that a page of the manual shows in full are shown as they are: each display of PAGE that follows a comment
#   .\" file: NAME
# equals DIRECTORY/NAME, and each client of DIRECTORY is shown. `update` writes the displays anew.
# usage: displays.sh check|update PAGE DIRECTORY
set -eu

if [ $# -ne 3 ]; then
  echo "usage: $0 check|update PAGE DIRECTORY" >&2
  exit 2
fi
mode=$1 page=$2 directory=$3
made=$(mktemp)
trap 'rm -f "$made"' EXIT

# In a display mdoc reads a backslash as the start of an escape, and a dot or a quote in front as the start of a macro.
awk -v directory="$directory" '
  /^\.\\" file: / { file = directory "/" $3 }
  !skip { print }
  /^\.Bd/ && file != "" {
    while ((status = (getline line < file)) > 0) {
      gsub(/\\/, "\\e", line)
      if (line ~ /^[.\047]/) line = "\\&" line
      print line
    }
    if (status < 0) { print file ": cannot be read" > "/dev/stderr"; exit 1 }
    file = ""
    skip = 1
  }
  skip && /^\.Ed/ { print; skip = 0 }' "$page" >"$made"

for file in "$directory"/[Cc]lient.*; do
  grep -qxF ".\\\" file: $(basename "$file")" "$page" || {
    echo "$page does not show $file" >&2
    exit 1
  }
done
if [ "$mode" = update ]; then
  cat "$made" >"$page"
elif ! diff "$page" "$made" >&2; then
  echo "$page is out of date; build the target update-manual" >&2
  exit 1
fi
