// The line in front of one lock: wake-up and order for those who wait (DESIGN section 4). A hint. Exclusion
// and liveness hold without it, so nothing here is an error: a line that does not work is no line, and the
// waiter polls. What it says of others may be wrong: somebody before us may be frozen, or wait for a lock
// that was free all along.
#pragma once

#include "base/clock.hpp"
#include "lease/types.hpp"

namespace dblock::lease {

enum class Turn {
  ours,       // nobody stands before us; it stays so until leave(), or lost_turn()
  not_yet,    // somebody does, and `until` has come
  cancelled,  // `cancel` was raised
  none,       // there is no line, or it does not work
};

struct Looks {
  Micros interval = std::chrono::seconds(1);  // each look comes after half of this to all of it
  // And when a lease that nobody renews would end. All who wait look in the same moment then.
  bool at_expiry = true;
};

// One place in one line at a time. Taken before the lock is tried, kept while waiting and while holding the
// lease, given up when the lease has been given back: the next in line then wakes. Ends with its process,
// however that ends.
//
// THREADING: not thread-safe; one thread at a time, as with LeaseStore.
class Turnstile {
 public:
  Turnstile() = default;
  Turnstile(const Turnstile&) = delete;
  Turnstile& operator=(const Turnstile&) = delete;
  virtual ~Turnstile() = default;

  // Tells beforehand which line will be entered and by whom, before the store connects: a place that the
  // connection keeps is then taken along with opening it.
  virtual void approach(const Key& /*key*/, const Holder& /*who*/) {}

  // Takes the last place in the line of `key`, giving up any other place. Call it once the store is
  // connected. Blocks for a moment at most. Answers ours, not_yet or none; there is a place unless it is
  // none.
  [[nodiscard]] virtual Turn enter(const Key& key) = 0;

  // Blocks until nobody stands before us, until `until`, or until `cancel` is raised. A turn that has come is
  // told even when `until` has passed. none without a place. May be repeated; the place does not change.
  [[nodiscard]] virtual Turn await(BootTime until, const WakeEvent& cancel) = 0;

  // It is our turn, but the lock cannot be had yet: those behind us are not to wait for long should we
  // freeze.
  virtual void lead() noexcept {}

  // The turn that was ours has gone with the connection that kept it: enter again.
  [[nodiscard]] virtual bool lost_turn() const { return false; }

  // The store is short of connections: whoever polls should hold none in between.
  [[nodiscard]] virtual bool crowded() const { return false; }

  // How often those in line look at the lock themselves, which is what bounds the wait in a line that does
  // not move.
  [[nodiscard]] virtual Looks looks() const { return {}; }

  // Gives the place up, if there is one.
  virtual void leave() noexcept = 0;
};

}  // namespace dblock::lease
