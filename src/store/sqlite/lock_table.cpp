#include "store/sqlite/lock_table.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "base/text.hpp"
#include "store/sharing.hpp"
#include "store/sqlite/factory.hpp"
#include "store/sqlite/history.hpp"
#include "store/sqlite/statements.hpp"
#include "store/table_lease_store.hpp"
#include "store/together.hpp"

namespace dblock::store::sqlite {
namespace {

using namespace std::chrono_literals;

// A renewal of another lock waits for one batch at most.
constexpr std::int64_t k_forget_batch = 200;

Parameter micros_parameter(const char* name, std::optional<Micros> value) {
  if (!value) return {name, nullptr};
  return {name, value->count()};
}

// A token beyond the range of SQLite's integers was never given out; negative, it matches none.
Parameter token_parameter(std::optional<lease::Token> token) {
  if (!token) return {":token", nullptr};
  return {":token", static_cast<std::int64_t>(token->value)};
}

Parameters grant_parameters(const lease::AcquireRequest& request, const lease::Key& key) {
  const auto& holder = request.holder;
  const auto& [min_hold, once_per] = request.promises;
  const auto of_period = [&period = once_per](auto length) {
    return period ? std::optional<Micros>(std::invoke(length, *period)) : std::nullopt;
  };
  return {
      {":key", key.bytes()},
      {":owner", request.owner.text},
      {":kind", std::string(lease::to_string(request.kind))},
      micros_parameter(":ttl", request.terms.ttl),
      micros_parameter(":margin", request.terms.margin),
      micros_parameter(":heartbeat", request.terms.heartbeat),
      {":host", clean_utf8(holder.host, k_name_bytes)},
      {":pid", static_cast<std::int64_t>(holder.pid)},
      {":user", clean_utf8(holder.user, k_name_bytes)},
      {":command", clean_utf8(holder.command, k_command_bytes)},
      {":note", clean_utf8(holder.note, k_note_bytes)},
      micros_parameter(":min_hold", min_hold > Micros{0} ? std::optional(min_hold) : std::nullopt),
      micros_parameter(":period", of_period(&lease::OncePer::period)),
      micros_parameter(":look_back", of_period(&lease::OncePer::look_back)),
      micros_parameter(":look_ahead", of_period(&lease::OncePer::look_ahead)),
      {":mode", std::string(lease::to_string(request.sharing.mode))},
      {":slots", std::int64_t{request.sharing.slots}},
  };
}

Parameter slot_parameter(std::uint32_t slot) {
  return {":slot", std::int64_t{slot}};
}

Parameters ref_parameters(const lease::LeaseRef& ref, lease::Actor actor) {
  constexpr auto last_slot = std::numeric_limits<std::uint32_t>::max();
  const auto slot = lease::slot_of(ref);
  return {{":key", ref.key.bytes()},
          {":owner", ref.owner.text},
          token_parameter(ref.token),
          {":script", std::int64_t{actor == lease::Actor::script ? 1 : 0}},
          {":first_slot", std::int64_t{slot.value_or(0)}},
          {":last_slot", std::int64_t{slot.value_or(last_slot)}}};
}

Parameters force_parameters(const lease::Key& key, std::uint32_t slot, lease::Token token) {
  return {{":key", key.bytes()}, slot_parameter(slot), token_parameter(token)};
}

// Of what all rows of a lock know of past runs.
Parameters past_parameters(const lease::LockStatus& gate) {
  const auto time = [](const char* name, const std::optional<lease::ServerTime>& at) {
    return micros_parameter(name, at ? std::optional(at->since_epoch) : std::nullopt);
  };
  const lease::PastRun last = gate.last.value_or(lease::PastRun{});
  const lease::PastRun success = gate.last_success.value_or(lease::PastRun{});
  Parameters parameters{{":key", gate.key},
                        time(":last_acquired", last.acquired_at),
                        time(":last_released", last.released_at),
                        time(":success_acquired", success.acquired_at),
                        time(":success_released", success.released_at)};
  if (last.outcome) parameters.push_back({":last_outcome", std::string(lease::to_string(*last.outcome))});
  if (last.exit_code) parameters.push_back({":last_exit_code", std::int64_t{*last.exit_code}});
  return parameters;
}

std::optional<lease::Token> token_of(const std::vector<Row>& rows) {
  if (rows.empty()) return std::nullopt;
  return lease::Token{unsigned_number(rows.front()[0])};
}

}  // namespace

SqliteLockTable::SqliteLockTable(const SqliteSettings& settings, const SessionOptions& options, Clock& clock)
    : connection_(settings, options, clock, SchemaCheck::on), turnstile_(settings.path) {}

Result<std::optional<lease::Token>> SqliteLockTable::grant(const lease::AcquireRequest& request,
                                                           const std::string& attempt) {
  DBLOCK_TRY(const auto done,
             connection_.change(grant_sql(), grant_parameters(request, request.key), attempt));
  return token_of(done.rows);
}

Result<std::optional<lease::Token>> SqliteLockTable::create(const lease::AcquireRequest& request,
                                                            const std::string& attempt) {
  std::optional<lease::Token> token;
  const auto add_and_grant = [&]() -> Result<void> {
    DBLOCK_CHECK(add(request.key, attempt));
    DBLOCK_TRY(token, grant(request, attempt));
    return {};
  };
  DBLOCK_CHECK(connection_.in_transaction(attempt, add_and_grant));
  return token;
}

Result<void> SqliteLockTable::in_transaction(const std::string& attempt, const Body& body) {
  return connection_.in_transaction(attempt, body);
}

// A transaction that is going to change something has the store to itself: reading is locking.
Result<std::vector<std::optional<Scene>>> SqliteLockTable::survey(const std::vector<lease::Key>& keys,
                                                                  bool to_change,
                                                                  const std::string& attempt) {
  std::vector<lease::LockStatus> seen;
  const auto read = [&]() -> Result<void> {
    for (const auto& key : keys) {
      DBLOCK_TRY(const auto rows,
                 connection_.run(survey_sql(), {{":key", key.bytes()}}, attempt, Phase::read));
      for (const auto& row : rows) seen.push_back(read_status(row));
    }
    return {};
  };
  DBLOCK_CHECK(to_change ? read() : connection_.in_view(attempt, read));
  return scenes_of(keys, std::move(seen));
}

Result<void> SqliteLockTable::add(const lease::Key& key, const std::string& attempt) {
  DBLOCK_CHECK(connection_.change(add_sql(), {{":key", key.bytes()}, slot_parameter(0)}, attempt));
  return {};
}

Result<void> SqliteLockTable::put(const lease::AcquireRequest& request, const std::vector<Place>& places,
                                  lease::Token token, const std::string& attempt) {
  for (const auto& [key, seen, slot] : places) {
    Parameters parameters = grant_parameters(request, key);
    parameters.push_back(token_parameter(token));
    parameters.push_back(slot_parameter(slot));
    const bool becomes_exclusive = slot == 0 && seen.gate.sharing.mode != lease::Mode::exclusive;
    if (becomes_exclusive)
      DBLOCK_CHECK(connection_.change(inherit_sql(), past_parameters(seen.gate), attempt));
    if (slot > 0) {
      DBLOCK_CHECK(connection_.change(put_gate_sql(), parameters, attempt));
      DBLOCK_CHECK(connection_.change(add_sql(), {{":key", key.bytes()}, slot_parameter(slot)}, attempt));
    }
    DBLOCK_CHECK(connection_.change(put_sql(), parameters, attempt));
  }
  return {};
}

Result<bool> SqliteLockTable::abandon(const lease::LockStatus& lease, const std::string& attempt) {
  return change_one(abandon_sql(),
                    {{":key", lease.key},
                     slot_parameter(lease.slot),
                     {":owner", lease.owner},
                     token_parameter(lease.token)},
                    attempt);
}

Result<void> SqliteLockTable::keep_readers_away(const lease::Key& key, lease::ServerTime until,
                                                const std::string& attempt) {
  DBLOCK_CHECK(connection_.change(keep_readers_away_sql(),
                                  {{":key", key.bytes()},
                                   micros_parameter(":until", until.since_epoch),
                                   micros_parameter(":longest", lease::k_longest_intent)},
                                  attempt));
  return {};
}

Result<void> SqliteLockTable::let_readers_in(const lease::Key& key, lease::ServerTime until,
                                             const std::string& attempt) {
  DBLOCK_CHECK(connection_.change(
      let_readers_in_sql(), {{":key", key.bytes()}, micros_parameter(":until", until.since_epoch)}, attempt));
  return {};
}

Result<std::optional<Renewal>> SqliteLockTable::renew(const lease::LeaseRef& ref, lease::Actor actor,
                                                      std::optional<Micros> ttl, const std::string& attempt) {
  Parameters parameters = ref_parameters(ref, actor);
  parameters.push_back(micros_parameter(":ttl", ttl));
  DBLOCK_TRY(const auto done, connection_.change(renew_sql(), parameters, attempt));
  if (done.rows.empty()) return std::nullopt;
  const Row& row = done.rows.front();
  return Renewal{store::micros(row[0]), lease::ServerTime{store::micros(row[1])}};
}

Result<bool> SqliteLockTable::release(const lease::LeaseRef& ref, lease::Actor actor, lease::RunEnd end,
                                      const std::string& attempt) {
  Parameters parameters = ref_parameters(ref, actor);
  parameters.push_back({":leaves_nested", std::int64_t{actor == lease::Actor::holder ? 1 : 0}});
  parameters.push_back({":outcome", std::string(lease::to_string(end.outcome))});
  if (end.exit_code) parameters.push_back({":exit_code", std::int64_t{*end.exit_code}});
  return change_one(release_sql(), parameters, attempt);
}

Result<std::vector<lease::Key>> SqliteLockTable::release_all(const lease::LeaseRef& ref, lease::Actor actor,
                                                             lease::RunEnd end, const std::string& attempt) {
  const auto keys = keys_of(ref.key, ref.also);
  std::vector<lease::Key> missing;
  bool nested = false;
  const auto body = [&]() -> Result<void> {
    for (const auto& key : keys) {
      DBLOCK_TRY(const bool released, release(lease::part_of(ref, key), actor, end, attempt));
      if (!released) missing.push_back(key);
    }
    if (missing.empty() || actor != lease::Actor::holder) return {};
    DBLOCK_TRY(const auto seen, survey(missing, true, attempt));
    for (std::size_t i = 0; i < seen.size() && !nested; ++i) {
      nested = seen[i] && is_nested_in(*seen[i], ref.owner.text);
      if (nested) missing = {lease::Key(missing[i])};
    }
    return nested ? fail(Errc::internal, attempt + ": a nested run holds it") : Result<void>{};
  };
  const auto done = connection_.in_transaction(attempt, body);
  if (!done && !nested) return std::unexpected(done.error());
  return missing;
}

Result<std::optional<lease::Token>> SqliteLockTable::nest(const lease::LeaseRef& ref,
                                                          const lease::Sharing& sharing, Micros ttl,
                                                          const std::string& attempt) {
  Parameters parameters = ref_parameters(ref, lease::Actor::holder);
  parameters.push_back(micros_parameter(":ttl", ttl));
  parameters.push_back({":mode", std::string(lease::to_string(sharing.mode))});
  parameters.push_back({":slots", std::int64_t{sharing.slots}});
  DBLOCK_TRY(const auto done, connection_.change(nest_sql(), parameters, attempt));
  return token_of(done.rows);
}

Result<bool> SqliteLockTable::unnest(const lease::LeaseRef& ref, const std::string& attempt) {
  return change_one(unnest_sql(), ref_parameters(ref, lease::Actor::holder), attempt);
}

void SqliteLockTable::prepare_release() noexcept {
  connection_.prepare_ahead(release_sql());
}

Result<bool> SqliteLockTable::revoke(const lease::Key& key, std::uint32_t slot, lease::Token token,
                                     const std::string& attempt) {
  return change_one(revoke_sql(), force_parameters(key, slot, token), attempt);
}

Result<bool> SqliteLockTable::free_now(const lease::Key& key, std::uint32_t slot, lease::Token token,
                                       const std::string& attempt) {
  return change_one(free_now_sql(), force_parameters(key, slot, token), attempt);
}

Result<bool> SqliteLockTable::change_one(std::string_view sql, const Parameters& parameters,
                                         const std::string& attempt) {
  DBLOCK_TRY(const auto done, connection_.change(sql, parameters, attempt));
  return done.changed == 1;
}

Result<std::optional<lease::LockStatus>> SqliteLockTable::look(const lease::Key& key,
                                                               const std::string& attempt) {
  DBLOCK_TRY(const auto rows, connection_.run(look_sql(), {{":key", key.bytes()}}, attempt, Phase::read));
  if (rows.empty()) return std::nullopt;
  return read_status(rows.front());
}

Result<std::optional<lease::LockStatus>> SqliteLockTable::look_in_line(const lease::Key& key,
                                                                       const std::string& attempt) {
  DBLOCK_TRY(auto seen, look(key, attempt));
  const auto others = turnstile_.others();
  if (!seen || !others) return seen;
  // A running job's place is the first one; a lease of `acquire` has none.
  const bool holder_is_first = !seen->owner.empty() && seen->kind == lease::Kind::run;
  const std::size_t before = others->before - (holder_is_first && others->before > 0 ? 1 : 0);
  seen->place = {before + 1, before + 1 + others->behind};
  return seen;
}

Result<lease::Listing> SqliteLockTable::list(const lease::Selection& selection, const std::string& attempt) {
  std::vector<std::string> names(selection.keys.size());
  Parameters parameters;
  for (std::size_t i = 0; i < selection.keys.size(); ++i) {
    names[i] = ":key" + std::to_string(i);
    parameters.push_back({names[i].c_str(), selection.keys[i].bytes()});
  }
  if (selection.prefix) {
    parameters.push_back({":from", *selection.prefix});
    const std::string end = after_prefix(*selection.prefix);
    if (!end.empty()) parameters.push_back({":to", end});
  }
  DBLOCK_TRY(const auto rows, connection_.run(list_sql(selection), parameters, attempt, Phase::read));
  lease::Listing listing;
  listing.server_time = {wall_now()};
  listing.locks.reserve(rows.size());
  for (const auto& row : rows) listing.locks.push_back(read_status(row));
  return listing;
}

Result<lease::ReapReport> SqliteLockTable::reap(const lease::ReapRequest& request,
                                                const std::string& attempt) {
  const Micros forget_after = std::max(request.forget_after, k_least_idle_time);
  lease::ReapReport report;
  DBLOCK_TRY(report.abandoned, free_expired(request.dry_run, attempt));
  if (!request.dry_run) {
    DBLOCK_TRY(report.forgotten, forget_idle(forget_after, attempt));
  }
  if (request.forget_history) {
    DBLOCK_TRY(report.forgotten_runs,
               forget_runs_with(connection_, *request.forget_history, request.dry_run, attempt));
  }
  if (!request.dry_run) return report;
  DBLOCK_TRY(const auto rows,
             connection_.run(count_idle_sql(), {micros_parameter(":forget_after", forget_after)}, attempt,
                             Phase::read));
  if (!rows.empty()) report.forgotten = unsigned_number(rows.front()[0]);
  return report;
}

Result<lease::History> SqliteLockTable::history(const lease::HistoryQuery& query,
                                                const std::string& attempt) {
  return history_with(connection_, query, attempt);
}

Result<std::vector<lease::LockStatus>> SqliteLockTable::free_expired(bool dry_run,
                                                                     const std::string& attempt) {
  DBLOCK_TRY(const auto rows, connection_.run(expired_sql(), {}, attempt, Phase::read));
  std::vector<lease::LockStatus> freed;
  for (const auto& row : rows) {
    auto seen = read_status(row);
    if (!dry_run) {
      DBLOCK_TRY(const bool changed, abandon(seen, attempt));
      if (!changed) continue;  // taken over or released since it was read
    }
    freed.push_back(std::move(seen));
  }
  return freed;
}

Result<std::uint64_t> SqliteLockTable::forget_idle(Micros forget_after, const std::string& attempt) {
  std::uint64_t forgotten = 0;
  for (;;) {
    std::uint64_t batch = 0;
    const auto forget = [&] { return forget_batch(forget_after, batch, attempt); };
    DBLOCK_CHECK(connection_.in_transaction(attempt, forget));
    forgotten += batch;
    if (batch < static_cast<std::uint64_t>(k_forget_batch)) return forgotten;
  }
}

Result<void> SqliteLockTable::forget_batch(Micros forget_after, std::uint64_t& forgotten,
                                           const std::string& attempt) {
  const Parameters parameters{micros_parameter(":forget_after", forget_after), {":limit", k_forget_batch}};
  DBLOCK_TRY(const auto gone, connection_.run(forget_sql(), parameters, attempt, Phase::write));
  forgotten = gone.size();
  lease::Token highest;
  for (const auto& row : gone) highest = std::max(highest, lease::Token{unsigned_number(row[0])});
  DBLOCK_CHECK(connection_.run(raise_floor_sql(), {token_parameter(highest)}, attempt, Phase::write));
  return {};
}

std::unique_ptr<lease::LeaseStore> make_lease_store(const SqliteSettings& settings,
                                                    const SessionOptions& options, Clock& clock) {
  return std::make_unique<TableLeaseStore>(std::make_unique<SqliteLockTable>(settings, options, clock),
                                           clock);
}

}  // namespace dblock::store::sqlite
