// The live line (base/log.hpp) by which a user at a terminal sees the wait; it is drawn anew every second.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "lease/lock_status.hpp"

namespace dblock::app {

// waiting 12s, 2nd of 5, for "k": held 3m2s by user@host:pid, expires in 1m50s unless renewed
// `age`: the time since `status` was read, by which its times are moved on.
[[nodiscard]] std::string describe_wait(const lease::LockStatus& status, Micros age, Micros waited);

// While the line is shown, a thread of its own redraws it, without any query. Thread-safe.
class WaitDisplay {
 public:
  WaitDisplay();
  WaitDisplay(const WaitDisplay&) = delete;
  WaitDisplay& operator=(const WaitDisplay&) = delete;
  ~WaitDisplay();

  // The wait has begun: its length is counted from the first call. show() calls this, too.
  void begin();
  // Shows `status`, from now on until end() or the next call. False when there can be no live line.
  [[nodiscard]] bool show(const lease::LockStatus& status);
  // Clears the line for good.
  void end();

 private:
  class Ticker;
  struct Seen {
    lease::LockStatus status;
    BootTime at;
  };
  void draw();

  std::mutex mutex_;  // guards the members below
  std::optional<BootTime> begun_;
  std::optional<Seen> seen_;
  bool over_ = false;
  std::unique_ptr<Ticker> ticker_;
};

}  // namespace dblock::app
