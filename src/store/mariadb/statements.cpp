#include "store/mariadb/statements.hpp"

#include <algorithm>
#include <array>

#include "store/lock_table.hpp"
#include "store/mariadb/line_statements.hpp"
#include "store/mariadb/literals.hpp"
#include "store/mariadb/migrations.hpp"

namespace dblock::store::mariadb {
namespace {

using namespace std::chrono_literals;

// Waits inside the server end well before a renewal's time is up (the defaults are 50 s and a day), and
// before the network timeout, which would leave their outcome unknown.
constexpr std::chrono::seconds k_least_lock_wait = 1s;
constexpr std::chrono::seconds k_most_lock_wait = 2s;

#define DBLOCK_SQL_NOW "UTC_TIMESTAMP(6)"
constexpr std::string_view k_now = DBLOCK_SQL_NOW;
constexpr std::string_view k_now_micros =
    "CAST(TIMESTAMPDIFF(MICROSECOND,'1970-01-01'," DBLOCK_SQL_NOW ") AS UNSIGNED)";
// Who still holds what, by the server's clock, at the start of the statement.
constexpr std::string_view k_past_margin = "expire_time+INTERVAL margin_us MICROSECOND<=" DBLOCK_SQL_NOW;
constexpr std::string_view k_hold_is_over = "(hold_until IS NULL OR hold_until<=" DBLOCK_SQL_NOW ")";
#undef DBLOCK_SQL_NOW

template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::string text;
  (text.append(std::string_view(parts)), ...);
  return text;
}

std::string micros_of(std::string_view expression) {
  return cat("TIMESTAMPDIFF(MICROSECOND,'1970-01-01',", expression, ")");
}

std::string quoted(std::string_view constant) {
  return cat("'", constant, "'");
}

std::string key_is(std::string_view key) {
  return "lock_key=" + bytes_literal(key);
}

std::string token_is(lease::Token token) {
  return "token=" + std::to_string(token.value);
}

std::string ref_matches(const lease::LeaseRef& ref, lease::Actor actor) {
  std::string where = key_is(ref.key.bytes()) + " AND lock_value=" + bytes_literal(ref.owner.text);
  if (ref.token) where += " AND " + token_is(*ref.token);
  if (actor == lease::Actor::script) where += " AND kind='acquire'";
  return where;
}

std::string heartbeat_literal(const lease::Terms& terms) {
  return terms.heartbeat ? std::to_string(terms.heartbeat->count()) : "NULL";
}

std::string hold_until_literal(const lease::Promises& promises) {
  return promises.min_hold > Micros{0} ? cat(k_now, "+", interval(promises.min_hold)) : "NULL";
}

// True while no success of this key is dated within the period (promises.hpp).
std::string not_done_within(const lease::OncePer& once_per) {
  return cat("(success_acquired_at IS NULL OR success_acquired_at<=", k_now, "-",
             interval(once_per.look_back()), " OR success_acquired_at>", k_now, "+",
             interval(once_per.look_ahead()), ")");
}

struct Assignment {
  std::string_view column;
  std::string value;
};

// What a grant writes, apart from token, version and the record of an abandoned predecessor.
std::vector<Assignment> grant_values(const lease::AcquireRequest& request) {
  const auto& terms = request.terms;
  const auto& holder = request.holder;
  return {
      {"lock_value", bytes_literal(request.owner.text)},
      {"create_time", std::string(k_now)},
      {"update_time", std::string(k_now)},
      {"expire_time", cat(k_now, "+", interval(terms.ttl))},
      {"lock_count", "1"},
      {"kind", quoted(lease::to_string(request.kind))},
      {"ttl_us", std::to_string(terms.ttl.count())},
      {"margin_us", std::to_string(terms.margin.count())},
      {"heartbeat_us", heartbeat_literal(terms)},
      {"hold_until", hold_until_literal(request.promises)},
      {"revoke_time", "NULL"},
      {"idle_since", "NULL"},
      {"holder_host", text_literal(holder.host, k_name_bytes)},
      {"holder_pid", std::to_string(holder.pid)},
      {"holder_user", text_literal(holder.user, k_name_bytes)},
      {"holder_command", text_literal(holder.command, k_command_bytes)},
      {"holder_note", text_literal(holder.note, k_note_bytes)},
  };
}

// Frees the row. The last_* columns come first: assignments run left to right on MySQL, and all at once under
// MariaDB's SIMULTANEOUS_ASSIGNMENT; this order means the same under both.
std::string freeing(std::string_view outcome, std::string_view released_at, std::string_view exit_code) {
  return cat("UPDATE dblock_lock SET last_acquired_at=create_time,last_released_at=", released_at,
             ",last_outcome=", quoted(outcome), ",last_exit_code=", exit_code,
             ",version=version+1,update_time=", k_now, ",idle_since=", k_now,
             ",lock_value=NULL,expire_time=NULL,revoke_time=NULL,lock_count=0");
}

const std::string& status_columns() {
  static const std::string columns =
      "SELECT lock_key,lock_value,token,lock_count,kind,holder_host,holder_pid,holder_user,holder_command,"
      "holder_note," +
      micros_of("create_time") + "," + micros_of("update_time") + "," + micros_of("expire_time") + "," +
      micros_of("revoke_time") + "," + micros_of("hold_until") + ",ttl_us,margin_us,heartbeat_us," +
      micros_of("last_acquired_at") + "," + micros_of("last_released_at") + ",last_outcome,last_exit_code," +
      micros_of("success_acquired_at") + "," + micros_of("success_released_at") + "," + micros_of(k_now) +
      " FROM dblock_lock";
  return columns;
}

// Whatever the optimizer's estimates say at the moment (freed rows that InnoDB has yet to purge still count),
// what is held or idle is never found by reading the whole table.
constexpr std::string_view k_by_expiry = " FORCE INDEX (dblock_lock_expiry)";
constexpr std::string_view k_by_idle_time = " FORCE INDEX (dblock_lock_idle)";

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const auto& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

// Old enough by every mark the row carries. `idle_since` is first because its index finds the rows.
std::string forgettable(Micros forget_after) {
  const std::string limit = cat(k_now, "-", interval(std::max(forget_after, k_least_idle_time)));
  return cat("idle_since<", limit, " AND lock_value IS NULL AND update_time<", limit, " AND token<",
             micros_of(limit), " AND (keep_until IS NULL OR keep_until<=", k_now, ") AND ", k_hold_is_over);
}

}  // namespace

