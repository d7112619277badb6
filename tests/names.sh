# shellcheck shell=sh disable=SC2154 # $work is the caller's
# Which tests there are. Sourced by hazards.sh, messages.sh and promises.sh in the source directory, with $work, a directory
# of theirs.

# Long names are written in pieces.
find tests -name '*.cpp' -exec cat {} + | tr '\n' ' ' | sed 's/" *"//g' >"$work/cases"
{
  find tests -name CMakeLists.txt -exec sed -n 's/^ *add_test(NAME "\(.*\)"$/\1/p' {} +
  bash tests/model/check.sh --list | awk '{ print "model/" $2 }'
  find tests -type f ! -name '*.txt'
} >"$work/others"

# A case of the suites, a test of CTest, or a file of tests/.
is_test() {
  grep -qF -- "\"$1\"" "$work/cases" || grep -qxF -- "$1" "$work/others"
}
