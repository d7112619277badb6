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

std::string row_is(std::string_view key, std::uint32_t slot) {
  return cat(key_is(key), " AND slot=", std::to_string(slot));
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
  if (const auto slot = lease::slot_of(ref)) where += " AND slot=" + std::to_string(*slot);
  if (ref.token) where += " AND " + token_is(*ref.token);
  if (actor == lease::Actor::script) where += " AND kind='acquire'";
  return where;
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
      {"holder_host", text_literal(holder.host, k_name_bytes)},
      {"holder_pid", std::to_string(holder.pid)},
      {"holder_user", text_literal(holder.user, k_name_bytes)},
      {"holder_command", text_literal(holder.command, k_command_bytes)},
      {"holder_note", text_literal(holder.note, k_note_bytes)},
  };
}

std::string assigned(const std::vector<Assignment>& values) {
  std::string text;
  for (const auto& [column, value] : values)
    text += cat(text.empty() ? "" : ",", "lease.", column, "=", value);
  return text;
}

// Assignments run left to right on MySQL, and all at once under MariaDB's SIMULTANEOUS_ASSIGNMENT: what is
// read comes before it is written, which means the same under both.
std::string taking_over() {
  const auto unless_free = [](std::string_view column, std::string_view abandoned) {
    return cat("lease.", column, "=IF(lease.lock_value IS NULL,lease.", column, ",", abandoned, "),");
  };
  return cat(" SET ", unless_free("last_acquired_at", "lease.create_time"),
             unless_free("last_released_at", "NULL"), unless_free("last_outcome", "'abandoned'"),
             unless_free("last_exit_code", "NULL"));
}

// The last_* columns and the count come first: see above. Where a history is kept the token comes back as the
// insert id, which costs those who keep none no statement.
std::string freeing(std::string_view outcome, std::string_view released_at, std::string_view exit_code,
                    std::string_view nobody) {
  return cat("UPDATE ", k_by_key, " SET last_acquired_at=create_time,last_released_at=", released_at,
             ",last_outcome=", quoted(outcome), ",last_exit_code=", exit_code, ",lock_count=", nobody,
             "*LAST_INSERT_ID(IF(", k_keeps_history, ",token,0)),version=version+1,update_time=", k_now,
             ",lock_value=NULL,expire_time=NULL,revoke_time=NULL");
}

std::string kept_until(const lease::OncePer& once_per) {
  const std::string until = cat(k_now, "+", interval(once_per.period));
  return cat("lease.keep_until=GREATEST(COALESCE(lease.keep_until,", until, "),", until, ")");
}

std::string status_columns(std::string_view more) {
  static const std::string columns =
      "SELECT lock_key,lock_value,token,lock_count,kind,holder_host,holder_pid,holder_user,holder_command,"
      "holder_note," +
      micros_of("create_time") + "," + micros_of("update_time") + "," + micros_of("expire_time") + "," +
      micros_of("revoke_time") + "," + micros_of("hold_until") + ",ttl_us,margin_us,heartbeat_us," +
      micros_of("last_acquired_at") + "," + micros_of("last_released_at") + ",last_outcome,last_exit_code," +
      micros_of("success_acquired_at") + "," + micros_of("success_released_at") + "," + micros_of(k_now) +
      ",mode,slots,slot," + micros_of("intent_until");
  return cat(columns, more, " FROM ");
}

}  // namespace dblock::store::mariadb