std::string setup_statement(bool server_is_mariadb, const SessionOptions& options, SchemaCheck check,
                            const lease::Key* line) {
  const auto lock_wait = std::clamp(options.network_timeout / 2, k_least_lock_wait, k_most_lock_wait);
  const std::string wait = std::to_string(lock_wait.count());
  const std::string isolation = server_is_mariadb ? "tx_isolation" : "transaction_isolation";
  std::string sql =
      "SET NAMES utf8mb4,SESSION autocommit=1,time_zone='+00:00',innodb_lock_wait_timeout=" + wait +
      ",lock_wait_timeout=" + wait;
  if (options.idle_timeout > Micros{0}) {
    const auto idle = std::chrono::ceil<std::chrono::seconds>(options.idle_timeout);
    sql += ",wait_timeout=" + std::to_string(idle.count());
  }
  // READ COMMITTED takes no gap locks, but InnoDB refuses to write under it with statement-based logging.
  sql +=
      "," + isolation + "=IF(@@log_bin AND @@binlog_format='STATEMENT',@@" + isolation + ",'READ-COMMITTED')";
  const std::string mode = session_mode(line);
  if (check == SchemaCheck::off) return sql + ",sql_mode=" + mode;
  // The schema check costs no statement of its own: a version that does not fit becomes a mode that is
  // refused.
  return sql +
         ",sql_mode=IF((SELECT MAX(version) FROM dblock_migration)=" + std::to_string(schema_version()) +
         "," + mode + ",CONCAT('" + std::string(k_schema_mark) +
         "',COALESCE((SELECT MAX(version) FROM dblock_migration),0)))";
}

std::string grant_statement(const lease::AcquireRequest& request) {
  std::string sql =
      cat("UPDATE dblock_lock SET last_acquired_at=IF(lock_value IS NULL,last_acquired_at,create_time),"
          "last_released_at=IF(lock_value IS NULL,last_released_at,NULL),"
          "last_outcome=IF(lock_value IS NULL,last_outcome,'abandoned'),"
          "last_exit_code=IF(lock_value IS NULL,last_exit_code,NULL),"
          "token=LAST_INSERT_ID(GREATEST(token+1,",
          k_now_micros, ")),version=version+1");
  for (const auto& [column, value] : grant_values(request)) sql += cat(",", column, "=", value);
  const auto& once_per = request.promises.once_per;
  if (once_per) {
    const std::string until = cat(k_now, "+", interval(once_per->period));
    sql += cat(",keep_until=GREATEST(COALESCE(keep_until,", until, "),", until, ")");
  }
  sql += cat(" WHERE ", key_is(request.key.bytes()), " AND (lock_value IS NULL OR ", k_past_margin, ") AND ",
             k_hold_is_over);
  return once_per ? cat(sql, " AND ", not_done_within(*once_per)) : sql;
}

std::string create_statement(const lease::AcquireRequest& request) {
  std::string columns = "lock_key,token,version";
  std::string values = cat(bytes_literal(request.key.bytes()), ",LAST_INSERT_ID(", k_now_micros, "),1");
  for (const auto& [column, value] : grant_values(request)) {
    columns += cat(",", column);
    values += cat(",", value);
  }
  if (const auto& once_per = request.promises.once_per) {
    columns += ",keep_until";
    values += cat(",", k_now, "+", interval(once_per->period));
  }
  return "INSERT INTO dblock_lock (" + columns + ") VALUES (" + values + ")";
}

