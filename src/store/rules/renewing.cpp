// Renewing: the renewals of leases, and what proves one whose reply a trigger has emptied.
#include <algorithm>
#include <utility>

#include "lease/owner_id.hpp"
#include "store/parameters.hpp"
#include "store/rules/own_row.hpp"
#include "store/rules/table_lease_store.hpp"

namespace dblock::store {
namespace {

using Call = Database::Call;
using lease::Key;
using lease::LockStatus;
using lease::NotOurs;

struct Renewal {
  std::optional<Micros> ttl;  // the length of the lease from now on; nullopt: a trigger hides the report
  std::optional<lease::ServerTime> expires_at{};  // where the statement reports it
};

// nullopt where no row matched. `terms`: the parameters that do not name the lease.
Result<std::optional<Renewal>> renew_row(LockTable& table, const lease::LeaseRef& ref, lease::Actor actor,
                                         const Parameters& terms) {
  DBLOCK_TRY(const auto done, table.run(Verb::renew, ref_parameters(ref, actor) + terms));
  if (done.changed == 0) return std::nullopt;
  Renewal renewal{};
  if (done.reported) renewal.ttl = Micros{static_cast<Micros::rep>(*done.reported)};
  if (!done.rows.empty()) renewal.expires_at = lease::ServerTime{store::micros(done.rows.front()[1])};
  return renewal;
}

// For a renewal whose reply a trigger has emptied: a job that runs already need not end for that. The row is
// the proof then: by it the lease lasts until read_at + remaining.
Result<lease::RenewOutcome> renewed_as_read(LockTable& table, Clock& clock, const lease::LeaseRef& ref,
                                            lease::Actor actor, BootTime sent_at) {
  const BootTime read_at = clock.now();
  DBLOCK_TRY(const auto seen, own_row(table, ref));
  if (!seen || seen->owner != ref.owner.text || passed(seen->expires_at, *seen))
    return why_not(table, ref, actor, true);
  const Micros remaining = seen->expires_at->since_epoch - seen->server_time.since_epoch;
  return lease::Renewed{std::min(sent_at, read_at + remaining - seen->ttl), seen->ttl, *seen->expires_at};
}

Result<lease::RenewOutcome> renew_one(LockTable& table, Clock& clock, const lease::LeaseRef& ref,
                                      lease::Actor actor, const Parameters& terms) {
  const BootTime sent_at = clock.now();
  DBLOCK_TRY(auto renewal, renew_row(table, likeliest(ref), actor, terms));
  std::optional<LockStatus> seen;
  if (!renewal) {
    DBLOCK_TRY(const auto found, found_elsewhere(table, ref));
    if (found) {
      DBLOCK_TRY(renewal, renew_row(table, *found, actor, terms));
    }
  }
  if (!renewal) return why_not(table, ref, actor, true);
  if (!renewal->ttl) return renewed_as_read(table, clock, ref, actor, sent_at);
  lease::Renewed renewed{sent_at, *renewal->ttl, renewal->expires_at.value_or(lease::ServerTime{})};
  if (actor == lease::Actor::script && !renewal->expires_at) {
    DBLOCK_TRY(seen, own_row(table, ref));
    if (!seen || seen->owner != ref.owner.text) return why_not(table, ref, actor, true);
    renewed.expires_at = seen->expires_at.value_or(lease::ServerTime{});
  }
  return renewed;
}

}  // namespace

Result<lease::RenewOutcome> TableLeaseStore::renew(const lease::LeaseRef& ref, lease::Actor actor,
                                                   std::optional<Micros> ttl, Micros cooldown,
                                                   const std::optional<lease::JobNews>& news) {
  using Patience = Database::Patience;
  const Call call(*table_.database, {"renew", ref.key},
                  actor == lease::Actor::holder ? Patience::renewal : Patience::usual);
  DBLOCK_CHECK(call.open());
  if (unproved_) DBLOCK_CHECK(table_.database->safe_to_grant());
  // A nested run tells nothing of the row's holder, which is the outer run.
  const auto terms = Parameters{{"ttl", micros_or_null(ttl)}} + cooldown_parameters(cooldown) +
                     news_parameters(lease::is_nested(ref.owner) ? std::nullopt : news, clock_.now());
  std::optional<lease::RenewOutcome> first;
  for (const Key& key : keys_of(ref.key, ref.further_keys)) {
    const lease::LeaseRef one = outer_part(ref, key);
    if (actor == lease::Actor::script && lease::is_nested(ref.owner))
      return nested_for_script(table_, ref.owner, one);
    DBLOCK_TRY(auto outcome, renew_one(table_, clock_, one, actor, terms));
    if (std::holds_alternative<NotOurs>(outcome)) return outcome;
    if (!first) first = std::move(outcome);
  }
  if (unproved_) DBLOCK_CHECK(table_.database->grant_is_safe());
  unproved_ = false;
  return std::move(*first);
}

}  // namespace dblock::store
