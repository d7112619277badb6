#include "store/sqlite/lock_table.hpp"

#include <algorithm>
#include <utility>

#include "store/parameters.hpp"
#include "store/sharing.hpp"
#include "store/sqlite/factory.hpp"
#include "store/sqlite/history.hpp"
#include "store/sqlite/verbs.hpp"
#include "store/table_lease_store.hpp"
#include "store/together.hpp"

namespace dblock::store::sqlite {
namespace {

using namespace std::chrono_literals;

// A renewal of another lock waits for one batch at most.
constexpr std::size_t k_forget_batch = 200;

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
             connection_.change(sql(Verb::grant), grant_parameters(request, request.key), attempt));
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

Result<std::vector<std::optional<Scene>>> SqliteLockTable::survey(const std::vector<lease::Key>& keys,
                                                                  bool /*to_change*/,
                                                                  const std::string& attempt) {
  DBLOCK_TRY(const auto rows,
             connection_.run(sql(Verb::survey), keys_parameters(keys), attempt, Phase::read));
  std::vector<lease::LockStatus> seen;
  for (const auto& row : rows) seen.push_back(read_status(row));
  return scenes_of(keys, std::move(seen));
}

Result<void> SqliteLockTable::add(const lease::Key& key, const std::string& attempt) {
  DBLOCK_CHECK(connection_.change(sql(Verb::add), row_parameters(key, 0), attempt));
  return {};
}

Result<void> SqliteLockTable::put(const lease::AcquireRequest& request, const std::vector<Place>& places,
                                  lease::Token token, const std::string& attempt) {
  for (const auto& [key, seen, slot] : places) {
    const auto parameters = grant_parameters(request, key) + Parameters{{"token", Scalar(token.value)}} +
                            row_parameters(key, slot);
    const bool becomes_exclusive = slot == 0 && seen.gate.sharing.mode != lease::Mode::exclusive;
    if (becomes_exclusive)
      DBLOCK_CHECK(connection_.change(sql(Verb::inherit), past_parameters(seen.gate), attempt));
    if (slot > 0) {
      DBLOCK_CHECK(connection_.change(sql(Verb::put_gate), parameters, attempt));
      DBLOCK_CHECK(connection_.change(sql(Verb::add), parameters, attempt));
    }
    DBLOCK_CHECK(connection_.change(sql(Verb::put), parameters, attempt));
  }
  return {};
}

Result<bool> SqliteLockTable::abandon(const lease::LockStatus& lease, const std::string& attempt) {
  return change_one(Verb::abandon, seen_parameters(lease), attempt);
}

Result<void> SqliteLockTable::keep_readers_away(const lease::Key& key, lease::ServerTime until,
                                                const std::string& attempt) {
  DBLOCK_CHECK(connection_.change(sql(Verb::keep_readers_away), intent_parameters(key, until), attempt));
  return {};
}

Result<void> SqliteLockTable::let_readers_in(const lease::Key& key, lease::ServerTime until,
                                             const std::string& attempt) {
  DBLOCK_CHECK(connection_.change(sql(Verb::let_readers_in), intent_parameters(key, until), attempt));
  return {};
}

Result<std::optional<Renewal>> SqliteLockTable::renew(const lease::LeaseRef& ref, lease::Actor actor,
                                                      std::optional<Micros> ttl, const std::string& attempt) {
  const auto parameters = ref_parameters(ref, actor) + Parameters{{"ttl", micros_or_null(ttl)}};
  DBLOCK_TRY(const auto done, connection_.change(sql(Verb::renew), parameters, attempt));
  if (done.rows.empty()) return std::nullopt;
  const Row& row = done.rows.front();
  return Renewal{store::micros(row[0]), lease::ServerTime{store::micros(row[1])}};
}

Result<bool> SqliteLockTable::release(const lease::LeaseRef& ref, lease::Actor actor, lease::RunEnd end,
                                      const std::string& attempt) {
  return change_one(Verb::release, ref_parameters(ref, actor) + end_parameters(end), attempt);
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
  const auto parameters = ref_parameters(ref, lease::Actor::holder) + sharing_parameters(sharing) +
                          Parameters{{"ttl", micros_or_null(ttl)}};
  DBLOCK_TRY(const auto done, connection_.change(sql(Verb::nest), parameters, attempt));
  return token_of(done.rows);
}

Result<bool> SqliteLockTable::unnest(const lease::LeaseRef& ref, const std::string& attempt) {
  return change_one(Verb::unnest, ref_parameters(ref, lease::Actor::holder), attempt);
}

void SqliteLockTable::prepare_release() noexcept {
  connection_.prepare_ahead(sql(Verb::release));
}

Result<bool> SqliteLockTable::revoke(const lease::Key& key, std::uint32_t slot, lease::Token token,
                                     const std::string& attempt) {
  return change_one(Verb::revoke, force_parameters(key, slot, token), attempt);
}

Result<bool> SqliteLockTable::free_now(const lease::Key& key, std::uint32_t slot, lease::Token token,
                                       const std::string& attempt) {
  return change_one(Verb::free_now, force_parameters(key, slot, token), attempt);
}

Result<bool> SqliteLockTable::change_one(Verb verb, const Parameters& parameters,
                                         const std::string& attempt) {
  DBLOCK_TRY(const auto done, connection_.change(sql(verb), parameters, attempt));
  return done.changed == 1;
}

Result<std::optional<lease::LockStatus>> SqliteLockTable::look(const lease::Key& key,
                                                               const std::string& attempt) {
  DBLOCK_TRY(const auto rows, connection_.run(sql(Verb::look), key_parameters(key), attempt, Phase::read));
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
  const auto text = sql(selection.keys.empty() ? Verb::list_range : Verb::list_keys);
  DBLOCK_TRY(const auto rows, connection_.run(text, selection_parameters(selection), attempt, Phase::read));
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
             connection_.run(sql(Verb::count_idle), forget_parameters(forget_after, k_forget_batch), attempt,
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
  DBLOCK_TRY(const auto rows, connection_.run(sql(Verb::expired), {}, attempt, Phase::read));
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
    if (batch < k_forget_batch) return forgotten;
  }
}

Result<void> SqliteLockTable::forget_batch(Micros forget_after, std::uint64_t& forgotten,
                                           const std::string& attempt) {
  const auto parameters = forget_parameters(forget_after, k_forget_batch);
  DBLOCK_TRY(const auto gone, connection_.run(sql(Verb::forget), parameters, attempt, Phase::write));
  forgotten = gone.size();
  lease::Token highest;
  for (const auto& row : gone) highest = std::max(highest, lease::Token{unsigned_number(row[0])});
  DBLOCK_CHECK(
      connection_.run(sql(Verb::raise_floor), {{"token", Scalar(highest.value)}}, attempt, Phase::write));
  return {};
}

std::unique_ptr<lease::LeaseStore> make_lease_store(const SqliteSettings& settings,
                                                    const SessionOptions& options, Clock& clock) {
  return std::make_unique<TableLeaseStore>(std::make_unique<SqliteLockTable>(settings, options, clock),
                                           clock);
}

}  // namespace dblock::store::sqlite
