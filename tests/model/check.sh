#!/usr/bin/env bash
# check.sh [--list] [NAME...] - checks the models of the lease protocol (lease.pml) and of the line (line.pml) with Spin,
# exhaustively.
#
# Four kinds of lines, each with the macros that make it out of its model, which is line.pml for the names that begin with
# line_:
#   holds    a configuration of faults under which every property must hold
#   limit    beyond the assumptions: the property that is not promised there must be seen to fail (a promise that
#            cannot fail is not understood)
#   mutant   the protocol with one rule broken: the property that the rule is for must fail
#   witness  something that must be able to happen, so that no configuration holds for want of trying
# A search that was cut short (memory, depth) counts as a failure; so does a mutant that fails otherwise than expected,
# for instance by getting stuck. Without names all lines are checked. Needs spin and a C compiler.
#
# The verdict on a line follows from the model, this script, Spin and the compiler. So where DBLOCK_TEST_MODEL_PROVED names a
# folder, a line that came out right is noted there, and not searched again until one of them changes.
set -euo pipefail

models=$(cd "$(dirname "$0")" && pwd)
cc=${CC:-cc}

# kind, name, what is expected, macros
lines() {
  cat <<'LINES'
holds three_clients ok N=3 MAXT=7
holds network ok NETWORK MAXT=6
holds processes ok PROCESS MAXT=6
holds clocks ok CLOCK MAXT=7
holds reap ok REAP RERUN MAXT=7
holds reap_and_clocks ok REAP RERUN CLOCK MAXT=6
holds network_and_reap ok NETWORK REAP TTL=3 MAXT=5
holds network_and_processes ok NETWORK PROCESS VICTIMS=1 TTL=2 MAXT=3
holds switchover ok FAILOVER MAXT=7
holds lossy_failover ok LOSSY_FAILOVER FENCED NO_I1 MAXT=6
holds both_killed ok BOTH FENCED NO_I1 NO_I4 VICTIMS=1 MAXT=6
holds skew_beyond_margin ok CLOCK SIGMA=2 LAG_MAX=2 FENCED NO_I1 NO_I4 MAXT=6
holds liveness ok PROCESS LIVE=2 VICTIMS=1 TTL=2 MAXT=6
holds line_four ok MISHAPS N=4 VICTIMS=1 PATIENCE=1 MAXT=4
holds line_frozen_waiters ok MISHAPS
holds line_frozen_holders ok HOLDER_MISHAPS VICTIMS=2
holds line_replace ok REPLACE MISHAPS VICTIMS=2
holds line_newest ok NEWEST MISHAPS
limit lossy_failover_excludes I1 LOSSY_FAILOVER MAXT=6
limit both_killed_excludes I1 BOTH VICTIMS=1 TTL=3 MAXT=5
limit both_killed_in_time I4 BOTH VICTIMS=1 TTL=3 MAXT=5
limit skew_beyond_margin_excludes I1 CLOCK SIGMA=2 LAG_MAX=2 MAXT=7
mutant deadline_from_reply I4 MUTANT_DEADLINE_FROM_REPLY MAXT=7
mutant renew_any_owner I3 MUTANT_RENEW_ANY_OWNER NETWORK MAXT=6
mutant renew_any_token I3 MUTANT_RENEW_ANY_TOKEN NETWORK TTL=2 MAXT=6
mutant renew_revives I3 MUTANT_RENEW_REVIVES MAXT=7
mutant release_any_owner I3 MUTANT_RELEASE_ANY_OWNER NETWORK MAXT=6
mutant margin_zero I1 MARGIN=0 CLOCK MAXT=7
mutant unknown_is_failure I5 MUTANT_UNKNOWN_IS_FAILURE NETWORK MAXT=6
mutant unknown_is_success I5 MUTANT_UNKNOWN_IS_SUCCESS NETWORK MAXT=6
mutant unknown_is_renewed I4 MUTANT_UNKNOWN_IS_RENEWED NETWORK MAXT=6
mutant release_before_join I3 MUTANT_RELEASE_BEFORE_JOIN MAXT=6
mutant release_before_dead I1 MUTANT_RELEASE_BEFORE_DEAD PROCESS VICTIMS=1 MAXT=6
mutant counter_after_reap I2 MUTANT_PLAIN_COUNTER REAP RERUN MAXT=7
mutant counter_after_failover FENCE MUTANT_PLAIN_COUNTER LOSSY_FAILOVER FENCED MAXT=6
mutant forgets_fresh_rows I2 MUTANT_FORGETS_FRESH_ROWS REAP RERUN MAXT=6
mutant no_recheck_at_the_gate I1 MUTANT_NO_RECHECK PROCESS VICTIMS=1 MAXT=7
mutant no_look_behind_the_gate I1 MUTANT_NO_LOOK_BEHIND_THE_GATE PROCESS VICTIMS=1 MAXT=7
mutant guardian_releases_first I1 MUTANT_GUARDIAN_RELEASES_FIRST PROCESS VICTIMS=1 MAXT=6
mutant blind_guardian I4 MUTANT_BLIND_GUARDIAN PROCESS VICTIMS=1 MAXT=6
mutant no_self_fence I4 MUTANT_NO_SELF_FENCE PROCESS VICTIMS=1 MAXT=6
mutant no_takeover LIVE MUTANT_NO_TAKEOVER PROCESS LIVE=2 VICTIMS=1 TTL=2 MAXT=6
mutant line_order_ignored O1 MUTANT_ORDER_IGNORED
mutant line_no_mark O1 MUTANT_NO_MARK
mutant line_mark_first O1 MUTANT_MARK_FIRST
mutant line_dead_place_counts O3 MUTANT_NO_PATIENCE MISHAPS
mutant line_passed_places_stay O3 MUTANT_PASSED_STAY MISHAPS N=4 VICTIMS=1 PATIENCE=1 MAXT=4
mutant line_newer_revoked O2 MUTANT_REVOKES_NEWER REPLACE
mutant line_older_after_newer O4 MUTANT_OLDER_AFTER_NEWER NEWEST
witness line_passed_frozen WITNESS WITNESS_PASSED_FROZEN MISHAPS
witness line_comes_back WITNESS WITNESS_COMES_BACK MISHAPS
witness line_revoked WITNESS WITNESS_REVOKED REPLACE
witness takeover WITNESS WITNESS_TAKEOVER MAXT=7
witness read_back WITNESS WITNESS_READ_BACK NETWORK MAXT=6
witness late_grant WITNESS WITNESS_LATE_GRANT NETWORK MAXT=6
witness run_after_death WITNESS WITNESS_RUN_AFTER_DEATH PROCESS MAXT=6
witness row_recreated WITNESS WITNESS_RECREATED REAP RERUN MAXT=7
witness stale_write_refused WITNESS WITNESS_STALE_WRITE LOSSY_FAILOVER FENCED MAXT=6
LINES
}

