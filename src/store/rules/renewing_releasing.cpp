// The functions of TableLeaseStore for leases that were granted: renew, release, revoke, and free at once.
#include <algorithm>
#include <utility>

#include "lease/owner_id.hpp"
#include "store/rules/sharing.hpp"
#include "store/rules/table_lease_store.hpp"

namespace dblock::store {
namespace {

using Call = Database::Call;
using lease::ForceOutcome;
using lease::ForceRefused;
using lease::Key;
using lease::LockStatus;
using lease::NotOurs;
using lease::NotOursWhy;

// Rounds of "the release was refused, but by the row it would not be": in each one a nested run, which held
// the lease as well, has ended in between.
constexpr int k_release_rounds = 3;

// The part of the outer lease that concerns `key`. A nested lease is the outer lease with a higher count.
lease::LeaseRef outer_part(const lease::LeaseRef& ref, const Key& key) {
  lease::LeaseRef part = lease::part_of(ref, key);
  part.owner = lease::outermost(ref.owner);
  return part;
}

// A lease of which only key and owner id are known is looked for as an exclusive one first.
lease::LeaseRef likeliest(lease::LeaseRef ref) {
  if (!ref.mode && ref.rows.empty()) ref.rows = {0};
  return ref;
}

// Answers that contradict each other are not relied on.
std::unexpected<Error> contradiction(const Database& database) {
  return database.refuse(Errc::unreachable, "the server's answers contradict each other; try again");
}

bool passed(const std::optional<lease::ServerTime>& limit, const LockStatus& status) {
  return !limit || *limit <= status.server_time;
}

}  // namespace

Result<lease::RenewOutcome> TableLeaseStore::renew(const lease::LeaseRef& ref, lease::Actor actor,
                                                   std::optional<Micros> ttl, Micros keep) {
  using Patience = Database::Patience;
  const Call call(table_->database(), {"renew", ref.key},
                  actor == lease::Actor::holder ? Patience::renewal : Patience::usual);
  DBLOCK_CHECK(call.open());
  if (unproved_) DBLOCK_CHECK(table_->database().safe_to_grant());
  std::optional<lease::RenewOutcome> first;
  for (const Key& key : keys_of(ref.key, ref.also)) {
    const lease::LeaseRef one = outer_part(ref, key);
    if (actor == lease::Actor::script && lease::is_nested(ref.owner))
      return nested_for_script(ref.owner, one);
    DBLOCK_TRY(auto outcome, renew_one(one, actor, ttl, keep));
    if (std::holds_alternative<NotOurs>(outcome)) return outcome;
    if (!first) first = std::move(outcome);
  }
  if (unproved_) DBLOCK_CHECK(table_->database().grant_is_safe());
  unproved_ = false;
  return std::move(*first);
}

Result<lease::RenewOutcome> TableLeaseStore::renew_one(const lease::LeaseRef& ref, lease::Actor actor,
                                                       std::optional<Micros> ttl, Micros keep) {
  const BootTime sent_at = clock_.now();
  DBLOCK_TRY(auto renewal, table_->renew(likeliest(ref), actor, ttl, keep));
  std::optional<LockStatus> seen;
  if (!renewal) {
    DBLOCK_TRY(const auto found, found_elsewhere(ref));
    if (found) {
      DBLOCK_TRY(renewal, table_->renew(*found, actor, ttl, keep));
    }
  }
  if (!renewal) return why_not(ref, actor, true);
  if (!renewal->ttl) return renewed_as_read(ref, actor, sent_at);
  lease::Renewed renewed{sent_at, *renewal->ttl, renewal->expires_at.value_or(lease::ServerTime{})};
  if (actor == lease::Actor::script && !renewal->expires_at) {
    DBLOCK_TRY(seen, own_row(ref));
    if (!seen || seen->owner != ref.owner.text) return why_not(ref, actor, true);
    renewed.expires_at = seen->expires_at.value_or(lease::ServerTime{});
  }
  return renewed;
}

// For a renewal whose reply a trigger has emptied: a job that runs already need not end for that. The row is
// the proof then: by it the lease lasts until read_at + remaining.
Result<lease::RenewOutcome> TableLeaseStore::renewed_as_read(const lease::LeaseRef& ref, lease::Actor actor,
                                                             BootTime sent_at) {
  const BootTime read_at = clock_.now();
  DBLOCK_TRY(const auto seen, own_row(ref));
  if (!seen || seen->owner != ref.owner.text || passed(seen->expires_at, *seen))
    return why_not(ref, actor, true);
  const Micros remaining = seen->expires_at->since_epoch - seen->server_time.since_epoch;
  return lease::Renewed{std::min(sent_at, read_at + remaining - seen->ttl), seen->ttl, *seen->expires_at};
}

Result<lease::ReleaseOutcome> TableLeaseStore::release(const lease::LeaseRef& ref, lease::Actor actor,
                                                       lease::RunEnd end) {
  const Call call(table_->database(), {"release", ref.key});
  DBLOCK_CHECK(call.open());
  if (lease::is_nested(ref.owner)) {
    if (actor != lease::Actor::script) return unnest(ref);
    return nested_for_script(ref.owner, outer_part(ref, ref.key));
  }
  for (int round = 0; round < k_release_rounds; ++round) {
    DBLOCK_TRY(auto outcome, try_release(ref, actor, end));
    if (outcome) return std::move(*outcome);
  }
  return contradiction(table_->database());
}

// One round of release(); nullopt when another round is due.
Result<std::optional<lease::ReleaseOutcome>> TableLeaseStore::try_release(const lease::LeaseRef& ref,
                                                                          lease::Actor actor,
                                                                          lease::RunEnd end) {
  if (!ref.also.empty()) {
    DBLOCK_TRY(const auto missing, table_->release_all(ref, actor, end));
    if (!missing) return still_nested(ref);
    if (missing->empty()) return lease::Released{};
    return reason(lease::part_of(ref, missing->front()), actor, false);
  }
  DBLOCK_TRY(bool released, table_->release(likeliest(ref), actor, end));
  if (!released) {
    DBLOCK_TRY(const auto found, found_elsewhere(ref));
    if (found) {
      DBLOCK_TRY(released, table_->release(*found, actor, end));
    }
  }
  if (released) return lease::Released{};
  return reason(ref, actor, false);
}

// For a release of several keys that was refused because a nested run held one of them. No other reason
// counts, since the keys that are still ours must be released all the same.
Result<std::optional<NotOurs>> TableLeaseStore::still_nested(const lease::LeaseRef& ref) {
  DBLOCK_TRY(const auto locks, table_->read_rows(keys_of(ref.key, ref.also), false));
  for (const auto& seen : locks) {
    const LockStatus* const nested = seen ? nested_row(*seen, ref.owner.text) : nullptr;
    if (nested != nullptr) return NotOurs{NotOursWhy::nested, *nested};
  }
  return std::nullopt;
}

Result<lease::ReleaseOutcome> TableLeaseStore::unnest(const lease::LeaseRef& ref) {
  std::optional<lease::LeaseRef> not_counted;
  const auto count_out = [&]() -> Result<void> {
    not_counted.reset();
    for (const Key& key : keys_of(ref.key, ref.also)) {
      const lease::LeaseRef outer = outer_part(ref, key);
      DBLOCK_TRY(const bool counted, table_->unnest(outer));
      if (!counted && !not_counted) not_counted = outer;
    }
    return {};
  };
  DBLOCK_CHECK(ref.also.empty() ? count_out() : table_->in_transaction(count_out));
  if (not_counted) return why_not(*not_counted, lease::Actor::holder, false);
  return lease::Released{};
}

// Finds a lease that is not in its likeliest row: `ref` with the right row; nullopt: no other row has it.
Result<std::optional<lease::LeaseRef>> TableLeaseStore::found_elsewhere(lease::LeaseRef ref) {
  if (ref.mode || !ref.rows.empty()) return std::nullopt;
  DBLOCK_TRY(const auto seen, own_row(ref));
  if (!seen || seen->slot == 0) return std::nullopt;
  ref.rows = {seen->slot};
  return ref;
}

// Why a script may not renew or release a nested lease: it is the lease of the outer run. Leases of scripts
// have no nested runs. But the owner id of an application may look like a nested one.
Result<NotOurs> TableLeaseStore::nested_for_script(const lease::OwnerId& asked,
                                                   const lease::LeaseRef& outer) {
  DBLOCK_TRY(auto seen, own_row(outer));
  if (!seen) return NotOurs{NotOursWhy::absent, std::nullopt};
  if (seen->owner.empty()) return NotOurs{NotOursWhy::free, std::move(seen)};
  const bool of_run = seen->owner == outer.owner.text && seen->kind == lease::Kind::run;
  const bool of_application = seen->owner == asked.text && seen->kind == lease::Kind::sql;
  return NotOurs{of_run || of_application ? NotOursWhy::other_kind : NotOursWhy::other_holder,
                 std::move(seen)};
}

Result<NotOurs> TableLeaseStore::why_not(const lease::LeaseRef& ref, lease::Actor actor, bool renewing) {
  DBLOCK_TRY(auto why, reason(ref, actor, renewing));
  if (!why) return contradiction(table_->database());
  return std::move(*why);
}

Result<std::optional<NotOurs>> TableLeaseStore::reason(const lease::LeaseRef& ref, lease::Actor actor,
                                                       bool renewing) {
  DBLOCK_TRY(auto seen, own_row(ref));
  if (!seen) return NotOurs{NotOursWhy::absent, std::nullopt};
  const auto because = [&seen](NotOursWhy why) { return NotOurs{why, std::move(seen)}; };
  if (seen->owner.empty()) return because(NotOursWhy::free);
  if (seen->owner != ref.owner.text || (ref.token && seen->token != *ref.token))
    return because(NotOursWhy::other_holder);
  if (actor == lease::Actor::script && seen->kind != lease::Kind::acquire)
    return because(NotOursWhy::other_kind);
  if (renewing && seen->revoked_at) return because(NotOursWhy::revoked);
  const bool over = passed(seen->expires_at, *seen);
  if ((renewing || actor == lease::Actor::script) && over) return because(NotOursWhy::expired);
  if (!renewing && actor == lease::Actor::holder && seen->count > 1 && !over)
    return because(NotOursWhy::nested);
  return std::nullopt;
}

Result<ForceOutcome> TableLeaseStore::revoke(const lease::Key& key, lease::Token token, const std::string& by,
                                             std::optional<lease::ServerTime> arrival) {
  return force(Force::revoke, key, token, by, arrival);
}

Result<ForceOutcome> TableLeaseStore::free_now(const lease::Key& key, lease::Token token) {
  return force(Force::free_now, key, token, "", std::nullopt);
}

Result<ForceOutcome> TableLeaseStore::force(Force how, const lease::Key& key, lease::Token token,
                                            const std::string& by, std::optional<lease::ServerTime> arrival) {
  const Call call(table_->database(), {how == Force::revoke ? "revoke" : "free", key});
  DBLOCK_CHECK(call.open());
  const auto look = [&]() -> Result<std::optional<LockStatus>> {
    std::optional<LockStatus> row;
    DBLOCK_CHECK(table_->on_primary([&]() -> Result<void> {
      DBLOCK_TRY(row, row_where(key, [token](const LockStatus& one) {
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
  DBLOCK_TRY(const bool changed, frees ? table_->free_now(key, before->slot, token)
                                       : table_->revoke(key, before->slot, token, by, arrival));
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
  return contradiction(table_->database());
}

}  // namespace dblock::store
