#!/bin/sh
# Whatever hazards.txt names is there. usage: hazards.sh SOURCE_DIRECTORY
set -eu

[ $# -eq 1 ] || { echo "usage: $0 SOURCE_DIRECTORY" >&2; exit 2; }
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

LC_ALL=C
export LC_ALL
. tests/names.sh
# The manual is written in lines, which become one line of text.
grep -v '^\.' man/dblock-safety.7 | tr '\n' ' ' >"$work/man"
cat src/doctor/judge_*.cpp >"$work/doctor"

bad=0
lines=0
number=0
while IFS= read -r line; do
  case $line in
  '' | '#'*) continue ;;
  [0-9]*)
    [ "${line%% *}" -eq $((number + 1)) ] || { echo "hazard $((number + 1)) is missing"; bad=1; }
    number=${line%% *}
    continue
    ;;
  esac
  line=${line#  }
  kind=${line%% *}
  text=${line#* }
  lines=$((lines + 1))
  case $kind in
  test) echo "$text" >>"$work/named" ;;
  man) grep -qF -- "$text" "$work/man" || { echo "hazard $number: the manual does not say \"$text\""; bad=1; } ;;
  doctor) grep -qF -- "\"$text\"" "$work/doctor" || { echo "hazard $number: doctor has no check \"$text\""; bad=1; } ;;
  *) echo "hazard $number: unknown kind \"$kind\""; bad=1 ;;
  esac
done <tests/hazards.txt
unknown=$(no_tests <"$work/named")
[ -z "$unknown" ] || { echo "$unknown"; bad=1; }
if [ "$number" -lt 28 ] || [ "$lines" -le 28 ]; then
  echo "hazards.txt is not whole"
  bad=1
fi
echo "$number hazards, $lines places where they are met"
exit $bad
