// Forcing: ends another holder's lease, or a cooldown, for people.
#include <utility>

#include "base/text.hpp"
#include "store/parameters.hpp"
#include "store/rules/own_row.hpp"
#include "store/rules/sharing.hpp"
#include "store/rules/table_lease_store.hpp"

namespace dblock::store {
namespace {

using Call = Database::Call;
using lease::ForceOutcome;
using lease::ForceRefused;
using lease::LockStatus;

enum class Force { revoke, free_now };

// revoke_row() and free_row() return false where no row matched, or the heartbeat is fresh.
Result<bool> revoke_row(LockTable& table, const lease::Key& key, std::uint32_t slot, lease::Token token,
                        const std::string& by, std::optional<lease::ServerTime> arrival) {
  const Parameters parameters =
      force_parameters(key, slot, token) +
      Parameters{{"by", Scalar(Text{clean_utf8(by, k_by_bytes)})}, {"arrival", time_or_null(arrival)}};
  return table.changes_one(Verb::revoke, parameters);
}

Result<bool> free_row(LockTable& table, const lease::Key& key, std::uint32_t slot, lease::Token token) {
  DBLOCK_TRY(const auto done, table.run(Verb::free_now, force_parameters(key, slot, token)));
  table.ended.add_forced(key, done);
  return done.changed == 1;
}

Result<ForceOutcome> force(LockTable& table, Force how, const lease::Key& key, lease::Token token,
                           const std::string& by, std::optional<lease::ServerTime> arrival) {
  const Call call(*table.database, {how == Force::revoke ? "revoke" : "free", key});
  DBLOCK_CHECK(call.open());
  const auto look = [&]() -> Result<std::optional<LockStatus>> {
    std::optional<LockStatus> row;
    DBLOCK_CHECK(table.database->on_primary([&]() -> Result<void> {
      DBLOCK_TRY(row, row_where(table, key, [token](const LockStatus& one) {
                   return keeps_the_lock(one) && one.token == token;
                 }));
      return {};
    }));
    return row;
  };
  // Looks before it changes, so that the report names the affected holder and not its successor.
  DBLOCK_TRY(auto before, look());
  using Why = ForceRefused::Why;
  if (!before || !keeps_the_lock(*before)) return ForceRefused{Why::not_held, std::move(before)};
  if (before->token != token) return ForceRefused{Why::wrong_token, std::move(before)};
  const bool frees = how == Force::free_now && !before->owner.empty();
  DBLOCK_TRY(const bool changed, frees ? free_row(table, key, before->slot, token)
                                       : revoke_row(table, key, before->slot, token, by, arrival));
  if (changed) {
    if (!frees && !before->owner.empty() && !before->revoked_at) before->revoked_at = before->server_time;
    return lease::Revoked{std::move(*before)};
  }
  DBLOCK_TRY(auto after, look());
  if (!after || !keeps_the_lock(*after)) return ForceRefused{Why::not_held, std::move(after)};
  if (after->token != token) return ForceRefused{Why::wrong_token, std::move(after)};
  if (arrival && after->arrived_at && *after->arrived_at > *arrival)
    return ForceRefused{Why::came_later, std::move(after)};
  if (frees && !after->owner.empty()) return ForceRefused{Why::fresh_heartbeat, std::move(after)};
  return contradiction(*table.database);
}

}  // namespace

Result<ForceOutcome> TableLeaseStore::revoke(const lease::Key& key, lease::Token token, const std::string& by,
                                             std::optional<lease::ServerTime> arrival) {
  return force(table_, Force::revoke, key, token, by, arrival);
}

Result<ForceOutcome> TableLeaseStore::free_now(const lease::Key& key, lease::Token token) {
  return force(table_, Force::free_now, key, token, "", std::nullopt);
}

}  // namespace dblock::store
