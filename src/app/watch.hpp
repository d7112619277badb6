// `inspect --watch`: asks the store for the same listing again and again, over one connection.
#pragma once

#include "app/use_cases.hpp"

namespace dblock::app {

// The user's side of a watch: shows the answers and tells when the user wants to end. Called from the main
// thread, while signals are blocked. An error that a function returns ends the watch.
class WatchDisplay {
 public:
  WatchDisplay() = default;
  WatchDisplay(const WatchDisplay&) = delete;
  WatchDisplay& operator=(const WatchDisplay&) = delete;
  virtual ~WatchDisplay() = default;

  // Shows the store's answer, or the error that it failed with; the watch goes on after such an error.
  [[nodiscard]] virtual Result<void> show(const Result<InspectReport>& answer) = 0;
  // Shows that the answer is late; the question was asked `waited` ago.
  [[nodiscard]] virtual Result<void> wait_on(Nanos waited) = 0;
  // Draws again: the terminal's size has changed, or the process was stopped and continued.
  [[nodiscard]] virtual Result<void> redraw() = 0;
  // Undoes all changes to the terminal, before the process stops or ends. May be called more than once.
  virtual void step_aside() noexcept = 0;

  [[nodiscard]] virtual int input() const = 0;   // the descriptor that wants_end() reads; -1: none
  [[nodiscard]] virtual int output() const = 0;  // the descriptor shown on; its hangup ends the watch
  [[nodiscard]] virtual bool wants_end() = 0;    // reads input(); true: the user wants to end
};

// Asks the store every `request.watch`, until the display or a signal ends the watch. Survives outages of the
// database, except before the first answer.
[[nodiscard]] Result<Ending> watch(const InspectRequest& request, WatchDisplay& display);

}  // namespace dblock::app
