#include "store/mariadb/statement_parts.hpp"

#include "store/mariadb/literals.hpp"

namespace dblock::store::mariadb {
namespace {

std::string heartbeat_literal(const lease::Terms& terms) {
  return terms.heartbeat ? std::to_string(terms.heartbeat->count()) : "NULL";
}

std::string hold_until_literal(const lease::Promises& promises) {
  return promises.min_hold > Micros{0} ? cat(k_now, "+", interval(promises.min_hold)) : "NULL";
}

}  // namespace

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const auto& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

std::string micros_of(std::string_view expression) {
  return cat("TIMESTAMPDIFF(MICROSECOND,'1970-01-01',", expression, ")");
}

std::string quoted(std::string_view constant) {
  return cat("'", constant, "'");
}

std::string time_literal(Micros since_epoch) {
  return cat("TIMESTAMP'1970-01-01 00:00:00'+", interval(since_epoch));
}

std::string key_is(std::string_view key) {
  return "lock_key=" + bytes_literal(key);
}

std::string token_is(lease::Token token) {
  return "token=" + std::to_string(token.value);
}

std::string told(std::string_view expression, Mark mark) {
  const std::string marks = std::to_string(k_marks);
  return cat("LAST_INSERT_ID((", expression, ")*", marks, "+", std::to_string(mark.number), ") DIV ", marks);
}

std::string ref_matches(const lease::LeaseRef& ref, lease::Actor actor) {
  std::string where = key_is(ref.key.bytes()) + " AND lock_value=" + bytes_literal(ref.owner.text);
  // Only a hold's row is known, and by it the primary key.
  if (!ref.rows.empty()) where += " AND slot=" + std::to_string(ref.rows.front());
  if (ref.token) where += " AND " + token_is(*ref.token);
  if (actor == lease::Actor::script) where += " AND kind='acquire'";
  return where;
}

std::string_view table_of(Rows rows) {
  return rows == Rows::locks ? "dblock_lock" : "dblock_hold";
}

std::string by_expiry(Rows rows) {
  return cat(" FORCE INDEX (", table_of(rows), "_expiry)");
}

std::string by_idle_time(Rows rows) {
  return cat(" FORCE INDEX (", table_of(rows), "_idle)");
}

// One row of dblock_lock cannot be found but by its key.
std::string_view by_key(Rows rows) {
  return rows == Rows::locks ? "dblock_lock" : "dblock_hold FORCE INDEX (PRIMARY)";
}

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

std::string assigned(const std::vector<Assignment>& values) {
  std::string text;
  for (const auto& [column, value] : values) text += cat(text.empty() ? "" : ",", column, "=", value);
  return text;
}

std::string insertion(Rows rows, const std::vector<Assignment>& values) {
  std::string columns;
  std::string row;
  for (const auto& [column, value] : values) {
    columns += cat(columns.empty() ? "" : ",", column);
    row += cat(row.empty() ? "" : ",", value);
  }
  return cat("INSERT INTO ", table_of(rows), " (", columns, ") VALUES (", row, ")");
}

// Assignments run left to right on MySQL, and all at once under MariaDB's SIMULTANEOUS_ASSIGNMENT: what is
// read comes before it is written, which means the same under both.
std::string taking_over() {
  return " SET last_acquired_at=IF(lock_value IS NULL,last_acquired_at,create_time),"
         "last_released_at=IF(lock_value IS NULL,last_released_at,NULL),"
         "last_outcome=IF(lock_value IS NULL,last_outcome,'abandoned'),"
         "last_exit_code=IF(lock_value IS NULL,last_exit_code,NULL),";
}

// The last_* columns come first: see above. Where a history is kept the token comes back as the insert id,
// which costs those who keep none no statement.
std::string freeing(Rows rows, std::string_view outcome, std::string_view released_at,
                    std::string_view exit_code) {
  return cat("UPDATE ", by_key(rows), " SET last_acquired_at=create_time,last_released_at=", released_at,
             ",last_outcome=", quoted(outcome), ",last_exit_code=", exit_code,
             ",version=version+1,update_time=", k_now, ",idle_since=", k_now,
             ",lock_value=NULL,expire_time=NULL,revoke_time=NULL,lock_count=0*LAST_INSERT_ID(IF(",
             k_keeps_history, ",token,0))");
}

std::string kept_until(const lease::OncePer& once_per) {
  const std::string until = cat(k_now, "+", interval(once_per.period));
  return cat("keep_until=GREATEST(COALESCE(keep_until,", until, "),", until, ")");
}

std::string status_columns(Rows rows, std::string_view more) {
  static const std::string columns =
      "SELECT lock_key,lock_value,token,lock_count,kind,holder_host,holder_pid,holder_user,holder_command,"
      "holder_note," +
      micros_of("create_time") + "," + micros_of("update_time") + "," + micros_of("expire_time") + "," +
      micros_of("revoke_time") + "," + micros_of("hold_until") + ",ttl_us,margin_us,heartbeat_us," +
      micros_of("last_acquired_at") + "," + micros_of("last_released_at") + ",last_outcome,last_exit_code," +
      micros_of("success_acquired_at") + "," + micros_of("success_released_at") + "," + micros_of(k_now) +
      ",mode,slots,";
  if (rows == Rows::holds) return cat(columns, "slot,NULL", more, " FROM ");
  return cat(columns, "0,", micros_of("intent_until"), more, " FROM ");
}

}  // namespace dblock::store::mariadb
