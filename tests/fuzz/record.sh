#!/usr/bin/env bash
# tests/fuzz/record.sh BUILD - records anew what a real server says to the target `protocol`, into its corpus: when
# dblock's statements have changed, the old recordings no longer fit, and "fuzz: the corpus of protocol" fails.
# BUILD is a build directory with dblock and fuzz_replay.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "$1")
corpus=$PWD/tests/fuzz/corpus/protocol
if [ -z "${DBLOCK_SOCKET-}" ]; then
  DBLOCK=$build/src/dblock exec tests/with-mariadb.sh "$0" "$build"
fi
mariadb --no-defaults --socket="$DBLOCK_SOCKET" --user=root --execute="CREATE USER jobs@localhost \
IDENTIFIED VIA mysql_native_password USING PASSWORD('secret'); GRANT ALL ON dblock.* TO jobs@localhost"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

# NAME WHAT: the first byte of the input says what dblock does (protocol.cpp).
record() {
  rm -rf input recording-*
  mkdir input
  # shellcheck disable=SC2059 # the format is the byte
  printf "\\x$2" >input/x
  DBLOCK_FUZZ_RECORD=$DBLOCK_SOCKET "$build/tests/fuzz/fuzz_replay" protocol input >/dev/null || true # one end: 1
  cat input/x recording-* | head -c 6000 >"$corpus/$1"
}
record expect-released-new 00
record expect-released 00
record expect-released-reader 01
"$build/src/dblock" acquire --key k --ttl 1h >/dev/null
record expect-refused-held 00
record expect-listed 02
record expect-history 03
record expect-stood 04
record examined 05
"$build/src/dblock" pause --key k --for 1h >/dev/null
record expect-refused-paused 00
