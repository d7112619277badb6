# shellcheck shell=sh disable=SC2154 # $work is the caller's
# Which tests there are: cases of the suites, tests of CTest, files of tests/, a line each in $work/names. Sourced by
# hazards.sh, messages.sh and promises.sh in the source directory, with $work, a directory of theirs.

# Each text in quotes may be the name of a case. Long names are written in pieces.
{
  find tests -name '*.cpp' -exec cat {} + | tr '\n' ' ' | sed 's/" *"//g' | tr '"' '\n'
  find tests -name CMakeLists.txt -exec sed -n 's/^ *add_test(NAME "\(.*\)"$/\1/p' {} +
  bash tests/model/check.sh --list | awk '{ print "model/" $2 }'
  find tests -type f ! -name '*.txt'
} | sort -u >"$work/names"

# Complains of the lines of stdin that name no test.
no_tests() {
  sort -u | comm -23 - "$work/names" | sed 's/^/no such test: /'
}
