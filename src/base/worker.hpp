// One thread that runs one task after another: the thread that talks to the database, so that the main thread
// always answers signals and deadlines.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "base/clock.hpp"

namespace dblock {

// A thread that has to do with the database. Throws where the system gives none, with the reason.
[[nodiscard]] std::thread start_thread(std::function<void()> body);

class Worker {
 public:
  Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();  // waits for all tasks, unless abandoned

  // Runs `task` on the worker's thread after all earlier ones. One caller thread.
  void post(std::function<void()> task);

  // Raised while no task is waiting or running.
  [[nodiscard]] const WakeEvent& idle() const;

  // Waits for idle(), at most `patience`; true when idle.
  bool wait_idle(Nanos patience) const;

  // Gives up on a task that will not end in time. The tasks must own, or share, everything that they refer
  // to. The process must end by _Exit() or a signal.
  void abandon();

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace dblock
