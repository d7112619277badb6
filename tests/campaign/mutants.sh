#!/usr/bin/env bash
# mutants.sh [NAME...] - does the proof notice when the code is broken?
# mutants.sh --list    - print each mutant, and what must catch it.
#
# Each patch in mutants/ breaks one safety rule of the product, or of an application that uses it, and says what must
# catch it: a campaign with these options, or a test where no campaign can get to the rule (it takes a day, say, or two
# servers). Where it names both, each must: the test proves the rule at every change, and the mutant proves that campaigns
# still come to it. Builds each in a copy of the sources and prints a table; fails when a mutant survives, or a patch
# applies no more. A NAME may be a pattern ('procedure-*'); without NAMEs all of them. MUTANT_SCRATCH: where to build (a new directory in /tmp);
# MUTANT_SECONDS: how long a campaign may look for it (90). With DBLOCK_TEST_MYSQLD=PROGRAM the tests, not the
# campaigns, go against that MySQL server.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source_dir=$(cd "$here/../.." && pwd)
if [ "${1-}" = --list ]; then
  sed -n 's/^Mutant: //p; s/^Caught by: /  /p' "$here"/mutants/*.patch
  exit 0
fi
scratch=${MUTANT_SCRATCH:-$(mktemp -d /tmp/dblock-mutants.XXXXXX)}
seconds=${MUTANT_SECONDS:-90}
copy=$scratch/src
build=$copy/build/dev
survivors=0

fail() {
  echo "mutants.sh: $1" >&2
  exit 1
}

prepare() {
  mkdir -p "$copy"
  # A file that has gone since an earlier call would still be built: folders of SQL are embedded whole.
  find "$copy" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
  tar -C "$source_dir" --exclude=./build --exclude=./.git -cf - . | tar -C "$copy" -xf -
  # What an earlier call has broken is as old as its source again, and older than what was built of the mutant.
  if [ -e "$scratch/broken" ]; then
    (cd "$copy" && xargs touch -c <"$scratch/broken")
    rm "$scratch/broken"
  fi
  local launcher=()
  if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache)
    export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$copy} CCACHE_NOHASHDIR=1
  fi
  (cd "$copy" && cmake --preset dev -B "$build" "${launcher[@]}") >"$scratch/configure.log" ||
    fail "cannot configure: $scratch/configure.log"
}

make_targets() {
  cmake --build "$build" --target "$@" >"$scratch/build.log" 2>&1 || fail "$* does not build: $scratch/build.log"
}

# Prints by what the mutant was caught; fails when it was not. 0 and 2 of a campaign are "nothing found".
try_campaign() {
  local log=$scratch/$1.log status=0
  # The options are words of a shell, as they are written in the patch.
  eval "set -- $2"
  "$build/tests/campaign/dblock_campaign" --seed 1 --duration "${seconds}s" --keep "$scratch/history" "$@" \
    >"$log" 2>&1 || status=$?
  [ $status = 1 ] || return 1
  sed -n 's/^VIOLATION \([a-z]*\): \(.*\)/campaign, rule \1/p' "$log" | head -n 1
}

try_test() {
  local program=$1 name=$2 path
  path=$(find "$build/tests" -type f -name "$program" | head -n 1)
  if "$path" "$name" >"$scratch/test.log" 2>&1; then return 1; fi
  grep -q 'FAILED' "$scratch/test.log" || fail "$program '$name' did not run: $scratch/test.log"
  if grep -q 'PROCEDURE .* does not exist' "$scratch/test.log"; then fail "the broken procedure is no SQL: $scratch/test.log"; fi
  echo "test '$name'"
}

# One row of the table for each that must catch it: NAME TITLE "PROGRAM: OPTIONS OR CASE"...
try_each() {
  local name=$1 title=$2 catcher caught started survived=0
  shift 2
  for catcher in "$@"; do
    started=$SECONDS
    if [ "${catcher%%: *}" = campaign ]; then
      caught=$(try_campaign "$name" "${catcher#*: }") || caught=
    else
      caught=$(try_test "${catcher%%: *}" "${catcher#*: }") || caught=
    fi
    [ -n "$caught" ] || survived=1
    printf '| %s | %s | %d s |\n' "$title" "${caught:-SURVIVED ${catcher%%: *}}" $((SECONDS - started))
  done
  survivors=$((survivors + survived))
}

judge() {
  local name=$1 patch=$here/mutants/$1.patch
  local file files catchers
  mapfile -t catchers < <(sed -n 's/^Caught by: //p' "$patch")
  mapfile -t files < <(sed -n 's/^+++ b\///p' "$patch")
  for file in "${files[@]}"; do cp "$copy/$file" "$copy/$file.whole"; done
  printf '%s\n' "${files[@]}" >>"$scratch/broken"
  (cd "$copy" && git apply -C1 "$patch") || fail "$name.patch applies no more: make it anew"
  # shellcheck disable=SC2046 # programs
  make_targets $(printf '%s\n' "${catchers[@]%%: *}" | sed 's/^campaign$/dblock dblock_campaign/')
  try_each "$name" "$(sed -n 's/^Mutant: //p' "$patch")" "${catchers[@]}"
  for file in "${files[@]}"; do
    mv "$copy/$file.whole" "$copy/$file"
    touch "$copy/$file" # else it looks older than what was built of the mutant
  done
}

names=()
[ $# -gt 0 ] || set -- '*'
for pattern in "$@"; do
  # shellcheck disable=SC2086 # a pattern
  for patch in "$here"/mutants/$pattern.patch; do
    [ -e "$patch" ] || fail "there is no $pattern.patch"
    names+=("$(basename "$patch" .patch)")
  done
done
prepare
printf '| mutant | caught by | after |\n|---|---|---|\n'
for name in "${names[@]}"; do judge "$name"; done
[ $survivors = 0 ] || fail "$survivors of ${#names[@]} mutants survived; logs in $scratch"
if [ -z "${MUTANT_SCRATCH:-}" ]; then rm -rf "$scratch"; fi
