#include "store/sqlite/lock_table.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "base/text.hpp"
#include "store/sqlite/factory.hpp"
#include "store/sqlite/history.hpp"
#include "store/sqlite/statements.hpp"
#include "store/table_lease_store.hpp"

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

Parameters grant_parameters(const lease::AcquireRequest& request, const lease::Key& key,
                            const lease::Promises& promises) {
  const auto& holder = request.holder;
  const auto& [min_hold, once_per] = promises;
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
  };
}

Parameters grant_parameters(const lease::AcquireRequest& request) {
  return grant_parameters(request, request.key, request.promises);
}

// Of a grant that was decided by view of the lock.
Parameters put_parameters(const lease::AcquireRequest& request, const lease::Key& key, std::uint32_t slot,
                          lease::Token token, const lease::Promises& promises) {
  Parameters parameters = grant_parameters(request, key, promises);
  parameters.push_back(token_parameter(token));
  parameters.push_back({":slot", std::int64_t{slot}});
  parameters.push_back({":mode", std::string(lease::to_string(request.sharing.mode))});
  parameters.push_back({":slots", std::int64_t{request.sharing.slots}});
  return parameters;
}

Parameters ref_parameters(const lease::LeaseRef& ref, lease::Actor actor) {
  constexpr auto last_row = std::int64_t{std::numeric_limits<std::uint32_t>::max()};
  return {{":key", ref.key.bytes()},
          {":owner", ref.owner.text},
          token_parameter(ref.token),
          {":script", std::int64_t{actor == lease::Actor::script ? 1 : 0}},
          {":first_row", ref.rows.empty() ? std::int64_t{0} : std::int64_t{ref.rows.front()}},
          {":last_row", ref.rows.empty() ? last_row : std::int64_t{ref.rows.front()}}};
}

Parameters force_parameters(const lease::Key& key, lease::Token token) {
  return {{":key", key.bytes()}, token_parameter(token)};
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
  DBLOCK_TRY(const auto done, connection_.change(grant_sql(), grant_parameters(request), attempt));
  return token_of(done.rows);
}

Result<std::optional<lease::Token>> SqliteLockTable::create(const lease::AcquireRequest& request,
                                                            const std::string& attempt) {
  DBLOCK_TRY(const auto done, connection_.change(create_sql(), grant_parameters(request), attempt));
  return token_of(done.rows);
}

Result<void> SqliteLockTable::in_transaction(const std::string& attempt, const Body& body) {
  return connection_.in_transaction(attempt, body);
}

// A transaction that is going to change something has the store to itself: reading is locking.
Result<std::optional<Scene>> SqliteLockTable::survey(const lease::Key& key, bool to_change,
                                                     const std::string& attempt) {
  const Parameters parameters{{":key", key.bytes()}};
  std::optional<Scene> scene;
  const auto read = [&]() -> Result<void> {
    DBLOCK_TRY(auto gate, look(key, attempt));
    if (!gate) return {};
    scene = Scene{std::move(*gate), {}};
    DBLOCK_TRY(const auto rows, connection_.run(holds_sql(), parameters, attempt, Phase::read));
    for (const auto& row : rows) scene->holds.push_back(read_status(row));
    return {};
  };
  DBLOCK_CHECK(to_change ? read() : connection_.in_view(attempt, read));
  return scene;
}

Result<void> SqliteLockTable::add(const lease::Key& key, const std::string& attempt) {
  DBLOCK_CHECK(connection_.change(add_sql(), {{":key", key.bytes()}}, attempt));
  return {};
}

Result<void> SqliteLockTable::put(const lease::AcquireRequest& request, const lease::Key& key,
                                  std::uint32_t slot, lease::Token token, const Scene& /*seen*/,
                                  const std::string& attempt) {
  const auto write = [&](std::string_view sql, const lease::Promises& promises) -> Result<void> {
    DBLOCK_CHECK(connection_.change(sql, put_parameters(request, key, slot, token, promises), attempt));
    return {};
  };
  if (slot == 0) return write(put_lock_sql(), request.promises);
  DBLOCK_CHECK(write(put_gate_sql(), {Micros{0}, request.promises.once_per}));
  return write(put_hold_sql(), {request.promises.min_hold, std::nullopt});
}

