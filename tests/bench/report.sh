# shellcheck shell=sh
# What run.sh, growth.sh and guards.sh measure, as a table on stdout and as JSON: sourced by all three. In bench.json each
# row is one line, which chart.sh relies on.
# shellcheck disable=SC2154 # its callers know $bench and $pairs

rows=
over=0

start_report() { # FILE-FOR-THE-ROWS
  rows=$1
  : >"$rows"
  printf '%-44s %9s %8s  %-8s %s\n' measure value budget '' details
}

json_text() {
  printf '"%s"' "$(printf %s "$1" | tr '\n\t' '  ' | sed 's/[\\"]/\\&/g')"
}

print_row() { # NAME VALUE BUDGET RESULT DETAILS
  printf '%-44s %9s %8s  %-8s %s\n' "$@"
}

# The result of VALUE against LIMIT, such as "<= 3". Without a limit there is nothing to exceed.
judge() { # VALUE LIMIT
  if [ -z "$2" ]; then
    echo measured
  elif awk "BEGIN { exit !($1 $2) }"; then
    echo ok
  else
    echo over
  fi
}

row() { # NAME VALUE UNIT LIMIT [DETAILS [MORE-JSON]]
  result=$(judge "$2" "$4")
  [ "$result" != over ] || over=1
  print_row "$1" "$2${3:+ $3}" "$4" "$(echo "$result" | sed 's/over/OVER/; s/measured//')" "${5-}"
  printf '{"name": %s, "value": %s, "unit": %s, "limit": %s, "result": "%s"%s}\n' "$(json_text "$1")" "$2" \
    "$(json_text "$3")" "$(json_text "$4")" "$result" "${6:+, $6}" >>"$rows"
}

skip() { # NAME LIMIT REASON
  print_row "$1" - "$2" SKIPPED "$3"
  printf '{"name": %s, "value": null, "unit": "", "limit": %s, "result": "skipped", "reason": %s}\n' \
    "$(json_text "$1")" "$(json_text "$2")" "$(json_text "$3")" >>"$rows"
}

# A comparison that broke off proves nothing, so it counts as over.
broken() { # NAME LIMIT
  over=1
  print_row "$1" - "$2" BROKEN "a command failed"
  printf '{"name": %s, "value": null, "unit": "", "limit": %s, "result": "broken"}\n' "$(json_text "$1")" \
    "$(json_text "$2")" >>"$rows"
}

over_budget() {
  [ $over = 1 ]
}

# Times tool A against tool B by the line that bench_pairs prints. The value is the ratio of their medians.
compare() { # NAME LIMIT TOOL-A TOOL-B COMMAND-A... ::: COMMAND-B...
  name=$1 limit=$2 tool_a=$3 tool_b=$4
  shift 4
  if ! line=$("$bench/bench_pairs" --pairs "$pairs" --warmup 20 "$@"); then
    broken "$name" "$limit"
    return
  fi
  # shellcheck disable=SC2086 # ten numbers
  set -- $line
  row "$name" "$7" "" "$limit" \
    "$(printf '%.2f ms (%.2f to %.2f) / %.2f ms (%.2f to %.2f); of the pairs %.2f (%.2f to %.2f)' "$1" "$2" "$3" "$4" \
      "$5" "$6" "$8" "$9" "${10}")" \
    "\"pairs\": $pairs, \"pairwise\": {\"median\": $8, \"quartiles\": [$9, ${10}]}, \"times\": [$(
      time_of "$tool_a" "$1" "$2" "$3"), $(time_of "$tool_b" "$4" "$5" "$6")]"
}

time_of() { # TOOL MEDIAN QUARTILE-1 QUARTILE-3
  printf '{"tool": %s, "median_ms": %s, "quartiles_ms": [%s, %s]}' "$(json_text "$1")" "$2" "$3" "$4"
}

sql() {
  mariadb --no-defaults --socket="$DBLOCK_SOCKET" --user=root --batch --skip-column-names --execute="$1" dblock
}

# The sum of the server's counters that CONDITION selects.
counters() { # CONDITION
  sql "SELECT SUM(VARIABLE_VALUE) FROM information_schema.GLOBAL_STATUS WHERE $1"
}

# How much the number grows that COUNTER prints, while COMMAND runs.
added_during() { # COUNTER COMMAND...
  counter=$1 && shift
  before=$($counter)
  own=$(($($counter) - before)) # what asking costs
  before=$($counter)
  "$@"
  echo $(($($counter) - before - own))
}

