#!/usr/bin/env bash
# tests/fuzz/run.sh [TARGET [SECONDS]] - builds the fuzz targets with clang, and fuzzes one of them, or all in turn,
# for 60 s each. What breaks a promise or crashes is kept in build/fuzz/found.
# tests/fuzz/run.sh --merge TARGET - takes into the corpus up to thirty inputs of these runs that reach the most code that
# the corpus does not reach.
#
# Debian 12: apt-get install clang-19 libclang-rt-19-dev
set -euo pipefail
cd "$(dirname "$0")/../.."
merge=no
if [ "${1-}" = --merge ]; then
  merge=yes
  shift
fi
seconds=${2-60}
if [ $# -gt 0 ]; then
  targets=("$1")
else
  mapfile -t targets < <(sed -n 's/^DBLOCK_FUZZ_TARGET(\([a-z_]*\),.*/\1/p' tests/fuzz/*.cpp)
fi
build=build/fuzz
cmake --preset fuzz >/dev/null
cmake --build $build --target "${targets[@]/#/fuzz_}" >"$build/build.log" || {
  cat "$build/build.log"
  exit 1
}
# The client library forgets what it had read of a broken result (.ci/run says more), and a server may claim any size.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
mkdir -p $build/found
# The product's own words: options, subcommands, parameters, columns.
grep -ohE '"[a-z][a-z_-]+"' src/cli/options/*.cpp src/store/config/*.cpp src/store/rows.hpp | sort -u >$build/words
printf '%s\n' '"\xe2\x80\xae"' '"\x1b[31m"' '"\xc2\x9b"' '"S3cr3tW0rd"' >>$build/words

# libFuzzer's -merge=1 notes what each input reaches, and would take in hundreds. This takes the input that adds the most,
# and again, of up to 4 KiB each and 100 KiB in all.
merge_most() {
  local reached=$build/$1.reached
  rm -rf "$reached" "$build/merged"
  mkdir "$build/merged"
  "$build/tests/fuzz/fuzz_$1" "${options[@]}" -merge=1 -use_counters=0 "-merge_control_file=$reached" "$build/merged" "$2" "$3" \
    >"$build/$1.log" 2>&1
  awk -v corpus="$2/" '
    NR == 1 { files = $1 }
    NR > 2 && NR <= files + 2 { name[NR - 3] = $0 }
    $1 == "STARTED" { size[$2] = $3 }
    $1 == "FT" && index(name[$2], corpus) == 1 { for (i = 3; i <= NF; i++) known[$i] = 1; next }
    $1 == "FT" { points[$2] = $0 }
    END {
      for (taken = 0; taken < 30; taken++) {
        most = 0
        for (file in points) {
          if (size[file] > 4096 || bytes + size[file] > 102400) continue
          count = split(points[file], point, " ")
          more = 0
          for (i = 3; i <= count; i++) more += !(point[i] in known)
          if (more > most || (more == most && more && size[file] < size[best])) { most = more; best = file }
        }
        if (most == 0) break
        print name[best]
        bytes += size[best]
        count = split(points[best], point, " ")
        for (i = 3; i <= count; i++) known[point[i]] = 1
      }
    }' "$reached" | xargs -r cp -vt "$2"
}

found=0
for target in "${targets[@]}"; do
  corpus=tests/fuzz/corpus/$target
  grown=$build/corpus/$target
  mkdir -p "$grown"
  options=(-timeout=30 -rss_limit_mb=4096 -max_len=6000 "-dict=$build/words" "-artifact_prefix=$build/found/$target-")
  if [ $merge = yes ]; then
    merge_most "$target" "$corpus" "$grown"
    continue
  fi
  echo "== $target"
  "$build/tests/fuzz/fuzz_$target" "${options[@]}" "-max_total_time=$seconds" -print_final_stats=1 "$grown" "$corpus" \
    >"$build/$target.log" 2>&1 || found=1
  grep -aE '^broken:|^SUMMARY|^==.*ERROR|runtime error|Test unit written|^Done|stat::number_of_executed' "$build/$target.log" || true
  grep -a 'cov:' "$build/$target.log" | tail -n 1
done
exit $found
