// A waiting request and the promise of the next grant (LeaseStore::promise()): by it a request with Line::one
// or Line::newest has its turn, and a pool's first waiter prevails over the members' own lines.
#pragma once

#include <optional>

#include "base/clock.hpp"
#include "lease/store.hpp"

namespace dblock::lease {

// Asks for the promise and renews it, at refusals. A promise only helps: the lock's own row decides, so a
// failure of the store is none here.
//
// THREADING: as LeaseStore.
class NextGrant {
 public:
  NextGrant(LeaseStore& store, const Clock& clock, const LeaseRequest& request)
      : store_(store), clock_(clock), request_(request) {}

  // For a request with a line policy, which was refused: has the next grant promised to it. Answers the
  // waiting request to which it must leave the line instead: with Line::newest any that has come after it,
  // with Line::one a living one that was there before. A promise that nobody renews may be a dead process's.
  [[nodiscard]] std::optional<OwnerId> stand_in_line();
  // For a pool's first waiter, whom `status` refuses: after a while has one member's next grant promised to
  // it.
  void claim_member(const LockStatus& status);

  // With Line::newest: the promise that the request has had, and that has not ended yet, is gone from the row
  // `lock`. So a newer request has come since, and may have had the lock already.
  [[nodiscard]] bool overtaken(const LockStatus& lock) const;

 private:
  [[nodiscard]] bool due() const { return clock_.now() >= due_; }
  // Asks on behalf of `request`; nullopt where the store fails. Sets when to ask again.
  [[nodiscard]] std::optional<LeaseStore::Promise> ask(const LeaseRequest& request, bool newest);

  LeaseStore& store_;
  const Clock& clock_;
  const LeaseRequest& request_;
  BootTime due_{};                            // when the promise is to be renewed, or asked for again
  std::optional<BootTime> promised_at_;       // when the request last was promised the next grant
  std::optional<LeaseStore::Promise> other_;  // another's promise, as it was when first seen
  std::optional<BootTime> first_refusal_;     // of a pool's first waiter
  std::optional<Key> claimed_;                // the member whose next grant it has asked for
};

// The request that has overtaken another by the row `lock`; empty where it is not known any more.
[[nodiscard]] OwnerId newer_request(const LockStatus& lock);

}  // namespace dblock::lease
