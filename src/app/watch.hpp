// `inspect --watch`: the same question again and again, over one connection.
#pragma once

#include "app/use_cases.hpp"

namespace dblock::app {

// Who watches: shows what is answered and says when it is enough. Called from the main thread, while signals
// are held back. An error that it returns ends the watch.
class Watcher {
 public:
  Watcher() = default;
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  virtual ~Watcher() = default;

  // What the store has answered, or why it has not; the watch goes on.
  [[nodiscard]] virtual Result<void> show(const Result<InspectReport>& answer) = 0;
  // The answer is late by now.
  [[nodiscard]] virtual Result<void> wait_on(Nanos waited) = 0;
  // The terminal has another size, or the process is back from having been stopped.
  [[nodiscard]] virtual Result<void> redraw() = 0;
  // The process is going to stop or end: whatever was done to the terminal is undone. More than once.
  virtual void step_aside() noexcept = 0;

  [[nodiscard]] virtual int input() const = 0;   // tells when it is readable; -1: nothing to read
  [[nodiscard]] virtual int output() const = 0;  // tells when its reader has gone
  [[nodiscard]] virtual bool wants_end() = 0;    // reads the input
};

// Asks every `request.watch`, until the watcher or a signal ends it. Outages are survived, except at the very
// beginning.
[[nodiscard]] Result<Ending> watch(const InspectRequest& request, Watcher& watcher);

}  // namespace dblock::app
