#include "store/mariadb/session/session_statements.hpp"

#include <algorithm>
#include <chrono>

#include "store/mariadb/sql.hpp"

namespace dblock::store::mariadb {
namespace {

using namespace std::chrono_literals;

// Bounds for waits inside the server, whose defaults are 50 s and a day. A wait must end well before a
// renewal runs out of time, and before the network timeout, which would leave the outcome unknown.
constexpr std::chrono::seconds k_least_lock_wait = 1s;
constexpr std::chrono::seconds k_most_lock_wait = 2s;

// Wraps `mode` in a check: on a read-only server sql_mode gets an invalid value, so the statement fails. So
// the check costs no statement of its own.
std::string only_where_writable(const SessionOptions& options, const std::string& mode) {
  if (options.reads_only) return mode;
  return "IF((" + render(Verb::takes_no_writes) + "),'" + std::string(k_read_only_mark) + "'," + mode + ")";
}

// The value of sql_mode, as an SQL expression, in the statement that sets a session up. With `own` it also
// takes the named lock of that request. (Another session of this process may still own it, until the server
// notices that it is gone. Then nobody can sleep behind this session, and waiters look for themselves.)
std::string session_mode(const lease::OwnerId* own) {
  if (own == nullptr) return render(Verb::session_mode);
  return render(Verb::session_mode_with_presence, {{"owner", Scalar(own->text)}});
}

}  // namespace

std::string session_basics(bool server_is_mariadb) {
  // Setting autocommit from 0 to 1 ends an open transaction.
  std::string sql =
      "SET NAMES utf8mb4,SESSION autocommit=0,autocommit=1,completion_type='NO_CHAIN',time_zone='+00:00',"
      "timestamp=DEFAULT,sql_select_limit=18446744073709551615,sql_safe_updates=0,sql_big_selects=1,"
      "sql_auto_is_null=0,unique_checks=1,foreign_key_checks=1";
  // On by default since MariaDB 11.6. A statement that reads another table before it waits for a row then
  // fails (1020) if a waiter or a renewal has written to that row meanwhile, a release among others.
  const std::string by_latest = "/*M!110602 ,innodb_snapshot_isolation=OFF*/";
  if (server_is_mariadb)
    return sql + ",tx_read_only=0,max_statement_time=0,check_constraint_checks=1" + by_latest;
  return sql + ",transaction_read_only=0,max_execution_time=0";
}

std::string setup_statement(bool server_is_mariadb, const SessionOptions& options, SchemaCheck check,
                            const lease::OwnerId* own, bool knows_galera) {
  const auto lock_wait = std::clamp(options.network_timeout / 2, k_least_lock_wait, k_most_lock_wait);
  const std::string wait = std::to_string(lock_wait.count());
  const std::string isolation = server_is_mariadb ? "tx_isolation" : "transaction_isolation";
  std::string sql =
      session_basics(server_is_mariadb) + ",innodb_lock_wait_timeout=" + wait + ",lock_wait_timeout=" + wait;
  // A process that is frozen inside a transaction must not block other processes' rows for long.
  if (server_is_mariadb) sql += ",idle_transaction_timeout=" + wait;
  // A Galera node that lags behind must not answer that a lock is free, or that this holder's lease is gone,
  // so reads wait until the node has caught up. Writes need no such wait: if a write finds a row that has
  // changed elsewhere, its certification fails; if it finds no row, dblock reads next.
  if (server_is_mariadb && knows_galera) sql += ",wsrep_sync_wait=1";
  if (options.idle_timeout > Micros{0}) {
    const auto idle = std::chrono::ceil<std::chrono::seconds>(options.idle_timeout);
    sql += ",wait_timeout=" + std::to_string(idle.count());
  }
  // READ COMMITTED takes no gap locks, but InnoDB refuses to write under it with statement-based logging.
  sql += "," + isolation + "=IF(" + std::string(k_logs_statements) + ",@@" + isolation + ",'READ-COMMITTED')";
  const std::string mode = session_mode(own);
  if (check == SchemaCheck::off) return sql + ",sql_mode=" + only_where_writable(options, mode);
  // The schema check costs no statement of its own: a version that does not fit gives sql_mode an invalid
  // value, which the server refuses.
  const std::string ours = std::to_string(schema_version());
  const std::string checked = "IF((SELECT MAX(version)>=" + ours + " AND MAX(serves)<=" + ours +
                              " FROM dblock_schema USE INDEX (PRIMARY))," + mode + ",CONCAT('" +
                              std::string(k_schema_mark) +
                              "',COALESCE((SELECT MAX(version) FROM dblock_schema USE INDEX (PRIMARY)),0)))";
  return sql + ",sql_mode=" + only_where_writable(options, checked);
}

}  // namespace dblock::store::mariadb
