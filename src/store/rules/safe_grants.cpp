// The functions of TableLeaseStore that grant, and release again a lease that too few replicas have stored.
#include "base/text.hpp"
#include "store/rules/table_lease_store.hpp"

namespace dblock::store {

Result<lease::Answer> TableLeaseStore::try_acquire(const lease::LeaseRequest& request) {
  auto answer = take(request);
  const auto* granted = answer ? std::get_if<lease::Granted>(&*answer) : nullptr;
  unproved_ = granted != nullptr ? granted->lease.needs_renewal_proof
                                 : !answer && answer.error().code == Errc::indeterminate;
  if (granted != nullptr && !unproved_) DBLOCK_CHECK(keep_if_safe(granted->lease));
  return answer;
}

Result<void> TableLeaseStore::keep_if_safe(const lease::Lease& lease) {
  const auto safe = [&] {
    const LockTable::Call call(*table_);
    return table_->database().grant_is_safe("cannot acquire lock " + quote_untrusted(lease.key.bytes()));
  }();
  // Where the release fails too, the lease expires by itself.
  if (!safe) [[maybe_unused]]
    const auto released =
        release(lease::ref_to(lease), lease::Actor::holder, {lease::RunOutcome::not_run, {}});
  return safe;
}

Result<std::optional<lease::Lease>> TableLeaseStore::nest(const lease::LeaseRequest& request) {
  auto nested = nest_in(request);
  if (nested && *nested) {
    DBLOCK_CHECK(keep_if_safe(**nested));
    find_rows(**nested);
  }
  return nested;
}

}  // namespace dblock::store
