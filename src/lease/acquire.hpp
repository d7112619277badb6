// Taking a lock: try, wait for a holder within a limit, and resolve lost replies (I5).
#pragma once

#include <functional>
#include <optional>
#include <variant>

#include "base/clock.hpp"
#include "lease/pacing.hpp"
#include "lease/store.hpp"

namespace dblock::lease {

// Callbacks on the acquiring thread. All may be empty.
struct AcquireObserver {
  std::function<void(const LockStatus& holder)> on_conflict;  // at each refusal
  // Before each pause, or sleep, after a refusal.
  std::function<void(const LockStatus& holder)> on_wait{};
  std::function<void(const Error& error)> on_trouble;  // at each failed try that will be repeated
  std::function<void()> on_send;  // before the first statement that could grant the lock is sent
  // True where waiting for this holder would never end, as where the holder itself waits for this process.
  std::function<bool(const LockStatus& holder)> hopeless{};
};

// `undecided`: the outcome of a try is not known; the caller must release by owner id.
struct Cancelled {
  bool undecided = false;
};
using AcquireOutcome = std::variant<Lease, Held, Done, Cancelled>;

// Blocks until granted, refused for good, failed, or `cancel` is raised. A refused request that waits stands
// in the line of its locks and tries when its turn comes; with WaitPolicy::retry it only tries. After a grant
// the caller must call LeaseStore::hold(), and LeaseStore::end() after the release. Returns a lease only when
// it is known to be ours and has time left by the local clock; start nothing on anything else.
// Errc::unreachable when the outcome of a try stays unknown until its TTL has passed.
[[nodiscard]] Result<AcquireOutcome> acquire(LeaseStore& store, Clock& clock, const LeaseRequest& request,
                                             const WaitPolicy& policy, const AcquireObserver& observer,
                                             const WakeEvent& cancel);

}  // namespace dblock::lease
