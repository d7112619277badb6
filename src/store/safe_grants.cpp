// What TableLeaseStore does about grants that are made but may not last.
#include "base/text.hpp"
#include "store/table_lease_store.hpp"

namespace dblock::store {

Result<lease::AcquireOutcome> TableLeaseStore::try_acquire(const lease::AcquireRequest& request) {
  auto outcome = take(request);
  const auto* lease = outcome ? std::get_if<lease::Lease>(&*outcome) : nullptr;
  unproved_ =
      lease != nullptr ? lease->needs_renewal_proof : !outcome && outcome.error().code == Errc::indeterminate;
  if (lease != nullptr && !unproved_) DBLOCK_CHECK(keep_if_safe(*lease));
  return outcome;
}

Result<void> TableLeaseStore::keep_if_safe(const lease::Lease& lease) {
  const auto safe = [&] {
    const LockTable::Call call(*table_);
    return table_->database().grant_is_safe("cannot acquire lock " + quote_untrusted(lease.key.bytes()));
  }();
  // Where this fails too it ends by itself.
  if (!safe) [[maybe_unused]]
    const auto released = release(lease::ref_to(lease), lease::Actor::holder, {lease::Outcome::not_run, {}});
  return safe;
}

Result<std::optional<lease::Lease>> TableLeaseStore::nest(const lease::AcquireRequest& request) {
  auto nested = nest_in(request);
  if (nested && *nested) {
    DBLOCK_CHECK(keep_if_safe(**nested));
    find_rows(**nested);
  }
  return nested;
}

}  // namespace dblock::store
