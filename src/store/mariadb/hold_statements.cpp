#include "store/mariadb/hold_statements.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

#include "store/mariadb/literals.hpp"
#include "store/mariadb/statement_parts.hpp"

namespace dblock::store::mariadb {
namespace {

std::vector<Assignment> sharing_values(const lease::Sharing& sharing) {
  return {{"mode", quoted(lease::to_string(sharing.mode))}, {"slots", std::to_string(sharing.slots)}};
}

// What the gate takes of a grant that is not exclusive: nobody holds the lock in it. It is idle on paper
// only: reap asks for holders, and needs no further statement when the last of them has gone without a word.
std::vector<Assignment> gate_values() {
  return {{"lock_value", "NULL"},
          {"expire_time", "NULL"},
          {"revoke_time", "NULL"},
          {"hold_until", "NULL"},
          {"lock_count", "0"},
          {"update_time", std::string(k_now)},
          {"idle_since", std::string(k_now)}};
}

std::string token_told(lease::Token token, Mark mark) {
  return cat("token=", told(std::to_string(token.value), mark));
}

std::string hold_is(const lease::Key& key, std::uint32_t slot) {
  return cat(key_is(key.bytes()), " AND slot=", std::to_string(slot));
}

std::string record(std::string_view acquired_at, std::string_view released_at, std::string_view outcome,
                   std::string_view exit_code, std::string_view host) {
  return cat("UPDATE dblock_lock SET last_acquired_at=", acquired_at, ",last_released_at=", released_at,
             ",last_outcome=", quoted(outcome), ",last_exit_code=", exit_code,
             ",version=version+1,update_time=", k_now, ",idle_since=", k_now,
             ",holder_host=", text_literal(host, k_name_bytes));
}

}  // namespace

std::string survey_statement(const lease::Key& key, Rows rows, bool to_change) {
  const std::string which = key_is(key.bytes());
  if (rows == Rows::locks)
    return cat(status_columns(rows), by_key(rows), " WHERE ", which, to_change ? " FOR UPDATE" : "");
  // The server skips the fences that somebody's transaction has locked, without waiting for their end. It
  // does not keep those of living leases locked: their holders' transactions need not wait for a grant to
  // others.
  const std::string fences = cat("(SELECT slot FROM dblock_fence WHERE ", which);
  const std::string living = cat("(SELECT COUNT(*) FROM dblock_hold AS own FORCE INDEX (PRIMARY) WHERE own.",
                                 which, " AND own.slot=dblock_fence.slot AND own.expire_time>", k_now, ")");
  const std::string fenced = cat(",slot IN ", fences, ") AND slot NOT IN ", fences, " AND slot>0 AND ",
                                 living, "=0 FOR UPDATE SKIP LOCKED)");
  return cat(status_columns(rows, to_change ? fenced : ""), by_key(rows), " WHERE ", which,
             " ORDER BY lock_key,slot", to_change ? " FOR UPDATE" : "");
}

std::string add_statement(const lease::Key& key) {
  const std::string now(k_now);
  return insertion(Rows::locks, {{"lock_key", bytes_literal(key.bytes())},
                                 {"create_time", now},
                                 {"update_time", now},
                                 {"idle_since", now},
                                 {"token", "0"},
                                 {"version", "0"},
                                 {"lock_count", "0"},
                                 {"kind", quoted(lease::to_string(lease::Kind::run))},
                                 {"ttl_us", "0"},
                                 {"margin_us", "0"},
                                 {"holder_host", "''"},
                                 {"holder_pid", "0"},
                                 {"holder_user", "''"},
                                 {"holder_command", "''"},
                                 {"holder_note", "''"}});
}

std::string put_statement(const lease::AcquireRequest& request, const lease::Key& key, std::uint32_t slot,
                          lease::Token token, const lease::Sharing& last, Mark mark) {
  const bool alone = request.sharing.mode == lease::Mode::exclusive;
  std::vector<Assignment> values = alone ? grant_values(request) : gate_values();
  // Exclusive slots of 0 mark one of several locks: their holder has no turnstile, which a listing must know.
  lease::Sharing sharing = request.sharing;
  if (alone && !request.also.empty()) sharing.slots = 0;
  std::ranges::move(sharing_values(sharing), std::back_inserter(values));
  values.push_back({"intent_until", "NULL"});
  std::string set =
      cat(taking_over(), "lease.", token_told(token, mark), ",version=version+1,", assigned(values));
  if (const auto& once_per = request.promises.once_per) set += "," + kept_until(*once_per);
  const std::string where = cat(" WHERE lease.", key_is(key.bytes()));
  if (!alone && request.sharing == last) return cat("UPDATE dblock_lock AS lease", set, where);
  // Everybody of another kind has to be gone, so all their transactions have; the own row must be there.
  return cat(
      "UPDATE dblock_lock AS lease JOIN dblock_fence AS own ON own.lock_key=lease.lock_key AND "
      "own.slot=0 JOIN dblock_fence AS fence ON fence.lock_key=lease.lock_key",
      set, ",fence.token=IF(fence.slot=", std::to_string(slot), ",", std::to_string(token.value), ",0)",
      where);
}

std::string put_hold_statement(const lease::AcquireRequest& request, const lease::Key& key,
                               std::uint32_t slot, lease::Token token, Mark mark) {
  return cat(
      "UPDATE dblock_hold AS lease FORCE INDEX (PRIMARY) JOIN dblock_fence AS fence FORCE INDEX "
      "(PRIMARY) ON fence.lock_key=lease.lock_key AND fence.slot=lease.slot",
      taking_over(), "lease.", token_told(token, mark), ",version=version+1,",
      assigned(grant_values(request)), ",", assigned(sharing_values(request.sharing)), ",fence.",
      token_is(token), " WHERE lease.", key_is(key.bytes()), " AND lease.slot=", std::to_string(slot));
}

std::string add_fence_statement(const lease::Key& key, std::uint32_t slot, lease::Token token) {
  return cat("INSERT INTO dblock_fence (lock_key,slot,token) VALUES (", bytes_literal(key.bytes()), ",",
             std::to_string(slot), ",", std::to_string(token.value), ")");
}

std::string put_fence_statement(const lease::Key& key, std::uint32_t slot, lease::Token token) {
  return cat("UPDATE dblock_fence SET ", token_is(token), " WHERE ", hold_is(key, slot));
}

std::string try_fence_statement(const lease::Key& key) {
  return cat("SELECT slot FROM dblock_fence WHERE ", key_is(key.bytes()), " FOR UPDATE NOWAIT");
}

std::string try_row_statement(const lease::Key& key) {
  return cat("SELECT lock_key FROM dblock_lock WHERE ", key_is(key.bytes()), " FOR UPDATE NOWAIT");
}

std::string create_hold_statement(const lease::AcquireRequest& request, const lease::Key& key,
                                  std::uint32_t slot, lease::Token token, Mark mark) {
  std::vector<Assignment> values{{"lock_key", bytes_literal(key.bytes())},
                                 {"slot", std::to_string(slot)},
                                 {"token", told(std::to_string(token.value), mark)},
                                 {"version", "1"}};
  std::ranges::move(grant_values(request), std::back_inserter(values));
  std::ranges::move(sharing_values(request.sharing), std::back_inserter(values));
  return insertion(Rows::holds, values);
}

std::string keep_readers_away_statement(const lease::Key& key, lease::ServerTime until) {
  const std::string time = time_literal(until.since_epoch);
  return cat("UPDATE dblock_lock SET version=version+1,intent_until=IF(intent_until>", time,
             " AND intent_until<=", k_now, "+", interval(lease::k_longest_intent), ",intent_until,", time,
             ") WHERE ", key_is(key.bytes()));
}

std::string let_readers_in_statement(const lease::Key& key, lease::ServerTime until) {
  return cat("UPDATE dblock_lock SET version=version+1,intent_until=NULL WHERE ", key_is(key.bytes()),
             " AND intent_until=", time_literal(until.since_epoch));
}

// The order of the tables is that of the locks, since the gate is read by its whole primary key.
std::string own_hold_statement(const lease::LeaseRef& ref, lease::Actor actor) {
  const std::string key = bytes_literal(ref.key.bytes());
  std::string sql =
      cat("SELECT ", micros_of("hold.create_time"),
          ",hold.holder_host FROM dblock_lock AS gate STRAIGHT_JOIN dblock_hold AS hold FORCE "
          "INDEX (PRIMARY) WHERE gate.lock_key=",
          key, " AND hold.lock_key=", key, " AND hold.lock_value=", bytes_literal(ref.owner.text));
  if (!ref.rows.empty()) sql += " AND hold.slot=" + std::to_string(ref.rows.front());
  if (ref.token) sql += " AND hold." + token_is(*ref.token);
  if (actor == lease::Actor::script) sql += cat(" AND hold.kind='acquire' AND hold.expire_time>", k_now);
  if (actor == lease::Actor::holder) sql += cat(" AND (hold.lock_count<2 OR hold.expire_time<=", k_now, ")");
  return sql + " FOR UPDATE";
}

std::string record_end_statement(const lease::Key& key, const EndOfHold& ended) {
  const std::string acquired_at = time_literal(ended.acquired_at);
  const auto& end = ended.end;
  std::string sql = record(acquired_at, k_now, lease::to_string(end.outcome),
                           end.exit_code ? std::to_string(*end.exit_code) : std::string("NULL"), ended.host);
  // Of several at a time the one that was granted last counts. The release comes first: what follows in the
  // list may see what was assigned before it.
  if (end.outcome == lease::Outcome::succeeded) {
    const std::string latest = cat("COALESCE(success_acquired_at,", acquired_at, ")<=", acquired_at);
    sql +=
        cat(",success_released_at=IF(", latest, ",", k_now, ",success_released_at),success_acquired_at=IF(",
            latest, ",", acquired_at, ",success_acquired_at)");
  }
  return cat(sql, " WHERE ", key_is(key.bytes()));
}

std::string record_abandoned_statement(const lease::LockStatus& hold) {
  const std::string acquired_at =
      hold.acquired_at ? time_literal(hold.acquired_at->since_epoch) : std::string("NULL");
  return cat(
      record(acquired_at, "NULL", lease::to_string(lease::Outcome::abandoned), "NULL", hold.holder.host),
      " WHERE ", key_is(hold.key), " AND lock_value IS NULL AND ", token_is(hold.token));
}

}  // namespace dblock::store::mariadb
