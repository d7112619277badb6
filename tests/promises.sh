#!/bin/sh
# Whatever promises.txt quotes stands in its page, every test that it names is there, and every paragraph of
# dblock-safety(7) has an entry. usage: promises.sh SOURCE_DIRECTORY
set -eu

[ $# -eq 1 ] || { echo "usage: $0 SOURCE_DIRECTORY" >&2; exit 2; }
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
LC_ALL=C
export LC_ALL
. tests/names.sh

bad=0
complain() {
  echo "$1"
  bad=1
}

# The letters and digits of each paragraph of a page, a line each, with a colon behind what leads in to a list or an
# example. Of mdoc without the names of macros.
paragraphs() {
  awk -v mdoc="${1##*.}" '
    function flush() {
      leads_in = text ~ /: *$/
      gsub(/[^A-Za-z0-9]/, "", text)
      if (text != "") print text (leads_in ? ":" : "")
      text = ""
    }
    mdoc !~ /^[1-9]$/ { if ($0 ~ /^ *$/ || $0 ~ /^ *([-*|]|[0-9]+[.])/) flush(); text = text " " $0; next }
    /^\.(\\"|Dd|Dt|Os|Nd|Nm dblock-)/ { next }
    /^\.Bd/ { literal = 1 } # examples promise nothing
    /^\.Ed/ { literal = 0 }
    literal { flush(); next }
    /^\.Bl/ { compact = /-compact/ }
    /^\.Sh SEE ALSO/ { exit }
    /^\.(Sh|Ss|Pp|Bl|El|Ed)/ { flush(); next }
    /^\.It/ && !compact { flush() }
    /^\./ {
      sub(/^\./, "")
      for (i = 1; i <= NF; ++i) {
        if ($i == "Nm") { if ($(i + 1) !~ /^dblock/) text = text " dblock" }
        else if ($i !~ /^[A-Z][a-z]$/) text = text " " $i
      }
      next
    }
    { text = text " " $0 }
    END { flush() }' "$1"
}

quoted() {
  printf '%s' "$1" | tr -cd 'A-Za-z0-9'
}

page='' quote='' entries=0 named=0 never=0 limits=0 answered=1
end_of_quote() {
  [ $answered -eq 1 ] || complain "no test, never or limit: $quote"
}
while IFS= read -r line; do
  case $line in
  '' | '#'*) continue ;;
  '= '*)
    end_of_quote
    page=${line#= }
    paragraphs "$page" >"$work/page"
    continue
    ;;
  '  test '*)
    named=$((named + 1))
    is_test "${line#  test }" || complain "no test \"${line#  test }\": $quote"
    ;;
  '  never '*) never=$((never + 1)) ;;
  '  limit') limits=$((limits + 1)) ;;
  '  '*) complain "neither test nor never nor limit: $line" ;;
  *)
    end_of_quote
    quote=$line answered=0 entries=$((entries + 1))
    words=$(quoted "$quote")
    found=$(grep -cF -- "$words" "$work/page") || true
    [ "$found" = 1 ] || complain "in $found paragraphs of $page: $quote"
    echo "$words" >>"$work/$(basename "$page").quotes"
    continue
    ;;
  esac
  answered=1
done <tests/promises.txt
end_of_quote

paragraphs man/dblock-safety.7 | grep -vF -f "$work/dblock-safety.7.quotes" | grep -v ':$' |
  sed 's/^\(.\{100\}\).*/\1/; s/^/no entry for the paragraph: /' >"$work/missing" || true
[ ! -s "$work/missing" ] || complain "$(cat "$work/missing")"
if [ "$entries" -lt 100 ] || [ "$named" -lt "$entries" ]; then complain "promises.txt is not whole"; fi
echo "$entries promises and limits, $named tests named, $never that no test can break, $limits limits"
exit $bad
