#!/bin/sh
# The README's quick start says that its first job moves to MariaDB by changing --db alone. Takes both examples
# from the README, compares them and runs the second.
# usage: second_example_test.sh README DBLOCK
set -eu

readme=$1 dblock=$2
cd "$(dirname "$readme")"
quick_start=$(sed -n '/^## Quick start$/,/^## [^Q]/p' "$readme")
example=$(printf '%s\n' "$quick_start" | grep 'tests/with-mariadb.sh ')
first=$(printf '%s\n' "$quick_start" | sed -n 's/.*dblock run --local //p')
second=$(printf '%s\n' "$example" | sed -n "s/.*dblock run --db \"\$DBLOCK_DB\" \\(.*\\)'\$/\\1/p")
if [ -z "$first" ] || [ "$first" != "$second" ]; then
  echo "FAILED: the examples differ in more than --local and --db: '$first', '$second'"
  exit 1
fi

answer=$(sh -c "$(printf '%s\n' "$example" | sed "s#build/release/src/dblock#$dblock#g")")
printf '%s\n' "$answer" | {
  read -r key
  read -r token
  if [ "$key" != hello ] || ! [ "$token" -gt 0 ]; then
    echo "FAILED: the second example printed no key and token but: $answer"
    exit 1
  fi
}
echo "ok: $answer"
