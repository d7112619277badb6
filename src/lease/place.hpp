// One acquisition's place in its store's line, and whether it still believes in that line.
#pragma once

#include <optional>

#include "lease/turnstile.hpp"
#include "lease/types.hpp"

namespace dblock::lease {

// Without a turnstile it does nothing and stands in nobody's way. Gives its place up in the end, unless told
// to keep it.
class Place {
 public:
  // `waits`: false for a run that tries once; it stands in line for those behind it, but does not wait there.
  Place(Turnstile* turnstile, bool waits) : turnstile_(turnstile), waits_(waits) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    if (turnstile_ != nullptr) turnstile_->leave();
  }

  // Says that the line will be entered. Call it before the store connects.
  void approach(const Key& key, const Holder& who);

  // Enters the line, once; and again when a turn was lost with its connection.
  void take(const Key& key);

  // Leaves the line, to enter another.
  void give_up();

  // Somebody stands before us, so the lock is theirs to try.
  [[nodiscard]] bool behind() const { return standing_ == Standing::behind; }
  // It is our turn: whoever holds the lock came round the line or left it, and nobody will wake us.
  [[nodiscard]] bool leads() const { return standing_ == Standing::leading; }

  // We lead, and are going to wait.
  void wait_in_front() {
    if (leads()) turnstile_->lead();
  }

  // Tells what was seen of the lock while somebody stood before us. A lock that nobody took between two looks
  // shows that whoever leads does not live: from then on there is no line for us.
  void saw_held() { free_since_.reset(); }
  void saw_free(std::optional<Token> last_grant);

  [[nodiscard]] bool crowded() const { return turnstile_ != nullptr && turnstile_->crowded(); }
  [[nodiscard]] Looks looks() const { return turnstile_ != nullptr ? turnstile_->looks() : Looks{}; }

  // Waits for our turn; true when `cancel` was raised.
  [[nodiscard]] bool await(BootTime until, const WakeEvent& cancel);

  // The place now belongs to the lease: whoever releases it leaves the line.
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
  std::optional<FreeLock> free_since_;  // what the last look saw, if it saw a free lock
};

}  // namespace dblock::lease
