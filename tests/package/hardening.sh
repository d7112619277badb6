#!/bin/sh
# A binary is what its preset promises: hardened. usage: hardening.sh DBLOCK COMPILE_COMMANDS_JSON [fixed]
#
# Wants the binary as it was built, not stripped: one check looks at the first instruction of main. fixed: the binary is
# linked at fixed addresses.
set -eu

case $#${3-} in
2 | 3fixed) ;;
*) echo "usage: $0 DBLOCK COMPILE_COMMANDS_JSON [fixed]" >&2; exit 2 ;;
esac
dblock=$1 commands=$2 addresses=${3-any}
LC_ALL=C
export LC_ALL
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
readelf -hW "$dblock" >"$work/header"
readelf -lW "$dblock" >"$work/segments"
readelf -dW "$dblock" >"$work/dynamic"
readelf --dyn-syms -W "$dblock" >"$work/symbols"

bad=0
expect() { # WHAT FILE PATTERN
  if grep -Eq -- "$3" "$work/$2"; then
    echo "ok: $1"
  else
    echo "FAILED: $1: nothing in the $2 matches $3"
    bad=1
  fi
}
refuse() { # WHAT FILE PATTERN
  if grep -E -- "$3" "$work/$2"; then
    echo "FAILED: $1"
    bad=1
  else
    echo "ok: $1"
  fi
}

if [ "$addresses" = fixed ]; then
  expect 'fixed addresses' header 'Type: +EXEC'
else
  expect 'position-independent file' header 'Type: +DYN'
  expect 'position-independent executable' dynamic 'FLAGS_1.*\bPIE\b'
fi
expect 'relocations read-only' segments '^ +GNU_RELRO '
expect 'bound at once' dynamic '\(BIND_NOW\)|FLAGS\).*\bBIND_NOW\b|FLAGS_1.*\bNOW\b'
expect 'stack not executable' segments '^ +GNU_STACK .* RW +0x'
refuse 'no segment both writable and executable' segments ' RWE '
refuse 'no search path for libraries' dynamic '\((RPATH|RUNPATH)\)'
refuse 'no relocations in code' dynamic '\(TEXTREL\)'
expect 'stack protector' symbols '__stack_chk_fail'
expect 'checked library calls' symbols '__[a-z]+_chk(@|$)'

# What leaves no mark in the file: each source of the product was compiled with it.
tr -d '\n' <"$commands" | sed 's/},/}\n/g' |
  grep -E '"file": "[^"]*/src/(main|(base|lease|store|doctor|process|app|cli)/[^"]*)\.cpp"' >"$work/compiled" || true
[ -s "$work/compiled" ] || { echo "FAILED: $commands names no source of src"; bad=1; }
for flag in -fPIE -fstack-protector-strong -fstack-clash-protection -D_FORTIFY_SOURCE=3; do
  if grep -vF -e "$flag " "$work/compiled"; then
    echo "FAILED: compiled without $flag"
    bad=1
  else
    echo "ok: $flag"
  fi
done
case $(sed -n 's/^ *Machine: *//p' "$work/header") in
*X86-64) mark=endbr64 ;;
AArch64) mark='paciasp|bti' ;;
*) mark= ;;
esac
if [ -n "$mark" ]; then
  objdump -d --no-show-raw-insn --disassemble=main "$dblock" | sed -n '/<main>:/{n;p}' >"$work/main"
  expect 'indirect branches only to where they may go' main "$mark"
fi
exit $bad
