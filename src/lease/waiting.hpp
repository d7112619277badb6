// A request's places in the line, the requests before it, and the one behind which it waits.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "lease/line.hpp"
#include "lease/pacing.hpp"
#include "lease/store.hpp"

namespace dblock::lease {

// THREADING: as LeaseStore.
class Waiting {
 public:
  Waiting(LeaseStore& store, Clock& clock, LeaseRequest& request)
      : store_(store), clock_(clock), request_(request) {}

  // Takes or renews the places, where that is due, and reads the line. `row`: what refuses the request.
  // `short_lived`: the request looks often, so its places count for seconds only: a dead process then does
  // not hold up others who cannot see that the lock is free.
  [[nodiscard]] Result<void> stand(const LockStatus& row, bool short_lived);

  // The places count for seconds only.
  [[nodiscard]] bool is_short_lived() const;
  // How many requests must be served before this one, by the last stand().
  [[nodiscard]] std::size_t before() const { return before_.size(); }
  // The request whose end this one waits for: of the requests before it, or else the holder of the lock. Far
  // back it is not the next one, since servers take chains of about thirty sleepers for a deadlock.
  [[nodiscard]] OwnerId ahead(const LockStatus& row) const;
  // When the request `ahead` has ended, it is this one's turn, unless others end out of their order.
  [[nodiscard]] bool is_next_behind(const OwnerId& ahead) const {
    return before_.empty() || before_.back() == ahead;
  }
  [[nodiscard]] std::optional<OwnerId> leaves_for() const { return lease::leaves_for(places_, request_); }
  [[nodiscard]] LinePosition position() const { return position_of(places_, request_); }

 private:
  LeaseStore& store_;
  Clock& clock_;
  LeaseRequest& request_;
  std::optional<BootTime> renewed_at_;
  Micros length_{0};  // of the places, when they were last renewed
  BootTime seen_at_{};
  std::vector<Place> places_;
  std::vector<OwnerId> before_;
};

}  // namespace dblock::lease
