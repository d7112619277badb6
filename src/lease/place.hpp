// One acquisition's position at the turnstile, and whether the acquisition still believes the turnstile.
#pragma once

#include <optional>

#include "lease/turnstile.hpp"
#include "lease/types.hpp"

namespace dblock::lease {

// Without a turnstile all functions do nothing, and the acquisition is never behind. The destructor leaves
// the turnstile, unless keep() was called.
class Place {
 public:
  // `waits`: false for a run that tries once. It enters the turnstile, so that its release wakes the next
  // waiter, but does not wait there.
  Place(Turnstile* turnstile, bool waits) : turnstile_(turnstile), waits_(waits) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
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
  [[nodiscard]] Looks looks() const { return turnstile_ != nullptr ? turnstile_->looks() : Looks{}; }

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
