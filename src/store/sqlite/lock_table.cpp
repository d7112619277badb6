#include "store/sqlite/lock_table.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/text.hpp"
#include "store/sqlite/factory.hpp"
#include "store/sqlite/statements.hpp"
#include "store/sqlite/turnstile.hpp"
#include "store/table_lease_store.hpp"

namespace dblock::store::sqlite {
namespace {

using namespace std::chrono_literals;

// A renewal of another lock waits for one batch at most.
constexpr std::int64_t k_forget_batch = 200;

Parameter number(const char* name, std::optional<Micros> value) {
  if (!value) return {name, nullptr};
  return {name, value->count()};
}

// A token beyond the range of SQLite's integers was never given out; negative, it matches none.
Parameter token_parameter(std::optional<lease::Token> token) {
  if (!token) return {":token", nullptr};
  return {":token", static_cast<std::int64_t>(token->value)};
}

Parameters grant_parameters(const lease::AcquireRequest& request) {
  const auto& holder = request.holder;
  const auto& [min_hold, once_per] = request.promises;
  const auto of_period = [&period = once_per](auto length) {
    return period ? std::optional<Micros>(std::invoke(length, *period)) : std::nullopt;
  };
  return {
      {":key", request.key.bytes()},
      {":owner", request.owner.text},
      {":kind", std::string(lease::to_string(request.kind))},
      number(":ttl", request.terms.ttl),
      number(":margin", request.terms.margin),
      number(":heartbeat", request.terms.heartbeat),
      {":host", clean_utf8(holder.host, k_name_bytes)},
      {":pid", static_cast<std::int64_t>(holder.pid)},
      {":user", clean_utf8(holder.user, k_name_bytes)},
      {":command", clean_utf8(holder.command, k_command_bytes)},
      {":note", clean_utf8(holder.note, k_note_bytes)},
      number(":min_hold", min_hold > Micros{0} ? std::optional(min_hold) : std::nullopt),
      number(":period", of_period(&lease::OncePer::period)),
      number(":look_back", of_period(&lease::OncePer::look_back)),
      number(":look_ahead", of_period(&lease::OncePer::look_ahead)),
  };
}

Parameters ref_parameters(const lease::LeaseRef& ref, lease::Actor actor) {
  return {{":key", ref.key.bytes()},
          {":owner", ref.owner.text},
          token_parameter(ref.token),
          {":script", std::int64_t{actor == lease::Actor::script ? 1 : 0}}};
}

Parameters force_parameters(const lease::Key& key, lease::Token token) {
  return {{":key", key.bytes()}, token_parameter(token)};
}

std::optional<lease::Token> token_of(const std::vector<Row>& rows) {
  if (rows.empty()) return std::nullopt;
  return lease::Token{unsigned_number(rows.front().front())};
}

}  // namespace

SqliteLockTable::SqliteLockTable(const SqliteSettings& settings, const SessionOptions& options, Clock& clock)
    : connection_(settings, options, clock, SchemaCheck::on),
      turnstile_(std::make_unique<FileTurnstile>(settings.path)) {}

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

Result<std::optional<Renewal>> SqliteLockTable::renew(const lease::LeaseRef& ref, lease::Actor actor,
                                                      std::optional<Micros> ttl, const std::string& attempt) {
  Parameters parameters = ref_parameters(ref, actor);
  parameters.push_back(number(":ttl", ttl));
  DBLOCK_TRY(const auto done, connection_.change(renew_sql(), parameters, attempt));
  if (done.rows.empty()) return std::nullopt;
  const Row& row = done.rows.front();
  return Renewal{Micros{store::number(row[0])}, lease::ServerTime{Micros{store::number(row[1])}}};
}

Result<bool> SqliteLockTable::release(const lease::LeaseRef& ref, lease::Actor actor, lease::RunEnd end,
                                      const std::string& attempt) {
  Parameters parameters = ref_parameters(ref, actor);
  parameters.push_back({":outcome", std::string(lease::to_string(end.outcome))});
  if (end.exit_code) parameters.push_back({":exit_code", std::int64_t{*end.exit_code}});
  return change_one(release_sql(), parameters, attempt);
}

void SqliteLockTable::prepare_release() noexcept {
  connection_.prepare_ahead(release_sql());
}

Result<bool> SqliteLockTable::revoke(const lease::Key& key, lease::Token token, const std::string& attempt) {
  return change_one(revoke_sql(), force_parameters(key, token), attempt);
}

Result<bool> SqliteLockTable::free_now(const lease::Key& key, lease::Token token,
                                       const std::string& attempt) {
  return change_one(free_now_sql(), force_parameters(key, token), attempt);
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
    return report;
  }
  DBLOCK_TRY(const auto rows, connection_.run(count_idle_sql(), {number(":forget_after", forget_after)},
                                              attempt, Phase::read));
  if (!rows.empty()) report.forgotten = unsigned_number(rows.front().front());
  return report;
}

Result<std::vector<lease::LockStatus>> SqliteLockTable::free_expired(bool dry_run,
                                                                     const std::string& attempt) {
  DBLOCK_TRY(const auto rows, connection_.run(expired_sql(), {}, attempt, Phase::read));
  std::vector<lease::LockStatus> freed;
  for (const auto& row : rows) {
    auto seen = read_status(row);
    if (!dry_run) {
      const Parameters parameters{{":key", seen.key}, {":owner", seen.owner}, token_parameter(seen.token)};
      DBLOCK_TRY(const bool changed, change_one(abandon_sql(), parameters, attempt));
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
  DBLOCK_TRY(
      const auto rows,
      connection_.run(forget_sql(), {number(":forget_after", forget_after), {":limit", k_forget_batch}},
                      attempt, Phase::write));
  forgotten = rows.size();
  lease::Token highest;
  for (const auto& row : rows) highest = std::max(highest, lease::Token{unsigned_number(row.front())});
  DBLOCK_CHECK(connection_.run(raise_floor_sql(), {token_parameter(highest)}, attempt, Phase::write));
  return {};
}

std::unique_ptr<lease::LeaseStore> make_lease_store(const SqliteSettings& settings,
                                                    const SessionOptions& options, Clock& clock) {
  return std::make_unique<TableLeaseStore>(std::make_unique<SqliteLockTable>(settings, options, clock),
                                           clock);
}

}  // namespace dblock::store::sqlite
