#!/bin/sh
# Whatever hazards.txt and retold.txt name is there, and nothing in them is without an answer.
# usage: hazards.sh SOURCE_DIRECTORY
set -eu

[ $# -eq 1 ] || { echo "usage: $0 SOURCE_DIRECTORY" >&2; exit 2; }
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

LC_ALL=C
export LC_ALL
. tests/names.sh
# The manual is written in lines, which become one line of text.
for page in man/*.[1-9]; do
  grep -v '^\.' "$page" | tr '\n' ' ' >"$work/${page#man/}"
done
cat src/doctor/judge_*.cpp >"$work/doctor"

bad=0
lines=0
heads=0
answered=yes
head=

complain() {
  echo "$1"
  bad=1
}

says() { # PAGE WORDS
  grep -qF -- "$2" "$work/$1" || complain "$head: $1 does not say \"$2\""
}

begin() { # the words of a hazard, or of a claim
  [ "$answered" ] || complain "$head: nothing meets it"
  head=$1
  heads=$((heads + 1))
  answered=
}

answer() { # KIND TEXT
  lines=$((lines + 1))
  case $1 in
  differs) return ;; # a reason, and no proof: a test or words of a page stand beside it
  test) echo "$2" >>"$work/named" ;;
  man) says dblock-safety.7 "$2" ;;
  dblock*.[1-9]) says "$1" "$2" ;;
  doctor) grep -qF -- "\"$2\"" "$work/doctor" || complain "$head: doctor has no check \"$2\"" ;;
  *) complain "$head: unknown kind \"$1\"" ;;
  esac
  answered=yes
}

read_list() { # LIST; its hazards are numbered, claims stand below their projects
  while IFS= read -r line; do
    case $line in
    '' | '#'* | '= '*) continue ;;
    '  '*)
      line=${line#  }
      answer "${line%% *}" "${line#* }"
      continue
      ;;
    esac
    begin "$line"
    [ "$1" != hazards ] || [ "${line%% *}" = "$heads" ] || complain "hazard $heads is missing"
  done <"tests/$1.txt"
  [ "$answered" ] || complain "$head: nothing meets it"
  answered=yes
}

read_list hazards
if [ "$heads" -lt 28 ] || [ "$lines" -le 28 ]; then complain "hazards.txt is not whole"; fi
echo "$heads hazards, $lines places where they are met"
heads=0
lines=0
read_list retold
if [ "$heads" -lt 70 ]; then complain "retold.txt is not whole"; fi
echo "$heads claims of $(grep -c '^= ' tests/retold.txt) other projects, $lines answers"

unknown=$(no_tests <"$work/named")
[ -z "$unknown" ] || complain "$unknown"
exit $bad
