#!/bin/sh
# A wrong include does not build: what a library must not include is in none of the folders that its compiler searches.
# usage: includes.sh SOURCE_DIRECTORY BUILD_DIRECTORY
set -eu

[ $# -eq 2 ] || { echo "usage: $0 SOURCE_DIRECTORY BUILD_DIRECTORY" >&2; exit 2; }
bad=0
complain() {
  echo "$*"
  bad=1
}

while read -r library verdict header; do
  folders=$(grep -m1 "CMakeFiles/${library}[.]dir/" "$2/compile_commands.json" | grep -o -- '-I[^ ]*' | cut -c3-)
  [ -n "$folders" ] || complain "no library $library; correct $0"
  [ -e "$1/src/$header" ] || complain "no header src/$header; correct $0"
  found=never
  for folder in $folders; do
    [ ! -e "$folder/$header" ] || found=may
  done
  [ "$verdict" = "$found" ] ||
    complain "$library $found include $header, against $0; which library of its CMakeLists.txt hands that on?"
done <<'END'
dblock_lease may base/log.hpp
dblock_lease never store/database.hpp
dblock_lease never process/job.hpp
dblock_process never lease/lease.hpp
dblock_process never app/words/describe.hpp
dblock_process never process/guardian/guardian.hpp
dblock_process_guardian may process/signals.hpp
dblock_process_guardian never process/supervisor.hpp
dblock_store_port never store/rules/history.hpp
dblock_store_rules may store/database.hpp
dblock_store_rules never store/open.hpp
dblock_store_rules never store/mariadb/sql.hpp
dblock_store_mariadb never store/rules/history.hpp
dblock_store_mariadb_session may store/mariadb/sql.hpp
dblock_store_mariadb_session never store/mariadb/wake_up.hpp
dblock_store_sqlite never store/mariadb/factory.hpp
dblock_doctor may store/open.hpp
dblock_doctor never store/sqlite/factory.hpp
dblock_app_words may app/identity.hpp
dblock_app_words never app/use_cases.hpp
dblock_app_words never store/open.hpp
dblock_app may app/words/describe.hpp
dblock_app never app/run/hooks.hpp
dblock_app never process/supervisor.hpp
dblock_app never store/rules/history.hpp
dblock_app_run may app/store_access.hpp
dblock_cli_options never app/use_cases.hpp
dblock_cli_report may app/use_cases.hpp
dblock_cli_report never cli/options/parse.hpp
dblock_cli_report never cli/output.hpp
dblock_cli may cli/report/report.hpp
dblock_cli never store/open.hpp
dblock_cli never process/guardian/guardian.hpp
dblock never app/use_cases.hpp
END
exit "$bad"
