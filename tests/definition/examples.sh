#!/bin/bash
# Every command line of the manual works. Each display in it follows a comment that says what it is:
#   .\" example: shell [STATUS]   run as a script; STATUS is expected (default 0)
#   .\" example: cron [STATUS]    lines of a crontab: each runs as cron would start it
#   .\" example: unit | yaml | groovy | make    the commands within run
#   .\" example: conf [STATUS]    dblock inspect runs with it as configuration
#   .\" example: endless          a command that goes on until a signal comes; it is to end with 0 then
#   .\" example: none             nothing to run
# The commands that the manual's readers have (jobs, make, a pager) are stand-ins; dblock and the server are real.
# usage: DBLOCK=… tests/with-mariadb.sh examples.sh MAN_DIRECTORY
set -eu

if [ $# -ne 1 ] || [ -z "${DBLOCK-}" ] || [ -z "${DBLOCK_DB-}" ]; then
  echo "usage: DBLOCK=path/to/dblock tests/with-mariadb.sh $0 MAN_DIRECTORY" >&2
  exit 2
fi
pages=$1
box=$(mktemp -d)
trap 'rm -rf "$box"' EXIT
export LC_ALL=C
displays=$box/displays
mkdir -p "$displays" "$box/bin" "$box/opt/etl" "$box/home" "$box/tmp" "$box/var/lib/prometheus/node-exporter" \
  "$box/var/www/html" "$box/without"

stand_in() {
  local file=$1
  shift
  printf '#!/bin/sh\n%s\n' "${*:-exit 0}" >"$file"
  chmod +x "$file"
}
for name in make mariadb page-someone convert-videos curl mail php; do stand_in "$box/bin/$name" 'cat >/dev/null; exit 0'; done
stand_in "$box/bin/jq" cat
for name in consul etcdctl; do stand_in "$box/bin/$name" 'shift 2; exec "$@"'; done
stand_in "$box/bin/dblock" "exec '$(realpath "$DBLOCK")' \"\$@\""
stand_in "$box/opt/etl/nightly.sh"
stand_in "$box/without/make" ": >'$box/worked'"
stand_in "$box/deploy.sh"
# shellcheck disable=SC2016 # for the shell within
stand_in "$box/with-old-lock" 'exec "$@"'
echo 0 >"$box/released"
mkdir "$box/home/.config"
echo "db = $DBLOCK_DB" >"$box/home/.config/dblock.conf"

# One file a display, named PAGE.NUMBER.KIND.STATUS; troff's escapes undone.
for page in "$pages"/*.[1-9]; do
  awk -v to="$displays/$(basename "$page")" -v page="$page" '
    /^\.\\" example: / { kind = $3; status = $4 == "" ? 0 : $4; next }
    /^\.Bd -literal/ {
      if (kind == "") { print page ": line " NR ": a display without .\\\" example: before it" > "/dev/stderr"; exit 1 }
      file = to "." sprintf("%02d", ++count) "." kind "." status
      printf "" > file
      kind = ""
      next
    }
    /^\.Ed/ { file = ""; next }
    file != "" { gsub(/\\e/, "\\"); sub(/^\\&/, ""); print > file }
  ' "$page"
done

# The commands of a display, one a line; a script as a whole.
commands_of() {
  case $1 in
    cron) sed -n 's/^[0-9*,/-]* *[0-9*,/-]* *[0-9*,/-]* *[0-9*,/-]* *[0-9*,/-]* *\(dblock .*\)/\1/p' "$2" ;;
    unit) sed -n 's/^ExecStart=//p' "$2" ;;
    yaml) sed -n 's/^ *- \(run: \)\{0,1\}\(\(exec \)\{0,1\}dblock .*\)/\2/p' "$2" ;;
    groovy) sed -n "s/^ *sh '\(.*\)'/\1/p" "$2" ;;
    make) echo "/usr/bin/make -f '$2'" ;;
    conf) echo "dblock inspect --config '$2'" ;;
  esac
}

failed=0
ran=0
without=0
complain() {
  echo "$1: $2" >&2
  sed 's/^/    /' "$3" "$box/output" >&2
  failed=1
}

# Runs script $2 of display $1, which is to end with status $3, in an environment as bare as cron's. $4: what ends it
# after some time.
run_one() {
  local status=0 kept
  local -a limit
  read -ra limit <<<"${4-timeout 60}"
  (cd "$box" && exec "${limit[@]}" env -i PATH="$box/bin:/usr/bin:/bin" HOME="$box/home" USER=etl \
    sh "$2") >"$box/output" 2>&1 </dev/null || status=$?
  ran=$((ran + 1))
  [ "$status" = "$3" ] || complain "$1" "ended with $status instead of $3" "$2"
  # A keeper gives its lock back a moment after the script that it watches has ended.
  for _ in {1..100}; do
    kept=$("$DBLOCK" inspect --json)
    if [[ $kept == *'"locks":[]'* ]]; then return; fi
    sleep 0.1
  done
  complain "$1" "left a lock behind: $kept" "$2"
}

# A script that takes a lock ends where there is no dblock, before it works.
run_without_dblock() {
  local status=0
  rm -f "$box/worked"
  (cd "$box" && exec timeout 60 env -i PATH="$box/without" HOME="$box/home" /bin/sh "$2") >"$box/output" 2>&1 \
    </dev/null || status=$?
  without=$((without + 1))
  [ "$status" = 127 ] || complain "$1" "without dblock it ended with $status instead of 127" "$2"
  [ ! -e "$box/worked" ] || complain "$1" 'went on without dblock' "$2"
}

for display in "$displays"/*; do
  name=$(basename "$display")
  status=${name##*.}
  kind=${name%.*}
  kind=${kind##*.}
  # What is elsewhere on the reader's machines is in the box here.
  sed -i "s#/tmp/#$box/tmp/#g; s#/opt/#$box/opt/#g; s#/var/lib/#$box/var/lib/#g; s#/var/www/#$box/var/www/#g; s#PATH=/usr/bin#PATH=$box/bin:/usr/bin#; s#--local#--db sqlite:$box/locks.db#
    s#^local = yes#db = sqlite:$box/locks.db#
    s#mysql://[a-z]*@db1[^ ']*#$DBLOCK_DB#g" "$display"
  case $kind in
    none) ;;
    shell)
      run_one "$name" "$display" "$status"
      if grep -q '^lock=.*dblock acquire' "$display"; then run_without_dblock "$name" "$display"; fi
      ;;
    endless)
      sed 's/^/exec /' "$display" >"$box/line"
      run_one "$name" "$box/line" 0 'timeout --preserve-status --signal=TERM 2'
      ;;
    cron | unit | yaml | groovy | make | conf)
      commands=0
      while IFS= read -r line; do
        printf '%s\n' "$line" >"$box/line"
        run_one "$name" "$box/line" "$status"
        commands=$((commands + 1))
      done < <(commands_of "$kind" "$display")
      [ "$commands" -gt 0 ] || complain "$name" 'no command found in it' "$display"
      ;;
    *) complain "$name" "unknown kind of example: $kind" "$display" ;;
  esac
done
echo "$ran commands and scripts of the manual ran"
[ "$ran" -gt 40 ] || { echo "so few: was the manual read at all?" >&2; failed=1; }
[ "$without" -gt 1 ] || { echo "no script of the manual takes a lock as dblock-acquire(1) says" >&2; failed=1; }
exit $failed