# Every statement counts under one COM_ variable, a prepared one when executed; preparing counts on top. (QUESTIONS
# would count the goodbye, COM_QUIT, as well.)
statements() {
  counters "VARIABLE_NAME = 'COM_STMT_PREPARE'
    OR (VARIABLE_NAME LIKE 'COM\_%' AND VARIABLE_NAME NOT LIKE 'COM\_STMT\_%')"
}

# The statements that the server sees while COMMAND runs.
statements_during() { # COMMAND...
  added_during statements "$@"
}

# The server's processor time, in ticks.
server_ticks() {
  awk '{ sub(/^.*\) /, ""); print $12 + $13 }' "/proc/$(cat "${DBLOCK_SOCKET%/s}/pid")/stat"
}

await() { # COMMAND... that succeeds in the end, within 20 s
  tries=200
  until "$@" >/dev/null 2>&1; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || return 1
    sleep 0.1
  done
}

# The first line of what a program says of its version; nothing when it is not installed.
version_of() { # PROGRAM ARGUMENT
  if command -v "$1" >/dev/null; then "$@" 2>&1 | head -n 1; fi
}

load() {
  cut -d ' ' -f 1 /proc/loadavg
}

# The facts that decide what the numbers are worth, as lines of NAME<tab>TEXT.
describe_machine() { # DIRECTORY-OF-THE-SERVERS
  tab=$(printf '\t')
  echo "cpu$tab$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)"
  echo "cpus$tab$(nproc)"
  echo "memory$tab$(awk '/^MemTotal:/ { printf "%.1f GiB", $2 / 1048576 }' /proc/meminfo)"
  echo "kernel$tab$(uname -srm)"
  echo "distribution$tab$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)"
  echo "storage$tab$(df --output=fstype,source "$1" | awk 'NR == 2 { print $1 " on " $2 }')"
}

describe_versions() { # DBLOCK MARIADB-SERVER
  tab=$(printf '\t')
  echo "dblock$tab$("$1" --version | sed -n '1s/^dblock //p')"
  echo "MariaDB$tab$2"
  echo "client library$tab$("$1" --version | sed -n 's/^.*client library: \([^ ]*\).*/\1/p')"
  echo "OpenSSL$tab$("$1" --version | sed -n 's/^.* OpenSSL \([^ ]*\).*/\1/p')"
  echo "flock$tab$(version_of flock --version | sed 's/^flock from //')"
  echo "etcd$tab$(version_of etcd --version | sed 's/^etcd Version: //')"
  echo "consul$tab$(version_of consul version | sed 's/^Consul v//')"
  echo "redis$tab$(version_of redis-server --version | sed 's/^.*v=\([^ ]*\).*/\1/')"
  echo "mariadb command line$tab$(version_of mariadb --version | sed 's/^.*Distrib \([^ ,]*\).*/\1/')"
}

print_facts() { # MACHINE-LINES VERSION-LINES LOAD-BEFORE
  printf '%s\n%s\nload before\t%s\n\n' "$@" | sed 's/\t$/\tnot installed/' |
    awk -F '\t' '{ printf $1 == "" ? "\n" : "%-22s %s\n", $1, $2 }'
}

warn_when_busy() { # LOAD-BEFORE
  if awk "BEGIN { exit !($1 > 0.5 * $(nproc)) }"; then
    echo "${0##*/}: other programs used this machine (load $1): measure again when it is quiet" >&2
  fi
}

# Lines of NAME<tab>TEXT as the members of an object; null where the text is empty.
members() {
  sed 's/[\\"]/\\&/g' | awk -F '\t' '
    { printf "%s\"%s\": %s", (NR > 1 ? ", " : ""), $1, ($2 == "" ? "null" : "\"" $2 "\"") }'
}

write_json() { # MACHINE-LINES VERSION-LINES LOAD-BEFORE
  printf '{\n"when": "%s",\n"machine": {%s},\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$(printf '%s\n' "$1" | members)"
  printf '"versions": {%s},\n' "$(printf '%s\n' "$2" | members)"
  printf '"load": {"before": %s, "after": %s},\n"pairs": %s,\n"rows": [\n' "$3" "$(load)" "$pairs"
  sed '$!s/$/,/' "$rows"
  printf ']\n}\n'
}