# The name that the message of the violated assertion carries.
mark_of() {
  case $1 in
    I1) echo I1_exclusion ;;
    I2) echo I2_tokens ;;
    I3) echo I3_ownership ;;
    I4) echo I4_self_fence ;;
    I5) echo I5_unknown_outcome ;;
    FENCE) echo FENCE_storage ;;
    O1) echo O1_order ;;
    O2) echo O2_newer_is_revoked ;;
    O3) echo O3_held_up ;;
    O4) echo O4_newest ;;
    WITNESS) echo WITNESS_reached ;;
    LIVE) echo 'acceptance cycle' ;;
  esac
}

number_before() { # the number in front of the words, in pan's output
  sed -n "s/^ *\([0-9.e+]*\) $1.*/\1/p" pan.out | head -n 1
}

# Builds and runs one line in the current directory; its output in pan.out. `expected` decides what is looked for.
search() { # MODEL EXPECTED MACRO...
  local model=$models/$1 expected=$2 liveness=0 macro
  shift 2
  local flags=() pan_flags=(-n -m100000) cc_flags=(-w -DVECTORSZ=512 -DMEMLIM=1900)
  # A counterexample is found in less time than it takes to optimize the search for it, or to fill a large table.
  if [ "$expected" = ok ]; then cc_flags+=(-O2) pan_flags+=(-w22); else pan_flags+=(-w18); fi
  for macro in "$@"; do
    flags+=("-D$macro")
    if [[ $macro == LIVE=* ]]; then liveness=1; fi
  done
  if [ "$expected" != ok ] && [ "$expected" != LIVE ]; then flags+=("-DONLY_$expected"); fi
  if [ $liveness = 1 ]; then
    cc_flags+=(-DNFAIR=4)
    pan_flags+=(-a -f)
  else
    cc_flags+=(-DSAFETY)
  fi
  spin -a "${flags[@]}" "$model" >spin.out 2>&1 || { cat spin.out && return 1; }
  "$cc" "${cc_flags[@]}" -o pan pan.c || return 1
  ./pan "${pan_flags[@]}" >pan.out 2>&1 || true # its code says little; its words are read below
}

