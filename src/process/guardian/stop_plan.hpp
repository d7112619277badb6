// The one rule for when to send the first signal, when to send SIGKILL, and when dblock acts in the
// guardian's place. Pure arithmetic on times given from outside: the guardian, dblock, the keeper and the job
// behind its gate follow the same plan, and tests need no processes.
#pragma once

#include <algorithm>
#include <optional>

#include "base/clock.hpp"
#include "process/job.hpp"

namespace dblock::process {

// The present time, and the time until which the lease is proved; without a deadline nothing is fenced.
struct Moment {
  BootTime now;
  std::optional<BootTime> deadline{};
};

// `one` may be no time at all.
[[nodiscard]] inline BootTime earlier(const std::optional<BootTime>& one, BootTime other) {
  return one ? std::min(*one, other) : other;
}

class StopPlan {
 public:
  // A plan of the deadline alone. `kill_grace`: first signal to SIGKILL. `slack`: SIGKILL to the deadline.
  StopPlan(Nanos kill_grace, Nanos slack) : kill_grace_(kill_grace), slack_(slack) {}
  explicit StopPlan(const JobSpec& spec)
      : kill_grace_(spec.kill_grace),
        slack_(spec.slack),
        stop_grace_(spec.stop_grace.value_or(spec.kill_grace)) {}

  // The lease is proved until `deadline`; without one nothing is fenced.
  void set_deadline(std::optional<BootTime> deadline) { deadline_ = deadline; }

  // The job is to be stopped: the grace for `why` begins at `now`, and ends early if the deadline's SIGKILL
  // is due before. A second call may bring the SIGKILL forward, and never puts it off.
  void begin_stop(BootTime now, Stop::Reason why);

  [[nodiscard]] bool stopping() const { return stop_began_at_.has_value(); }
  // The deadline is so near that the first signal must go out now, whatever else was decided.
  [[nodiscard]] bool fence_due(BootTime now) const;
  // SIGKILL must go out now.
  [[nodiscard]] bool kill_due(BootTime now) const;
  // The same, whatever grace is left: the lease has not been renewed in time.
  [[nodiscard]] bool fence_kill_due(BootTime now) const;

  // The next moment at which any of the above may change; nullopt: none.
  [[nodiscard]] std::optional<BootTime> next_change() const;
  [[nodiscard]] std::optional<BootTime> kill_at() const;
  // When dblock stops the job's tree itself, because the guardian has not: later than the guardian's SIGKILL
  // is due, and early enough before the deadline.
  [[nodiscard]] std::optional<BootTime> stop_in_place_at() const;
  [[nodiscard]] std::optional<BootTime> deadline() const { return deadline_; }
  // When the grace of a stop that has begun ends.
  [[nodiscard]] std::optional<BootTime> grace_ends_at() const { return grace_ends_at_; }
  [[nodiscard]] std::optional<BootTime> stop_began_at() const { return stop_began_at_; }

 private:
  [[nodiscard]] std::optional<BootTime> fence_signal_at() const;
  [[nodiscard]] std::optional<BootTime> fence_kill_at() const;

  Nanos kill_grace_;
  Nanos slack_;
  Nanos stop_grace_{0};
  std::optional<BootTime> deadline_;
  std::optional<BootTime> stop_began_at_;
  std::optional<BootTime> grace_ends_at_;
};

}  // namespace dblock::process
