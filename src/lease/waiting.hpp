// A request's places in the line, the requests before it, the one behind which it waits, and when it looks at
// the lock again.
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
  // All must outlive this; `request` gets its arrival here.
  Waiting(LeaseStore& store, Clock& clock, LeaseRequest& request, Pacing& pacing)
      : store_(store), clock_(clock), request_(request), pacing_(pacing), wake_up_(store.wake_up()) {}

  // Looks at the locks, and at the line where that is due. stand() takes the line from here.
  [[nodiscard]] Result<Answer> look();

  // Takes or renews the places, where that is due, and reads the line. `row`: what refuses the request.
  // `short_lived`: the request looks often, so its places count for seconds only: a dead process then does
  // not hold up others who cannot see that the lock is free.
  [[nodiscard]] Result<void> stand(const LockStatus& row, bool short_lived);
  // Whether it has, so that there may be places, also where stand() failed.
  [[nodiscard]] bool has_asked_for_places() const { return has_asked_; }

  // The places count for seconds only.
  [[nodiscard]] bool is_short_lived() const;
  // How many requests must be served before this one, by the last stand().
  [[nodiscard]] std::size_t before() const { return before_.size(); }
  // How many have come before it, with those that may have the lock together with it. Of many that may, one
  // looks at the lock often, and the others the more rarely, the later they came.
  [[nodiscard]] std::size_t rank() const { return rank_; }
  // The request whose end this one waits for: of the requests before it, or else the holder of the lock. Far
  // back it is not the next one, since servers take chains of about thirty sleepers for a deadlock.
  [[nodiscard]] OwnerId ahead(const LockStatus& row) const {
    const Place* const place = place_ahead();
    return place == nullptr ? OwnerId{row.owner} : place->owner;
  }
  // When the request `ahead` has ended, it is this one's turn, unless others end out of their order.
  [[nodiscard]] bool is_next_behind(const OwnerId& ahead) const {
    return before_.empty() || before_.back()->owner == ahead;
  }
  [[nodiscard]] std::optional<OwnerId> leaves_for() const { return lease::leaves_for(places_, request_); }
  [[nodiscard]] LinePosition position() const { return position_of(places_, request_); }

  // The lock has been free for so long that this request takes it, whoever stands before. Those who stand
  // before get it a moment earlier.
  [[nodiscard]] bool may_pass(const LockStatus& row) const;

  // It must notice soon what others do, or others cannot see that its place is a dead process's: readers hold
  // the lock that a writer waits for.
  [[nodiscard]] bool looks_often(const LockStatus& row) const;
  // It may sleep behind the request ahead().
  [[nodiscard]] bool may_sleep(const LockStatus& row) const;
  // It did not sleep behind that request, or slept to its end: it does not sleep behind it again for a while,
  // unless the line moves on.
  void slept_behind(const OwnerId& ahead, Slept how);
  // How long the next look can wait: while the request sleeps, and where it does not.
  [[nodiscard]] Micros until_look(const LockStatus& row);
  [[nodiscard]] Micros until_poll(const LockStatus& row);

 private:
  [[nodiscard]] Result<void> renew(const LockStatus& row, Micros length);
  [[nodiscard]] bool has_all_places() const;
  [[nodiscard]] bool knows_line(BootTime now) const;
  [[nodiscard]] const Place* place_ahead() const;  // null: nobody waits before this request
  [[nodiscard]] Micros look_interval(Micros::rep rank, bool is_free);
  [[nodiscard]] Micros not_past_free(Micros stay, const LockStatus& row) const;
  [[nodiscard]] Micros not_past_expiry(Micros stay, const LockStatus& row) const;
  [[nodiscard]] Micros passes_after() const;  // how long a lock must have been free for may_pass()
  [[nodiscard]] Micros after_those_before() const;

  LeaseStore& store_;
  Clock& clock_;
  LeaseRequest& request_;
  Pacing& pacing_;
  WakeUp* const wake_up_;  // null: the store has none
  bool has_asked_ = false;
  std::optional<BootTime> renewed_at_;
  Micros length_{0};  // of the places, when they were last renewed
  BootTime seen_at_{};
  std::vector<Place> places_;
  std::optional<std::vector<Place>> just_seen_;  // by look()
  std::vector<const Place*> before_;             // of places_
  std::size_t rank_ = 0;
  bool nobody_may_wake_us_ = false;  // as the request behind which this one sleeps waits for another lock too
  BootTime slept_since_{};           // when the last sleep began
  // The request behind whose end nobody can sleep, and until when that is believed; no longer than so many
  // stand before this one: a request that comes to the front, or gets the lock, has a session.
  struct {
    OwnerId ahead;
    std::size_t before = 0;
    Nanos length{0};
    BootTime until{};
  } sleepless_;
  // The rank at the last look without sleep.
  struct Rank {
    Micros::rep count = 0;
    BootTime at{};
  } last_rank_;
};

}  // namespace dblock::lease