# What pan.out says, in a word or two.
verdict() {
  if ! grep -q 'errors: ' pan.out; then
    echo "the search broke off"
  elif grep -qE 'max search depth too small|[Oo]ut of memory|Search not completed' pan.out &&
    grep -q 'errors: 0' pan.out; then
    echo "the search was cut short"
  elif grep -q 'errors: 0' pan.out; then
    echo ok
  else
    sed -n 's/^pan:1: //p' pan.out | head -n 1
  fi
}

# The file that notes that a line came out right; nothing where none is kept.
note_of() { # MODEL LINE
  [ -n "${DBLOCK_TEST_MODEL_PROVED-}" ] || return 0
  local inputs
  inputs=$( (cat "$models/$1" "$models/check.sh" && spin -V && "$cc" --version && echo "$2") | sha256sum)
  echo "$DBLOCK_TEST_MODEL_PROVED/${inputs%% *}"
}

check() {
  local kind=$1 name=$2 expected=$3 model=lease.pml got good=no began=$SECONDS note
  if [[ $name == line_* ]]; then model=line.pml; fi
  note=$(note_of $model "$*")
  if [ -n "$note" ] && [ -e "$note" ]; then
    printf '%-8s %-28s came out right before\n' "$kind" "$name"
    return
  fi
  shift 3
  local dir=$work/$kind.$name
  mkdir -p "$dir"
  cd "$dir"
  got="it could not be built"
  if search "$model" "$expected" "$@" >build.out 2>&1; then got=$(verdict); else cat build.out; fi
  if [ "$expected" = ok ]; then
    if [ "$got" = ok ]; then good=yes; fi
  elif [[ $got == *"$(mark_of "$expected")"* ]]; then
    good=yes
  fi
  local words
  case $good/$kind in
    yes/holds) words="holds" ;;
    yes/limit) words="$expected fails, as it may" ;;
    yes/mutant) words="caught by $expected" ;;
    yes/witness) words="seen" ;;
    *) words="WRONG (wanted $expected): $got" ;;
  esac
  printf '%-8s %-28s %10s %7s %5s s  %s\n' "$kind" "$name" "$(number_before 'states, stored')" \
    "$(sed -n 's/.*depth reached \([0-9]*\),.*/\1/p' pan.out | head -n 1)" $((SECONDS - began)) "$words"
  cd "$work"
  rm -rf "$dir"
  [ $good = yes ] || return
  [ -z "$note" ] || { mkdir -p "$DBLOCK_TEST_MODEL_PROVED" && touch "$note"; }
}

if [ "${1-}" = --list ]; then
  lines | awk '{ print $1, $2 }'
  exit 0
fi
if ! command -v spin >/dev/null || ! command -v "$cc" >/dev/null; then
  echo "NOT RUN: the model checker is not installed (Debian: spin, gcc)"
  exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '%-8s %-28s %10s %7s %7s  %s\n' kind name states depth time verdict
wrong=0
found=0
while read -r kind name expected macros; do
  if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]] && [[ " $* " != *" $kind "* ]]; then continue; fi
  found=$((found + 1))
  # shellcheck disable=SC2086 # macros are words
  check "$kind" "$name" "$expected" $macros </dev/null || wrong=$((wrong + 1))
done < <(lines)
if [ $found = 0 ]; then
  echo "no such name; there are:" "$(lines | awk '{ print $2 }' | tr '\n' ' ')"
  exit 64
fi
echo "$found lines, $wrong wrong, $SECONDS s"
[ $wrong = 0 ]
