#!/usr/bin/env bash
# coverage/run.sh [CTEST ARGUMENTS] - which lines and branches of src the tests reach, a line for each folder.
#
# Builds the preset `coverage` and runs ctest with the arguments: all cases by default, or for example `-L unit`. The
# details of each file are in build/coverage/report.html. Needs gcovr (Debian: gcovr). A process that a signal kills leaves
# no trace; one that ends by _exit does (flush.c).
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v gcovr >/dev/null || {
  echo "coverage/run.sh: gcovr not found (Debian: apt-get install gcovr)" >&2
  exit 69
}
build=build/coverage
cmake --preset coverage
cmake --build --preset coverage
find $build -name '*.gcda' -delete
status=0
ctest --preset coverage "$@" || status=$?
gcovr --root . --filter src/ --object-directory $build --exclude-throw-branches --gcov-ignore-parse-errors \
  --csv $build/coverage.csv --html-details $build/report.html >/dev/null
awk -F, '
  NR == 1 { for (i = 1; i <= NF; ++i) column[$i] = i; next }
  {
    folder = $column["filename"]
    sub(/\/[^\/]*$/, "", folder)
    for (place = folder; ; place = "src") {
      lines[place] += $column["line_total"]; reached[place] += $column["line_covered"]
      branches[place] += $column["branch_total"]; taken[place] += $column["branch_covered"]
      if (place == "src") break
    }
  }
  END {
    for (place in lines)
      printf "%-28s lines %5.1f %%  branches %5.1f %%\n", place, 100 * reached[place] / lines[place],
             branches[place] ? 100 * taken[place] / branches[place] : 100
  }' $build/coverage.csv | sort
exit $status
