#!/usr/bin/env bash
# stress.sh NAME... - run cases thirty times each, beside four busy loops: does a case fail by chance?
#
# NAME is a pattern of ctest's (ctest -R) for names of cases: 'e2e.*a held lock is 75' runs on the stores where the case is
# registered. For every new case. Prints a line for each case that failed, with its output above, and fails when there
# is one. BUILD: the folder of the build (build/dev); TIMES: how often (30); LOOPS: how many busy loops (4).
set -euo pipefail
[ $# -gt 0 ] || {
  sed -n '2,6s/^# \{0,1\}//p' "$0"
  exit 64
}
build=${BUILD:-$(cd "$(dirname "$0")/.." && pwd)/build/dev}
times=${TIMES:-30}

loops=()
# shellcheck disable=SC2317 # called by the trap
end_loops() {
  [ ${#loops[@]} = 0 ] || kill "${loops[@]}" 2>/dev/null || true
}
trap end_loops EXIT
for ((i = 0; i < ${LOOPS:-4}; ++i)); do
  while :; do :; done &
  loops+=($!)
done

pattern=$(IFS='|' && echo "$*")
ctest --test-dir "$build" -R "$pattern" --repeat "until-fail:$times" -j4 --output-on-failure --no-tests=error
