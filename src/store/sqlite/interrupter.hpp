// Ends a thread's blocking system call at a moment, or when an event is raised. For calls that know no
// timeout and no second descriptor, such as waiting for a file lock.
#pragma once

#include <pthread.h>

#include <csignal>
#include <mutex>
#include <thread>

#include "base/clock.hpp"

namespace dblock::store::sqlite {

// Watches over the thread that makes it, from construction to over(): from `until` on, or once `cancel` is
// raised, that thread gets a signal with an empty handler every millisecond, so its blocking calls fail with
// EINTR. Once would not do: a signal that comes just before the call is lost on it.
class Interrupter {
 public:
  Interrupter(BootTime until, const WakeEvent& cancel);  // throws std::system_error without a thread
  Interrupter(const Interrupter&) = delete;
  Interrupter& operator=(const Interrupter&) = delete;
  ~Interrupter();

  // On the same thread: no more signals. Does not wait for the watching thread to end, which the destructor
  // does: that would put a change of threads between a wake-up and its use.
  void over() noexcept;

 private:
  void watch(BootTime until, int cancel_fd);
  void interrupt_until_over();

  pthread_t target_;
  sigset_t caller_mask_{};
  WakeEvent done_;
  std::mutex mutex_;  // held while signalling: after over() no signal is on its way
  bool over_ = false;
  std::thread watcher_;
};

}  // namespace dblock::store::sqlite
