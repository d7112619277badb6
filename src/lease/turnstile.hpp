// Wake-up and order for the waiters of one lock. A hint: exclusion and liveness hold
// without it. So nothing here is an error: where the turnstile does not work, the waiter polls. What it says
// may be wrong: the process ahead may be frozen, or wait for a lock that was free all along.
#pragma once

#include <optional>

#include "base/clock.hpp"
#include "lease/types.hpp"

namespace dblock::lease {

enum class Turn {
  ours,       // no process is ahead of us; it stays so until leave(), or lost_turn()
  not_yet,    // another process is ahead, and `until` has come
  cancelled,  // `cancel` was raised
  none,       // there is no turnstile, or it does not work
};

// When waiters look at the lock themselves.
struct LookSchedule {
  Micros interval = std::chrono::seconds(1);  // each look comes after half of this to all of it
  // Also look when the lease ends unless it is renewed. All waiters then look in the same moment.
  bool at_expiry = true;
};

// Keeps one position, at the turnstile of one key, at a time. A process enters before it tries the lock,
// stays while it waits and while it holds the lease, and leaves when it has released the lease: the next
// waiter then wakes. The position ends with its process, however that ends.
//
// THREADING: not thread-safe; one thread at a time, as with LeaseStore.
class Turnstile {
 public:
  Turnstile() = default;
  Turnstile(const Turnstile&) = delete;
  Turnstile& operator=(const Turnstile&) = delete;
  virtual ~Turnstile() = default;

  // Announces the key that enter() will name, and the waiter. Call it before the store connects: a position
  // that belongs to the connection is then taken while connecting.
  virtual void approach(const Key& /*key*/, const Holder& /*who*/) {}

  // Takes the last position at the turnstile of `key`, giving up any other. Call it once the store is
  // connected. Blocks for a moment at most. Answers ours, not_yet or none; there is a position unless it is
  // none.
  [[nodiscard]] virtual Turn enter(const Key& key) = 0;

  // Blocks until no process is ahead of us, until `until`, or until `cancel` is raised. Answers ours even
  // when `until` has passed; none without a position. May be repeated; the position does not change.
  [[nodiscard]] virtual Turn await(BootTime until, const WakeEvent& cancel) = 0;

  // Our turn has come, but the lock is not free yet: limits how long the waiters behind us wait if this
  // process freezes.
  virtual void lead() noexcept {}

  // True when our turn was lost with the connection that kept it: enter again.
  [[nodiscard]] virtual bool lost_turn() const { return false; }

  // The store is short of connections: a waiter that polls should close its own between polls.
  [[nodiscard]] virtual bool crowded() const { return false; }

  // How often waiters look at the lock themselves. This bounds the wait at a stuck turnstile.
  [[nodiscard]] virtual LookSchedule look_schedule() const { return {}; }

  // Gives the position up, if there is one.
  virtual void leave() noexcept = 0;
};

// An acquisition's position at a turnstile. Without a turnstile all functions do nothing, and the acquisition
// is never behind. The destructor leaves the turnstile, unless keep() was called.
class TurnstilePosition {
 public:
  // `waits`: false for a run that tries once. It enters the turnstile, so that its release wakes the next
  // waiter, but does not wait there.
  TurnstilePosition(Turnstile* turnstile, bool waits) : turnstile_(turnstile), waits_(waits) {}
  TurnstilePosition(const TurnstilePosition&) = delete;
  TurnstilePosition& operator=(const TurnstilePosition&) = delete;
  ~TurnstilePosition() {
    if (turnstile_ != nullptr) turnstile_->leave();
  }

  // Tells the turnstile that take() will enter it for `key`, and describes the waiter. Call it before the
  // store connects.
  void approach(const Key& key, const Holder& who);

  // Enters the turnstile of `key`, once; and again when our turn was lost with its connection.
  void take(const Key& key);

  // Leaves the turnstile, so that take() can enter the one of another key.
  void give_up();

  // Another process is ahead at the turnstile: the lock is that process's to try.
  [[nodiscard]] bool behind() const { return standing_ == Standing::behind; }
  // It is our turn. A holder of the lock then does not own the turnstile, so no release will wake us: poll.
  [[nodiscard]] bool leads() const { return standing_ == Standing::leading; }

  // Call it before a pause: in our turn it tells the turnstile that we wait for the lock.
  void wait_in_front() {
    if (leads()) turnstile_->lead();
  }

  // Call these with what a look saw of the lock while another process was ahead. A lock that stays free
  // between two looks shows that the process ahead is dead or frozen: from then on we ignore the turnstile.
  void saw_held() { free_since_.reset(); }
  void saw_free(std::optional<Token> last_grant);

  [[nodiscard]] bool crowded() const { return turnstile_ != nullptr && turnstile_->crowded(); }
  [[nodiscard]] LookSchedule look_schedule() const {
    return turnstile_ != nullptr ? turnstile_->look_schedule() : LookSchedule{};
  }

  // Waits for our turn, until `until`; true when `cancel` was raised. REQUIRES: behind().
  [[nodiscard]] bool await(BootTime until, const WakeEvent& cancel);

  // The position now belongs to the lease: the release of the lease leaves the turnstile.
  void keep() { turnstile_ = nullptr; }

 private:
  enum class Standing { outside, behind, leading };
  struct FreeLock {
    std::optional<Token> last_grant;
  };
  void set(Turn turn);

  Turnstile* turnstile_;
  bool waits_;
  bool taken_ = false;
  Standing standing_ = Standing::outside;
  std::optional<FreeLock> free_since_;  // set when the last look saw the lock free
};

}  // namespace dblock::lease
