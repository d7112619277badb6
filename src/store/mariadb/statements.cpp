#include "store/mariadb/statements.hpp"

#include <algorithm>

#include "store/lock_table.hpp"
#include "store/mariadb/line_statements.hpp"
#include "store/mariadb/literals.hpp"
#include "store/mariadb/migrations.hpp"
#include "store/mariadb/statement_parts.hpp"

namespace dblock::store::mariadb {
namespace {

using namespace std::chrono_literals;

// Waits inside the server end well before a renewal's time is up (the defaults are 50 s and a day), and
// before the network timeout, which would leave their outcome unknown.
constexpr std::chrono::seconds k_least_lock_wait = 1s;
constexpr std::chrono::seconds k_most_lock_wait = 2s;

// Whatever the account may do: who has READ ONLY ADMIN or SUPER would write on a replica, and both sides of a
// switchover would grant. read_only is a number on some servers and a word on others.
constexpr std::string_view k_takes_no_writes =
    "(@@innodb_read_only OR CONCAT(@@global.read_only) NOT IN ('0','OFF'))";

// A column more of what is read: which server answers, where that is one that takes no writes.
std::string answering_replica() {
  return cat(",IF(", k_takes_no_writes, ",", k_this_server, ",NULL)");
}

// Like the schema check, it costs no statement of its own.
std::string only_where_writable(const SessionOptions& options, const std::string& mode) {
  if (options.reads_only) return mode;
  return cat("IF(", k_takes_no_writes, ",", quoted(k_read_only_mark), ",", mode, ")");
}

// True while no success of this key is dated within the period (promises.hpp).
std::string not_done_within(const lease::OncePer& once_per) {
  return cat("(success_acquired_at IS NULL OR success_acquired_at<=", k_now, "-",
             interval(once_per.look_back()), " OR success_acquired_at>", k_now, "+",
             interval(once_per.look_ahead()), ")");
}

// Old enough by every mark the row carries. The first two conditions are those that the index on times
// serves.
std::string forgettable(Micros forget_after) {
  const std::string limit = cat(k_now, "-", interval(std::max(forget_after, k_least_idle_time)));
  return cat("expire_time IS NULL AND update_time<", limit, " AND lock_value IS NULL AND token<",
             micros_of(limit), " AND (keep_until IS NULL OR keep_until<=", k_now, ") AND ", k_hold_is_over);
}

// A lock is not forgotten before its holders are, nor before what they have succeeded in. No row of theirs
// gets an owner without a new version of the lock's own row, for which deleting it looks.
std::string idle_rows(Micros forget_after) {
  const std::string idle = forgettable(forget_after);
  return cat("dblock_lock AS lease FORCE INDEX (dblock_lock_time) WHERE ", idle,
             " AND NOT (slot=0 AND EXISTS(SELECT 1 FROM dblock_lock AS held FORCE INDEX (PRIMARY) WHERE "
             "held.lock_key=lease.lock_key AND held.slot>0 AND NOT COALESCE(",
             idle, ",FALSE)))");
}

std::string wanted_keys(const std::vector<lease::Key>& keys) {
  std::vector<std::string> literals;
  for (const auto& key : keys) literals.push_back(bytes_literal(key.bytes()));
  return cat("lock_key IN (", joined(literals, ","), ")");
}

// What the end of a run says of it, besides what every end of a lease says.
std::string ended(lease::RunEnd end, std::string_view nobody) {
  std::string sql = freeing(lease::to_string(end.outcome), k_now,
                            end.exit_code ? std::to_string(*end.exit_code) : std::string("NULL"), nobody);
  if (end.outcome == lease::Outcome::succeeded)
    sql += cat(",success_acquired_at=create_time,success_released_at=", k_now);
  return sql;
}

}  // namespace

std::string session_basics(bool server_is_mariadb) {
  // From 0 to 1 is what ends a transaction.
  std::string sql =
      "SET NAMES utf8mb4,SESSION autocommit=0,autocommit=1,completion_type='NO_CHAIN',time_zone='+00:00',"
      "timestamp=DEFAULT,sql_select_limit=18446744073709551615,sql_safe_updates=0,sql_big_selects=1,"
      "sql_auto_is_null=0,unique_checks=1,foreign_key_checks=1";
  if (server_is_mariadb) return sql + ",tx_read_only=0,max_statement_time=0,check_constraint_checks=1";
  return sql + ",transaction_read_only=0,max_execution_time=0";
}

std::string setup_statement(bool server_is_mariadb, const SessionOptions& options, SchemaCheck check,
                            const lease::Key* line, bool knows_galera) {
  const auto lock_wait = std::clamp(options.network_timeout / 2, k_least_lock_wait, k_most_lock_wait);
  const std::string wait = std::to_string(lock_wait.count());
  const std::string isolation = server_is_mariadb ? "tx_isolation" : "transaction_isolation";
  std::string sql =
      session_basics(server_is_mariadb) + ",innodb_lock_wait_timeout=" + wait + ",lock_wait_timeout=" + wait;
  // Who is frozen in the middle of a transaction must not keep others from their rows for long.
  if (server_is_mariadb) sql += ",idle_transaction_timeout=" + wait;
  // A Galera node that lags behind is not to say that a lock is free, or that ours is gone. Writes need no
  // such wait: where they find too much their certification fails, and where too little they are followed by
  // a read.
  if (server_is_mariadb && knows_galera) sql += ",wsrep_sync_wait=1";
  if (options.idle_timeout > Micros{0}) {
    const auto idle = std::chrono::ceil<std::chrono::seconds>(options.idle_timeout);
    sql += ",wait_timeout=" + std::to_string(idle.count());
  }
  // READ COMMITTED takes no gap locks, but InnoDB refuses to write under it with statement-based logging.
  sql +=
      "," + isolation + "=IF(@@log_bin AND @@binlog_format='STATEMENT',@@" + isolation + ",'READ-COMMITTED')";
  const std::string mode = session_mode(line);
  if (check == SchemaCheck::off) return sql + ",sql_mode=" + only_where_writable(options, mode);
  // The schema check costs no statement of its own: a version that does not fit becomes a mode that is
  // refused.
  const std::string ours = std::to_string(schema_version());
  const std::string checked = "IF((SELECT MAX(version)>=" + ours + " AND MAX(serves)<=" + ours +
                              " FROM dblock_schema)," + mode + ",CONCAT('" + std::string(k_schema_mark) +
                              "',COALESCE((SELECT MAX(version) FROM dblock_schema),0)))";
  return sql + ",sql_mode=" + only_where_writable(options, checked);
}

std::string takes_no_writes_statement() {
  return cat("SELECT ", k_takes_no_writes);
}

// The fence is joined by a key that is NULL while the lock is not free: a try that is refused must not even
// touch the row that a job's transaction keeps locked.
std::string grant_statement(const lease::AcquireRequest& request, Mark mark) {
  const std::string token = cat("GREATEST(lease.token+1,", k_now_micros, ")");
  // Where others had it last, whether they are gone is not in this row.
  std::string is_free =
      cat("mode='exclusive' AND (lock_value IS NULL OR ", k_past_margin, ") AND ", k_hold_is_over);
  const auto& once_per = request.promises.once_per;
  if (once_per) is_free += cat(" AND ", not_done_within(*once_per));
  std::string sql =
      cat("UPDATE dblock_lock AS lease JOIN dblock_fence AS fence ON fence.slot=0 AND "
          "fence.lock_key=IF(",
          is_free, ",lease.lock_key,NULL)", taking_over(), "lease.token=", told(token, mark),
          ",version=version+1,slots=1,", assigned(grant_values(request)));
  if (once_per) sql += "," + kept_until(*once_per);
  // Which of two tables is written first is the server's to choose: where this grant is in the lease already,
  // so is its token.
  sql += cat(",fence.token=IF(lock_value=", bytes_literal(request.owner.text), " AND create_time=", k_now,
             ",lease.token,", token, ")");
  return cat(sql, " WHERE lease.", key_is(request.key.bytes()), " AND lease.slot=0 AND ", is_free);
}

std::string renew_statement(const lease::LeaseRef& ref, lease::Actor actor, std::optional<Micros> ttl,
                            Mark mark) {
  // The heartbeat learns the stored TTL without a second statement.
  const std::string stored = told(ttl ? std::to_string(ttl->count()) : "ttl_us", mark);
  const std::string length = ttl ? interval(*ttl) : "INTERVAL ttl_us MICROSECOND";
  return cat("UPDATE ", k_by_key, " SET version=version+1,update_time=", k_now,
             ",expire_time=GREATEST(expire_time,", k_now, "+", length, "),ttl_us=", stored, " WHERE ",
             ref_matches(ref, actor), " AND revoke_time IS NULL AND expire_time>", k_now);
}

std::string nest_statement(const lease::LeaseRef& ref, const lease::Sharing& sharing, Micros ttl, Mark mark) {
  // update_time stays: it dates the holder's last heartbeat.
  return cat("UPDATE ", k_by_key,
             " SET version=version+1,lock_count=lock_count+1,expire_time=GREATEST(expire_time,", k_now, "+",
             interval(ttl), "),token=", told("token", mark), " WHERE ",
             ref_matches(ref, lease::Actor::holder), " AND revoke_time IS NULL AND expire_time>", k_now,
             sharing.mode == lease::Mode::exclusive ? std::string()
                                                    : cat(" AND mode='", lease::to_string(sharing.mode),
                                                          "' AND slots=", std::to_string(sharing.slots)));
}

std::string unnest_statement(const lease::LeaseRef& ref) {
  return cat("UPDATE ", k_by_key, " SET version=version+1,lock_count=GREATEST(lock_count,2)-1 WHERE ",
             ref_matches(ref, lease::Actor::holder));
}

std::string release_statement(const lease::LeaseRef& ref, lease::Actor actor, lease::RunEnd end) {
  std::string sql = cat(ended(end, "0"), " WHERE ", ref_matches(ref, actor));
  if (actor == lease::Actor::script) sql += cat(" AND expire_time>", k_now);
  if (actor == lease::Actor::holder) sql += cat(" AND (lock_count<2 OR expire_time<=", k_now, ")");
  return sql;
}

std::string release_statement(const std::vector<lease::LeaseRef>& refs, lease::Actor actor,
                              lease::RunEnd end) {
  // Of what a nested run holds the count becomes NULL, which the column refuses.
  const std::string nobody = cat("IF(lock_count<2 OR expire_time<=", k_now, ",0,NULL)");
  std::vector<std::string> matches;
  for (const auto& ref : refs) matches.push_back(cat("(", ref_matches(ref, actor), ")"));
  std::string sql =
      cat(ended(end, actor == lease::Actor::holder ? nobody : "0"), " WHERE (", joined(matches, " OR "), ")");
  if (actor == lease::Actor::script) sql += cat(" AND expire_time>", k_now);
  return sql;
}

std::string revoke_statement(const lease::Key& key, std::uint32_t slot, lease::Token token) {
  // update_time stays, as in nest_statement().
  return cat("UPDATE ", k_by_key,
             " SET version=version+1,hold_until=NULL,"
             "revoke_time=IF(lock_value IS NULL,NULL,COALESCE(revoke_time,",
             k_now, ")) WHERE ", row_is(key.bytes(), slot), " AND ", token_is(token),
             " AND (lock_value IS NOT NULL OR hold_until>", k_now, ")");
}

std::string free_now_statement(const lease::Key& key, std::uint32_t slot, lease::Token token) {
  return cat(freeing(lease::to_string(lease::Outcome::abandoned), k_now, "NULL"), ",hold_until=NULL WHERE ",
             row_is(key.bytes(), slot), " AND ", token_is(token),
             " AND lock_value IS NOT NULL AND (heartbeat_us IS NULL OR "
             "update_time+INTERVAL 2*heartbeat_us MICROSECOND<=",
             k_now, ")");
}

std::string peek_statement(const lease::Key& key) {
  return cat(status_columns(answering_replica()), "(SELECT 1 AS one) AS asked LEFT JOIN dblock_lock ON ",
             row_is(key.bytes(), 0));
}

std::string look_statement(const std::vector<lease::Key>& keys) {
  return cat(status_columns(answering_replica()), "(SELECT 1 AS one) AS asked LEFT JOIN ", k_by_key, " ON ",
             wanted_keys(keys));
}

std::string list_statement(const lease::Selection& selection) {
  std::vector<std::string> conditions;
  if (!selection.keys.empty()) conditions.push_back(wanted_keys(selection.keys));
  if (selection.prefix && !selection.prefix->empty()) {
    conditions.push_back("lock_key>=" + bytes_literal(*selection.prefix));
    const std::string end = after_prefix(*selection.prefix);
    if (!end.empty()) conditions.push_back("lock_key<" + bytes_literal(end));
  }
  const bool by_held = selection.held_only && conditions.empty();
  if (selection.held_only) conditions.push_back(cat("expire_time>", k_now));
  if (selection.at_most) conditions.emplace_back("slot=0");
  std::string sql = cat(status_columns(), by_held ? k_by_time : "dblock_lock");
  if (!conditions.empty()) sql += " WHERE " + joined(conditions, " AND ");
  sql += " ORDER BY lock_key,slot";
  return selection.at_most ? sql + " LIMIT " + std::to_string(*selection.at_most) : sql;
}

std::string expired_statement() {
  // The first condition alone is one that the index on times can serve.
  return cat(status_columns(), k_by_time, " WHERE expire_time<=", k_now, " AND ", k_past_margin,
             " ORDER BY lock_key,slot");
}

std::string server_time_statement() {
  return "SELECT " + micros_of(k_now);
}

std::string abandon_statement(const lease::LockStatus& seen) {
  return cat(freeing(lease::to_string(lease::Outcome::abandoned), "NULL", "NULL"), " WHERE ",
             row_is(seen.key, seen.slot), " AND lock_value=", bytes_literal(seen.owner), " AND ",
             token_is(seen.token), " AND ", k_past_margin);
}

std::string count_idle_statement(Micros forget_after) {
  return "SELECT COUNT(*) FROM " + idle_rows(forget_after);
}

std::string select_idle_statement(Micros forget_after, std::size_t limit) {
  return cat("SELECT lock_key,slot,version FROM ", idle_rows(forget_after), " ORDER BY update_time LIMIT ",
             std::to_string(limit));
}

std::string forget_fences_statement(const std::vector<IdleRow>& batch, Micros forget_after) {
  std::vector<std::string> keys;
  for (const auto& row : batch) keys.push_back(bytes_literal(row.key));
  return cat("DELETE FROM dblock_fence WHERE lock_key IN (", joined(keys, ","), ") AND token<",
             micros_of(cat(k_now, "-", interval(std::max(forget_after, k_least_idle_time)))));
}

std::string forget_statement(const std::vector<IdleRow>& batch, Micros forget_after) {
  std::vector<std::string> matches;
  for (const auto& row : batch)
    matches.push_back(cat("(", row_is(row.key, row.slot), " AND version=", std::to_string(row.version), ")"));
  return cat("DELETE FROM dblock_lock WHERE (", joined(matches, " OR "), ") AND ", forgettable(forget_after));
}

}  // namespace dblock::store::mariadb
