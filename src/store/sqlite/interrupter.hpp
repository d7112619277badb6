// Ends a thread's blocking system call at a given time, or when an event is raised. For calls without a
// timeout that cannot be polled, such as waiting for a file lock.
#pragma once

#include <pthread.h>

#include <csignal>
#include <mutex>
#include <thread>

#include "base/clock.hpp"

namespace dblock::store::sqlite {

// Watches the thread that constructs it, until over(). From `until` on, or once `cancel` is raised, it sends
// that thread a signal with an empty handler every millisecond, so that blocking calls fail with EINTR. One
// signal would not do: just before the call it would have no effect.
class Interrupter {
 public:
  Interrupter(BootTime until, const WakeEvent& cancel);  // throws std::system_error without a thread
  Interrupter(const Interrupter&) = delete;
  Interrupter& operator=(const Interrupter&) = delete;
  ~Interrupter();

  // Call on the same thread. Afterwards no signal comes. Only the destructor waits for the watching thread to
  // end: waiting here would put a thread switch between a wake-up and its use.
  void over() noexcept;

 private:
  void watch(BootTime until, int cancel_fd);
  void interrupt_until_over();

  pthread_t target_;
  sigset_t caller_mask_{};
  WakeEvent done_;
  std::mutex mutex_;  // held while signalling, so that after over() no signal is on its way
  bool over_ = false;
  std::thread watcher_;
};

}  // namespace dblock::store::sqlite
