#!/bin/sh
# The manual as Markdown, for readers on the web: one file in MAN_DIRECTORY/markdown for each page.
# usage: markdown.sh check|update MAN_DIRECTORY
set -eu

if [ $# -ne 2 ]; then
  echo "usage: $0 check|update MAN_DIRECTORY" >&2
  exit 2
fi
mode=$1 directory=$2
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
LC_ALL=C.UTF-8
export LC_ALL

# mandoc indents what follows a Ql as if it were a display; Li looks the same and does not. Names of pages, and of
# sections of the same page, become links.
render() { # PAGE
  sections=$(sed -n 's/^\.S[hs] //p' "$1" | tr -d '\\&' | tr '\n' '|')
  sed '/^\./ s/\([ .]\)Ql /\1Li /g' "$1" | mandoc -I os=dblock -T markdown | awk -v page="$1" -v sections="|$sections" '
    NR == 1 { sub(/.*\//, "", page); print "<!-- Made from " page " by the target update-manual. -->\n\n" $0; next }
    {
      rest = $0
      line = ""
      while (match(rest, /dblock[a-z.-]*\([1-9]\)|\*[A-Z][A-Z ]+\*/)) {
        name = substr(rest, RSTART, RLENGTH)
        line = line substr(rest, 1, RSTART - 1)
        rest = substr(rest, RSTART + RLENGTH)
        if (name ~ /^\*/) {
          title = substr(name, 2, length(name) - 2)
          if (!index(sections, "|" title "|")) {
            line = line name
            continue
          }
          file = "#" tolower(title)
          gsub(/ /, "-", file)
          name = title
        } else {
          file = name
          sub(/\(/, ".", file)
          sub(/\)/, ".md", file)
        }
        line = line "[" name "](" file ")"
      }
      print line rest
    }'
}

for page in "$directory"/*.[1-9]; do
  render "$page" >"$made/$(basename "$page").md"
done
if [ "$mode" = update ]; then
  rm -rf "$directory/markdown"
  mkdir "$directory/markdown"
  cp "$made"/* "$directory/markdown"
elif ! diff -r "$directory/markdown" "$made" >&2; then
  echo "$directory/markdown is out of date; build the target update-manual" >&2
  exit 1
fi
