// What an acquisition asks for beyond its lease. --min-hold and --once-per are stored in the row with the
// grant, so that they outlive a crash, a release by the guardian and a reap; --keep-on-failure with the
// release.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/clock.hpp"

namespace dblock::lease {

// At most one success in a period. Counted from grant to grant, with a tenth of the period as tolerance: a
// job that starts a little earlier than the last time, as cron jobs do, must not miss its period.
struct OncePer {
  Micros period{0};

  // A success whose grant is at least this long ago no longer counts.
  [[nodiscard]] Micros look_back() const { return period - tolerance(); }
  // A success whose grant seems to lie further ahead than this was dated before the clock was set back. It
  // does not count either, so that no step of the clock holds the job off for longer than a period.
  [[nodiscard]] Micros look_ahead() const { return tolerance(); }

  // Orders successes by their age: of two, the one with the lesser value counts for every period for which
  // the other counts. It is a tenth of the shortest such period. A negative age: the success seems to lie
  // ahead.
  static constexpr Micros shortest_period_at(Micros age) { return age < Micros{0} ? -age : age / 9; }

 private:
  [[nodiscard]] Micros tolerance() const { return period / 10; }
};

struct Promises {
  Micros min_hold{0};         // not granted to another holder for this long from the grant
  Micros keep_on_failure{0};  // nor for this long from the release of a run that failed
  std::optional<OncePer> once_per{};

  // What is left of min_hold where the lock was granted at `granted_at`.
  [[nodiscard]] Micros hold_left(BootTime granted_at, BootTime now) const {
    return std::max(Micros{0}, min_hold - std::chrono::floor<Micros>(now - granted_at));
  }
};

}  // namespace dblock::lease
