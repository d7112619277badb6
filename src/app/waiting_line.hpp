// What somebody who waits at a terminal sees: one live line (base/log.hpp) that ticks once a second.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "lease/types.hpp"

namespace dblock::app {

// waiting 12s, 2nd of 5, for "k": held 3m2s by user@host:pid, expires in 1m50s
// `status` was seen `age` ago; its times go on from there.
[[nodiscard]] std::string describe_wait(const lease::LockStatus& status, Micros age, Micros waited);

// Has a thread of its own while there is a line, which asks nobody anything. Thread-safe.
class WaitingLine {
 public:
  WaitingLine();
  WaitingLine(const WaitingLine&) = delete;
  WaitingLine& operator=(const WaitingLine&) = delete;
  ~WaitingLine();

  // The wait has begun: what `waited` counts from. Done by show() at the latest.
  void begin();
  // Shows who holds the lock, from now on until end(). False when there can be no live line.
  [[nodiscard]] bool show(const lease::LockStatus& status);
  // Clears the line away for good.
  void end();

 private:
  class Ticker;
  struct Seen {
    lease::LockStatus status;
    BootTime at;
  };
  void draw();

  std::mutex mutex_;  // guards what follows
  std::optional<BootTime> begun_;
  std::optional<Seen> seen_;
  bool over_ = false;
  std::unique_ptr<Ticker> ticker_;
};

}  // namespace dblock::app