std::string renew_statement(const lease::LeaseRef& ref, lease::Actor actor, std::optional<Micros> ttl) {
  // The stored TTL comes back as the insert id: the heartbeat learns it without a second statement.
  const std::string stored = ttl ? std::to_string(ttl->count()) : "LAST_INSERT_ID(ttl_us)";
  const std::string length = ttl ? interval(*ttl) : "INTERVAL ttl_us MICROSECOND";
  return cat("UPDATE dblock_lock SET version=version+1,update_time=", k_now,
             ",expire_time=GREATEST(expire_time,", k_now, "+", length, "),ttl_us=", stored, " WHERE ",
             ref_matches(ref, actor), " AND revoke_time IS NULL AND expire_time>", k_now);
}

std::string release_statement(const lease::LeaseRef& ref, lease::Actor actor, lease::RunEnd end) {
  std::string sql = freeing(lease::to_string(end.outcome), k_now,
                            end.exit_code ? std::to_string(*end.exit_code) : std::string("NULL"));
  if (end.outcome == lease::Outcome::succeeded)
    sql += cat(",success_acquired_at=create_time,success_released_at=", k_now);
  sql += cat(" WHERE ", ref_matches(ref, actor));
  if (actor == lease::Actor::script) sql += cat(" AND expire_time>", k_now);
  return sql;
}

std::string revoke_statement(const lease::Key& key, lease::Token token) {
  // update_time stays: it dates the holder's last heartbeat.
  return cat("UPDATE dblock_lock SET version=version+1,revoke_time=COALESCE(revoke_time,", k_now, ") WHERE ",
             key_is(key.bytes()), " AND ", token_is(token), " AND lock_value IS NOT NULL");
}

std::string free_now_statement(const lease::Key& key, lease::Token token) {
  return cat(freeing(lease::to_string(lease::Outcome::abandoned), k_now, "NULL"), " WHERE ",
             key_is(key.bytes()), " AND ", token_is(token),
             " AND lock_value IS NOT NULL AND (heartbeat_us IS NULL OR "
             "update_time+INTERVAL 2*heartbeat_us MICROSECOND<=",
             k_now, ")");
}

std::string peek_statement(const lease::Key& key) {
  return status_columns() + " WHERE " + key_is(key.bytes());
}

std::string list_statement(const lease::Selection& selection) {
  std::vector<std::string> conditions;
  if (!selection.keys.empty()) {
    std::vector<std::string> keys;
    for (const auto& key : selection.keys) keys.push_back(bytes_literal(key.bytes()));
    conditions.push_back("lock_key IN (" + joined(keys, ",") + ")");
  }
  if (selection.prefix && !selection.prefix->empty()) {
    conditions.push_back("lock_key>=" + bytes_literal(*selection.prefix));
    const std::string end = after_prefix(*selection.prefix);
    if (!end.empty()) conditions.push_back("lock_key<" + bytes_literal(end));
  }
  if (selection.held_only) conditions.push_back(cat("expire_time>", k_now));
  std::string sql = status_columns();
  if (selection.held_only && conditions.size() == 1) sql += k_by_expiry;
  if (!conditions.empty()) sql += " WHERE " + joined(conditions, " AND ");
  return sql + " ORDER BY lock_key";
}

std::string expired_statement() {
  // The first condition alone is one that the index on expire_time can serve.
  return cat(status_columns(), k_by_expiry, " WHERE expire_time<=", k_now, " AND ", k_past_margin,
             " ORDER BY lock_key");
}

std::string server_time_statement() {
  return "SELECT " + micros_of(k_now);
}

std::string abandon_statement(const lease::LockStatus& seen) {
  return cat(freeing(lease::to_string(lease::Outcome::abandoned), "NULL", "NULL"), " WHERE ",
             key_is(seen.key), " AND lock_value=", bytes_literal(seen.owner), " AND ", token_is(seen.token),
             " AND ", k_past_margin);
}

std::string count_idle_statement(Micros forget_after) {
  return cat("SELECT COUNT(*) FROM dblock_lock", k_by_idle_time, " WHERE ", forgettable(forget_after));
}

std::string select_idle_statement(Micros forget_after, std::size_t limit) {
  return cat("SELECT lock_key,version FROM dblock_lock", k_by_idle_time, " WHERE ", forgettable(forget_after),
             " ORDER BY idle_since LIMIT ", std::to_string(limit));
}

std::string forget_statement(const std::vector<IdleRow>& rows, Micros forget_after) {
  std::vector<std::string> matches;
  for (const auto& row : rows)
    matches.push_back("(" + key_is(row.key) + " AND version=" + std::to_string(row.version) + ")");
  return "DELETE FROM dblock_lock WHERE (" + joined(matches, " OR ") + ") AND " + forgettable(forget_after);
}

}  // namespace dblock::store::mariadb
