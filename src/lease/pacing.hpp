// How long an acquisition goes on: its limit, the number of its tries, and the pauses between them.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.hpp"
#include "lease/backoff.hpp"

namespace dblock::lease {

// A fixed number of tries instead of waiting in line. The first pause is `first`, each next one
// `growth` times longer, without jitter, since people compute schedules from them. A try for which the
// database is unreachable counts.
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

// One acquisition's. The limit runs from construction on. `seed` makes the pauses of two processes differ.
class Pacing {
 public:
  Pacing(Clock& clock, const WaitPolicy& policy, std::uint64_t seed);

  [[nodiscard]] bool has_schedule() const { return schedule_.has_value(); }
  [[nodiscard]] bool out_of_time() const;
  // `length` from now, but never past the limit, so that the last try happens at its very end.
  [[nodiscard]] BootTime within_limit(Micros length) const;
  // Moves a limit that is nearer than `length` from now to there.
  void extend_limit(Micros length);
  // Counts the try that has just failed; true when it was the last one.
  bool last_try();

  // The pauses. After a try or look that found the lock held. The pauses after failures are short again from
  // then on. `often`: this waiter must notice the end itself, so it polls as often as the first in line does.
  // A schedule ignores that.
  [[nodiscard]] Micros after_refusal(bool often);
  // After a failed step. `counted`: the failure was a try of the schedule.
  [[nodiscard]] Micros after_failure(bool counted);
  // While the outcome of a try is unknown; doubt_begins() before the first of them.
  void doubt_begins();
  [[nodiscard]] Micros in_doubt() { return ask_again_.next(); }
  // Between two looks that are `interval` apart.
  [[nodiscard]] Micros until_look(Micros interval) { return poll_.jittered(interval); }

 private:
  [[nodiscard]] Micros scheduled_pause() const;

  Clock& clock_;
  std::optional<Retry> schedule_;
  std::optional<BootTime> give_up_at_;
  std::uint64_t tries_ = 0;
  Backoff poll_;       // between polls of a lock that cools down or is paused
  Backoff retry_;      // after a failed step
  Backoff ask_again_;  // while the outcome of a try is unknown
};

}  // namespace dblock::lease
