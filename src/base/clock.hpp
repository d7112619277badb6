// Local time. All local deadlines use CLOCK_BOOTTIME, which counts the time a machine spends suspended:
// a lease runs on while a laptop sleeps (steady_clock would miss that). Wall-clock time never decides
// anything.
#pragma once

#include <chrono>

#include "base/error.hpp"
#include "base/unique_fd.hpp"

namespace dblock {

struct BootClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;
  [[nodiscard]] static time_point now() noexcept;
};

using BootTime = BootClock::time_point;
using Nanos = std::chrono::nanoseconds;
using Micros = std::chrono::microseconds;

// A flag that other threads can raise and poll() can see (an eventfd). Thread-safe. Stays raised until
// clear(). Carries no data: poll() reads it without a lock, so a processor that reorders memory accesses may
// show it raised before it shows what was written earlier. Put that under a mutex or into an atomic.
class WakeEvent {
 public:
  WakeEvent();  // ends the process when the system has no descriptor left
  void raise() noexcept;
  void clear() noexcept;
  [[nodiscard]] bool raised() const noexcept;
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

 private:
  UniqueFd fd_;
};

// Time as the lease protocol sees it; tests replace it.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual BootTime now() const = 0;
  // Blocks until `when` or until `wake` is raised, whichever is first. True when raised. Does not clear it.
  virtual bool wait_until(BootTime when, const WakeEvent& wake) = 0;
};

// The machine's own clock. One instance may be shared by threads.
class SystemClock final : public Clock {
 public:
  [[nodiscard]] BootTime now() const override { return BootClock::now(); }
  bool wait_until(BootTime when, const WakeEvent& wake) override;
};

// A timerfd on CLOCK_BOOTTIME for use in a poll loop; readable once `when` has come.
class DeadlineTimer {
 public:
  DeadlineTimer();
  void arm(BootTime when) noexcept;
  void disarm() noexcept;
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

 private:
  UniqueFd fd_;
};

}  // namespace dblock
