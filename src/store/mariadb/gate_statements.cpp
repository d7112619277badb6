#include "store/mariadb/gate_statements.hpp"

#include "store/mariadb/literals.hpp"
#include "store/mariadb/statement_parts.hpp"

namespace dblock::store::mariadb {
namespace {

std::string time_or_null(const std::optional<lease::ServerTime>& time) {
  return time ? time_literal(time->since_epoch) : "NULL";
}

// 1 where the row called `lease` has a fence. Counted, so that no optimizer turns it into a search of the
// table.
std::string own_fence(std::string_view locking) {
  return cat("(SELECT COUNT(*) FROM dblock_fence AS fence WHERE fence.lock_key=lease.lock_key AND ",
             "fence.slot=lease.slot", locking, ")");
}

bool is_alone(const lease::AcquireRequest& request) {
  return request.sharing.mode == lease::Mode::exclusive;
}

// Of the row called `gate` or `lease`.
std::string sharing_of(const lease::AcquireRequest& request, std::string_view row) {
  // Exclusive slots of 0 mark one of several locks: their holder has no turnstile, which a listing must know.
  const bool one_of_several = is_alone(request) && !request.also.empty();
  return cat(",", row, ".mode=", quoted(lease::to_string(request.sharing.mode)), ",", row,
             ".slots=", std::to_string(one_of_several ? 0 : request.sharing.slots));
}

}  // namespace

// The server skips the fences that somebody's transaction has locked, without waiting for their end. It does
// not lock those of living leases: their holders' transactions need not wait for a grant to others. What an
// exclusive grant waits for, it waits for when it is written.
std::string survey_statement(const std::vector<lease::Key>& keys) {
  std::vector<std::string> literals;
  for (const auto& key : keys) literals.push_back(bytes_literal(key.bytes()));
  const auto state = [](FenceState value) { return std::to_string(static_cast<std::uint64_t>(value)); };
  const std::string fence = cat(
      ",CASE WHEN slot>0 AND (expire_time>", k_now, " OR ", own_fence(" FOR UPDATE SKIP LOCKED"), ") THEN ",
      state(FenceState::open), " WHEN NOT ", own_fence(""), " THEN ", state(FenceState::missing),
      " WHEN slot>0 THEN ", state(FenceState::kept), " ELSE ", state(FenceState::open), " END");
  return cat(status_columns(fence), "dblock_lock AS lease FORCE INDEX (PRIMARY) WHERE lock_key IN (",
             joined(literals, ","), ") ORDER BY lock_key,slot FOR UPDATE");
}

std::string add_statement(const lease::Key& key, std::uint32_t slot) {
  return cat(
      "INSERT INTO dblock_lock "
      "(lock_key,slot,mode,create_time,update_time,token,version,lock_count,kind,ttl_us,"
      "margin_us,holder_host,holder_pid,holder_user,holder_command,holder_note) VALUES (",
      bytes_literal(key.bytes()), ",", std::to_string(slot), slot > 0 ? ",'slot'," : ",'exclusive',", k_now,
      ",", k_now, ",0,0,0,'run',0,0,'',0,'','','')");
}

std::string add_fence_statement(const lease::Key& key, std::uint32_t slot) {
  return cat("INSERT INTO dblock_fence (lock_key,slot,token) VALUES (", bytes_literal(key.bytes()), ",",
             std::to_string(slot), ",0)");
}

std::string pass_fences_statement(const lease::Key& key, std::uint32_t slot) {
  return cat("UPDATE dblock_fence SET token=0 WHERE ", key_is(key.bytes()), " AND slot<>",
             std::to_string(slot));
}

std::string inherit_statement(const lease::LockStatus& gate) {
  const lease::PastRun last = gate.last.value_or(lease::PastRun{});
  const lease::PastRun success = gate.last_success.value_or(lease::PastRun{});
  return cat("UPDATE dblock_lock SET last_acquired_at=", time_or_null(last.acquired_at),
             ",last_released_at=", time_or_null(last.released_at),
             ",last_outcome=", last.outcome ? quoted(lease::to_string(*last.outcome)) : "NULL",
             ",last_exit_code=", last.exit_code ? std::to_string(*last.exit_code) : "NULL",
             ",success_acquired_at=", time_or_null(success.acquired_at),
             ",success_released_at=", time_or_null(success.released_at), " WHERE ", row_is(gate.key, 0));
}

// Each row that is named is there, or nothing of its key is found.
std::string put_statement(const lease::AcquireRequest& request, const std::vector<Place>& places,
                          lease::Token token, Mark mark) {
  std::string sql =
      "UPDATE dblock_lock AS lease FORCE INDEX (PRIMARY) JOIN dblock_fence AS fence FORCE INDEX (PRIMARY) ON "
      "fence.lock_key=lease.lock_key AND fence.slot=lease.slot";
  if (!is_alone(request))
    sql += " JOIN dblock_lock AS gate FORCE INDEX (PRIMARY) ON gate.lock_key=lease.lock_key AND gate.slot=0";
  sql += cat(taking_over(), "lease.token=", told(std::to_string(token.value), mark),
             ",lease.version=lease.version+1,", assigned(grant_values(request)), sharing_of(request, "lease"),
             ",fence.", token_is(token));
  if (const auto& once_per = request.promises.once_per) sql += "," + kept_until(*once_per);
  if (is_alone(request)) {
    sql += ",lease.intent_until=NULL";
  } else {
    sql += cat(",gate.", token_is(token), ",gate.version=gate.version+1,gate.update_time=", k_now,
               ",gate.hold_until=NULL,gate.intent_until=NULL", sharing_of(request, "gate"));
  }
  std::vector<std::string> rows;
  for (const auto& place : places)
    rows.push_back(
        cat("(lease.", key_is(place.key.bytes()), " AND lease.slot=", std::to_string(place.slot), ")"));
  return cat(sql, " WHERE ", joined(rows, " OR "));
}

std::size_t rows_put(const lease::AcquireRequest& request, const std::vector<Place>& places) {
  return places.size() * (is_alone(request) ? 2 : 3);
}

std::string try_fence_statement(const lease::Key& key) {
  return cat("SELECT slot FROM dblock_fence WHERE ", key_is(key.bytes()), " FOR UPDATE NOWAIT");
}

std::string try_row_statement(const lease::Key& key) {
  return cat("SELECT lock_key FROM dblock_lock WHERE ", row_is(key.bytes(), 0), " FOR UPDATE NOWAIT");
}

std::string keep_readers_away_statement(const lease::Key& key, lease::ServerTime until) {
  const std::string time = time_literal(until.since_epoch);
  return cat("UPDATE dblock_lock SET version=version+1,intent_until=IF(intent_until>", time,
             " AND intent_until<=", k_now, "+", interval(lease::k_longest_intent), ",intent_until,", time,
             ") WHERE ", row_is(key.bytes(), 0));
}

std::string let_readers_in_statement(const lease::Key& key, lease::ServerTime until) {
  return cat("UPDATE dblock_lock SET version=version+1,intent_until=NULL WHERE ", row_is(key.bytes(), 0),
             " AND intent_until=", time_literal(until.since_epoch));
}

}  // namespace dblock::store::mariadb