Result<bool> SqliteLockTable::abandon(const lease::LockStatus& lease, Rows rows, const std::string& attempt) {
  return change_one(abandon_sql(rows),
                    {{":key", lease.key}, {":owner", lease.owner}, token_parameter(lease.token)}, attempt);
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

Result<std::optional<Renewal>> SqliteLockTable::renew(const lease::LeaseRef& ref, Rows rows,
                                                      lease::Actor actor, std::optional<Micros> ttl,
                                                      const std::string& attempt) {
  Parameters parameters = ref_parameters(ref, actor);
  parameters.push_back(micros_parameter(":ttl", ttl));
  DBLOCK_TRY(const auto done, connection_.change(renew_sql(rows), parameters, attempt));
  if (done.rows.empty()) return std::nullopt;
  const Row& row = done.rows.front();
  return Renewal{store::micros(row[0]), lease::ServerTime{store::micros(row[1])}};
}

Result<bool> SqliteLockTable::release(const lease::LeaseRef& ref, Rows rows, lease::Actor actor,
                                      lease::RunEnd end, const std::string& attempt) {
  Parameters parameters = ref_parameters(ref, actor);
  parameters.push_back({":leaves_nested", std::int64_t{actor == lease::Actor::holder ? 1 : 0}});
  parameters.push_back({":outcome", std::string(lease::to_string(end.outcome))});
  if (end.exit_code) parameters.push_back({":exit_code", std::int64_t{*end.exit_code}});
  if (rows == Rows::holds) return release_hold(parameters, attempt);
  return change_one(release_sql(rows), parameters, attempt);
}

Result<bool> SqliteLockTable::release_hold(const Parameters& parameters, const std::string& attempt) {
  DBLOCK_TRY(const auto done, connection_.change(release_sql(Rows::holds), parameters, attempt));
  if (done.rows.empty()) return false;
  const Row& hold = done.rows.front();
  Parameters end = parameters;
  end.push_back({":acquired", number(hold[0])});
  end.push_back({":released", number(hold[1])});
  end.push_back({":host", hold[2].value_or("")});
  return change_one(note_release_sql(), end, attempt);
}

Result<std::optional<lease::Token>> SqliteLockTable::nest(const lease::LeaseRef& ref,
                                                          const lease::Sharing& sharing, Micros ttl,
                                                          const std::string& attempt) {
  Parameters parameters = ref_parameters(ref, lease::Actor::holder);
  parameters.push_back(micros_parameter(":ttl", ttl));
  parameters.push_back({":mode", std::string(lease::to_string(sharing.mode))});
  parameters.push_back({":slots", std::int64_t{sharing.slots}});
  const Rows rows = sharing.mode == lease::Mode::exclusive ? Rows::locks : Rows::holds;
  DBLOCK_TRY(const auto done, connection_.change(nest_sql(rows), parameters, attempt));
  return token_of(done.rows);
}

Result<bool> SqliteLockTable::unnest(const lease::LeaseRef& ref, Rows rows, const std::string& attempt) {
  return change_one(unnest_sql(rows), ref_parameters(ref, lease::Actor::holder), attempt);
}

void SqliteLockTable::prepare_release() noexcept {
  connection_.prepare_ahead(release_sql(Rows::locks));
}

Result<bool> SqliteLockTable::revoke(const lease::Key& key, lease::Token token, Rows rows,
                                     const std::string& attempt) {
  return change_one(revoke_sql(rows), force_parameters(key, token), attempt);
}

Result<bool> SqliteLockTable::free_now(const lease::Key& key, lease::Token token, Rows rows,
                                       const std::string& attempt) {
  return change_one(free_now_sql(rows), force_parameters(key, token), attempt);
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
    // A lock's row, with its token, stays as long as there are holds.
    for (const Rows rows : {Rows::holds, Rows::locks}) {
      DBLOCK_TRY(const auto forgotten, forget_idle(rows, forget_after, attempt));
      report.forgotten += forgotten;
    }
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
      const Rows table = seen.slot > 0 ? Rows::holds : Rows::locks;
      DBLOCK_TRY(const bool changed, abandon(seen, table, attempt));
      if (!changed) continue;  // taken over or released since it was read
    }
    freed.push_back(std::move(seen));
  }
  return freed;
}

Result<std::uint64_t> SqliteLockTable::forget_idle(Rows rows, Micros forget_after,
                                                   const std::string& attempt) {
  std::uint64_t forgotten = 0;
  for (;;) {
    std::uint64_t batch = 0;
    const auto forget = [&] { return forget_batch(rows, forget_after, batch, attempt); };
    DBLOCK_CHECK(connection_.in_transaction(attempt, forget));
    forgotten += batch;
    if (batch < static_cast<std::uint64_t>(k_forget_batch)) return forgotten;
  }
}

Result<void> SqliteLockTable::forget_batch(Rows rows, Micros forget_after, std::uint64_t& forgotten,
                                           const std::string& attempt) {
  const Parameters parameters{micros_parameter(":forget_after", forget_after), {":limit", k_forget_batch}};
  DBLOCK_TRY(const auto gone, connection_.run(forget_sql(rows), parameters, attempt, Phase::write));
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
