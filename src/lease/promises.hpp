// What an acquisition asks for beyond its lease. Both live in the row, so that a crash, the guardian and a
// reap keep them.
#pragma once

#include <optional>

#include "base/clock.hpp"

namespace dblock::lease {

// Not twice in a period. Counted from grant to grant, with a tenth of the period as tolerance: a job that
// starts a little earlier than the last time, as cron's do, must not miss its period.
struct OncePer {
  Micros period{0};

  // A success granted this long ago counts no more.
  [[nodiscard]] Micros look_back() const { return period - tolerance(); }
  // One that seems to lie further ahead was dated by a clock that has been set back since. It does not count
  // either, so that no step of the clock holds the job off for longer than a period.
  [[nodiscard]] Micros look_ahead() const { return tolerance(); }

  // Grows with the shortest period for which a success of this age counts, whether the age says that it lies
  // behind or ahead (negative).
  static constexpr Micros shortest_by(Micros age) { return age < Micros{0} ? -age : age / 9; }

 private:
  [[nodiscard]] Micros tolerance() const { return period / 10; }
};

struct Promises {
  Micros min_hold{0};  // not granted to anyone else for this long from the grant
  std::optional<OncePer> once_per{};
};

}  // namespace dblock::lease
