#!/bin/sh
# Every error and warning of dblock is in messages.txt with a situation that causes it, and the other way
# round. usage: messages.sh SOURCE_DIRECTORY DBLOCK
set -eu

[ $# -eq 2 ] || { echo "usage: $0 SOURCE_DIRECTORY DBLOCK" >&2; exit 2; }
# The program that users install, where .ci/run has built it, as for the suites.
dblock=$(realpath "${DBLOCK_TEST_SHIPPED:-$2}")
cd "$1"
tests=$PWD/tests
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
LC_ALL=C
export LC_ALL
bad=0
complain() {
  echo "$1"
  bad=1
}

# Not what is said on stderr: help, SQL, results on stdout, doctor's findings, the live line.
find src -name '*.[ch]pp' |
  grep -vE '/cli/report/(csv|doctor|history|history_page|html|inspect_page|inspect_table|json|key_rows|lease|lock_cells|lock_fields|pause|prometheus|timeline|maintenance)\.|/(option_spec|help|sql_grant|[a-z_]*statements|judge_[a-z]*|examiner[a-z_]*|doctor|wait_display)\.' |
  sort >"$work/sources"
xargs awk -f tests/messages.awk <"$work/sources" | sort -u >"$work/said"
grep -vE '^($|#|  )' tests/messages.txt | sort >"$work/listed"
[ "$(wc -l <"$work/said")" -gt 200 ] || complain "only $(wc -l <"$work/said") messages were found in src"
[ -z "$(uniq -d "$work/listed")" ] || complain "listed twice: $(uniq -d "$work/listed")"
comm -23 "$work/said" "$work/listed" | sed 's/^/not in messages.txt: /' >"$work/missing"
comm -13 "$work/said" "$work/listed" | sed 's/^/in messages.txt, but not said by src: /' >>"$work/missing"
[ ! -s "$work/missing" ] || complain "$(cat "$work/missing")"

. tests/names.sh

# The pieces of PATTERN stand in a line of FILE, in their order. With CODE: in the line that says how dblock
# ended; or in a warning.
says() {
  PATTERN=$1 CODE=$2 awk '
    BEGIN { count = split(ENVIRON["PATTERN"], pieces, "…"); code = ENVIRON["CODE"] }
    code ~ /^[0-9]/ && index($0, "dblock: exit " code " (") != 1 { next }
    code == "warning" && index($0, "dblock: warning: ") != 1 { next }
    {
      rest = $0
      for (i = 1; i <= count; ++i) {
        at = index(rest, pieces[i])
        if (!at) next
        rest = substr(rest, at + length(pieces[i]))
      }
      found = 1
    }
    END { exit !found }' "$3"
}

# A copy of dblock, which a user can reach who may not enter the directory it was built in.
chmod 711 "$work"
mkdir "$work/bin"
cp "$dblock" "$work/bin/dblock"
cat >"$work/bin/as_other" <<'END'
#!/bin/sh
exec setpriv --reuid=64321 --regid=64321 --clear-groups "$@"
END
chmod 755 "$work/bin" "$work/bin/dblock" "$work/bin/as_other"
provoke() {
  mkdir -m 755 "$work/here"
  (cd "$work/here" && env -i PATH="$work/bin:/usr/bin:/bin" HOME="$work/here" DBLOCK_DB="sqlite:$work/here/store" \
    timeout 20 /bin/sh -c "$1" </dev/null >"$work/out" 2>"$work/err") || true
  rm -rf "$work/here"
}

pattern=
situations=0
provoked=0
skipped=0
waits_for_situation=0
while IFS= read -r line; do
  case $line in
  '' | '#'*) continue ;;
  '  '*) ;;
  *)
    [ $waits_for_situation -eq 0 ] || complain "no situation: $pattern"
    pattern=$line
    waits_for_situation=1
    continue
    ;;
  esac
  waits_for_situation=0
  line=${line#  }
  code=${line%% *}
  line=${line#* }
  kind=${line%% *}
  text=${line#* }
  situations=$((situations + 1))
  case $code in
  1 | 64 | 69 | 7[05678] | 12[4567] | signal | warning | info | stdout) ;;
  *) complain "\"$code\" is no exit code of dblock's: $pattern" ;;
  esac
  case $kind in
  test) echo "$text" >>"$work/named" ;;
  run | root)
    if [ "$kind" = root ] && [ "$(id -u)" != 0 ]; then
      skipped=$((skipped + 1))
      continue
    fi
    provoked=$((provoked + 1))
    provoke "$text"
    [ "$code" = stdout ] && file=$work/out || file=$work/err
    says "$pattern" "$code" "$file" || complain "$text does not say with $code: $pattern
$(cat "$work/err")"
    ;;
  *) complain "unknown kind \"$kind\": $pattern" ;;
  esac
done <"$tests/messages.txt"
[ $waits_for_situation -eq 0 ] || complain "no situation: $pattern"
unknown=$(no_tests <"$work/named")
[ -z "$unknown" ] || complain "$unknown"
echo "$(wc -l <"$work/listed") messages, $situations situations: $provoked provoked here, $skipped need root"
exit $bad
