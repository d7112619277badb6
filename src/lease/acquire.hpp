// Taking a lock: try, wait for a holder within a limit, and resolve lost replies (I5).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <variant>

#include "base/clock.hpp"
#include "lease/store.hpp"

namespace dblock::lease {

// Instead of standing in line: a fixed number of tries, the first pause `first`, each next one `growth` times
// longer. Exactly so, since people compute schedules from them. A database that does not answer was a try.
struct Retry {
  std::uint64_t attempts = 1;
  Micros first{0};
  double growth = 1.0;
};

struct WaitPolicy {
  // How long to wait for a held lock; zero tries once; nullopt waits for ever. Connection errors are retried
  // within the same limit.
  std::optional<Micros> limit = Micros{0};
  std::optional<Retry> retry{};

  [[nodiscard]] bool once() const { return limit == Micros{0} || (retry && retry->attempts <= 1); }
};

// Told, and asked, on the acquiring thread while it waits. All may be empty.
struct AcquireObserver {
  std::function<void(const LockStatus& holder)> on_conflict;  // at each refusal
  std::function<void(const LockStatus& holder)> on_wait{};    // at each pause or stay in line after one
  std::function<void(const Error& error)> on_trouble;         // at each failed try that will be repeated
  std::function<bool()> wants_place{};                        // somebody is there to read the place in line
  std::function<void()> on_send;  // before the first statement that could grant the lock is sent
  // Whether waiting for this holder could never end, as where he waits for us.
  std::function<bool(const LockStatus& holder)> hopeless{};
};

// `undecided`: a try was under way whose outcome is not known; release by owner id then.
struct Cancelled {
  bool undecided = false;
};
using GrantOutcome = std::variant<Lease, Held, Done, Cancelled>;

// Blocks until granted, refused for good, failed, or `cancel` is raised. Where the store has a turnstile,
// those who wait do so in line and the lock is tried at the head of it only (a Retry has no place there);
// with a lease the place in the line is kept, and whoever gives the lease back leaves it, without one it is
// given up. Returns a lease only when it is known to be ours and has time left by the local clock; start
// nothing on anything else. When the outcome of a try stays unknown until its TTL has passed,
// Errc::unreachable.
[[nodiscard]] Result<GrantOutcome> acquire(LeaseStore& store, Clock& clock, const AcquireRequest& request,
                                           const WaitPolicy& policy, const AcquireObserver& observer,
                                           const WakeEvent& cancel);

}  // namespace dblock::lease
