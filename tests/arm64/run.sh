#!/usr/bin/env bash
# run.sh CACHE [SUITE...] - builds dblock and its tests for arm64 with Debian's cross compiler, and runs the suites that
# need no server under qemu's user emulation: unit, contract and e2e-local, or those named. As root, on Debian 12.
#
# CACHE is a directory outside of the checkout. It keeps arm64's packages and the build, so that a second run is quick.
# The machine itself gets only the compiler and the emulator: no foreign architecture, no file outside of CACHE. While
# the tests run, the kernel knows the emulator as dblock-arm64-PID: tests start arm64 programs, which start others.
#
# excluded.txt says which cases do not run here, and why.
set -euo pipefail

[ $# -ge 1 ] || {
  echo "usage: $0 CACHE [unit|contract|e2e-local]..." >&2
  exit 64
}
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
here=$source_dir/tests/arm64
mkdir -p "$1"
cache=$(cd "$1" && pwd)
shift
root=$cache/root
build=$cache/build
log=$cache/log
: >"$log"

suites=("$@")
[ $# -gt 0 ] || suites=(unit contract e2e-local)
declare -A targets=([unit]=unit_tests [contract]=contract_sqlite_tests
  [e2e-local]="dblock dblock_test_job dblock_test_refusals e2e_tests")
# What the build links, what the tests load and what they compile against. Their dependencies come by themselves.
packages=(libc6-dev libstdc++6 libmariadb-dev libmariadb3 libsqlite3-dev catch2 libcli11-dev nlohmann-json3-dev
  libfaketime)

# Runs a command with its output in the log, which is shown when it fails.
quietly() {
  "$@" >>"$log" 2>&1 </dev/null || {
    tail -n 60 "$log"
    return 1
  }
}

install_tools() {
  command -v aarch64-linux-gnu-g++ qemu-aarch64-static cmake ninja pkg-config >/dev/null && return
  export DEBIAN_FRONTEND=noninteractive
  quietly apt-get update
  quietly apt-get install -y --no-install-recommends g++-aarch64-linux-gnu qemu-user-static cmake ninja-build pkg-config
}

# apt for arm64 beside the machine's own: with its sources and keys, but nothing else of it.
foreign_apt() {
  apt-get -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Install-Recommends=false \
    -o Dir::State="$cache/apt" -o Dir::State::status="$cache/apt/status" -o Dir::Cache="$cache/apt" \
    -o Debug::NoLocking=true "$@"
}

# Unpacks arm64's packages, without running anything of them. Once a day at most.
make_root() {
  local wanted="${packages[*]}" stamp=$cache/root.packages deb link
  if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && [ -n "$(find "$stamp" -mtime -1)" ]; then return; fi
  mkdir -p "$cache/apt/lists/partial" "$cache/apt/archives/partial"
  : >"$cache/apt/status"
  quietly foreign_apt update
  rm -f "$cache"/apt/archives/*.deb
  quietly foreign_apt install -y --download-only "${packages[@]}"
  rm -rf "$root"
  mkdir -p "$root/usr/lib"
  ln -s usr/lib "$root/lib"
  for deb in "$cache"/apt/archives/*.deb; do
    # By way of tar: dpkg-deb would put a directory in place of the link.
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$root" --keep-directory-symlink --no-same-owner
  done
  # The linker would follow these into the machine's own directories.
  find "$root" -type l -lname '/*' -printf '%p\t%l\n' | while IFS=$'\t' read -r link target; do
    ln -snf "$(realpath -ms --relative-to="$(dirname "$link")" "$root$target")" "$link"
  done
  echo "$wanted" >"$stamp"
}

# The product is optimized, since it is then that the compiler reorders too; g++ 12 sees uses of unset values there that
# are none. The tests are not, which halves the time for them.
# There is no server for arm64 here: the targets that need one are not built.
build_all() {
  local suite wanted
  if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
  quietly cmake -S "$source_dir" -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$here/toolchain.cmake" \
    -DDBLOCK_ARM64_ROOT="$root" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O2 -Wno-maybe-uninitialized" \
    -DDBLOCK_TEST_OPTIONS=-O0 -DDBLOCK_WERROR=ON \
    -DDBLOCK_MARIADBD=/bin/false -DDBLOCK_MARIADB_INSTALL_DB=/bin/false
  for suite in "${suites[@]}"; do
    read -ra wanted <<<"${targets[$suite]}"
    quietly cmake --build "$build" -j "$(nproc)" --target "${wanted[@]}"
  done
}

# In a mount namespace of its own: registers the emulator with the kernel for the length of a command.
with_emulator() {
  local binfmt=/proc/sys/fs/binfmt_misc name=dblock-arm64-$$
  mount -t binfmt_misc binfmt_misc $binfmt
  # The file of Debian's package, with its flags: F opens the emulator at once, P keeps a program's own name for itself.
  sed -n "s/^:qemu-aarch64:/:$name:/p" /usr/lib/binfmt.d/qemu-aarch64.conf >$binfmt/register
  # shellcheck disable=SC2064 # the name is known now
  trap "echo -1 >$binfmt/$name" EXIT
  "$@"
}

# excluded.txt as one regular expression. A name that no case has any more would exclude nothing.
excluded() {
  local names expression
  names=$(sed -n 's/^ *Test *#[0-9]*: //p' "$cache/cases.log")
  sed '/^#/d; /^$/d' "$here/excluded.txt" | while IFS= read -r expression; do
    if [[ " ${suites[*]} " == *" ${expression%%/*} "* ]] && ! grep -qE "$expression" <<<"$names"; then
      echo "excluded.txt: no case is called $expression" >&2
    fi
    echo "$expression"
  done | paste -sd '|'
}

# Lines of a file that match; none is an answer too.
count() {
  grep -c -- "$1" "$2" || true
}

# All suites in one run of CTest, which asks each program for its cases first, and that takes seconds here. Most cases
# wait for most of their time, so more of them run at once than there are processors.
run_suites() {
  local suites_regex list=$cache/cases.log results=$cache/tests.log suite all run passed skipped status=0
  suites_regex="^($(printf '%s\n' "${suites[@]}" | paste -sd '|'))/"
  ctest --test-dir "$build" -N -R "$suites_regex" >"$list"
  ctest --test-dir "$build" -R "$suites_regex" -E "$(excluded)" --no-tests=error --output-on-failure \
    -j "$((2 * $(nproc)))" >"$results" 2>&1 </dev/null || status=1
  for suite in "${suites[@]}"; do
    all=$(count "Test *#[0-9]*: $suite/" "$list")
    run=$(count "^ *[0-9]*/[0-9]* Test *#[0-9]*: $suite/" "$results")
    passed=$(count "^ *[0-9]*/[0-9]* Test *#[0-9]*: $suite/.* Passed " "$results")
    skipped=$(count "^ *[0-9]*/[0-9]* Test *#[0-9]*: $suite/.*\*\*\*Skipped" "$results")
    printf '%-10s %4d cases: %d passed, %d failed, %d skipped, %d excluded\n' "$suite" "$all" "$passed" \
      $((run - passed - skipped)) "$skipped" $((all - run))
  done
  sed -n '/^The following tests FAILED/,/^Errors/p' "$results"
  return $status
}

if [ "${DBLOCK_ARM64_INSIDE-}" = 1 ]; then
  with_emulator run_suites
  exit
fi

emulate() {
  DBLOCK_ARM64_INSIDE=1 unshare --mount --propagation private "$0" "$cache" "${suites[@]}"
}

for step in install_tools make_root build_all emulate; do
  started=$SECONDS
  $step
  printf '%s: %d s\n' "$step" $((SECONDS - started))
done
