// dblock's own signals: taken over at the start of a run, handed to the job as the caller had them.
#pragma once

#include <signal.h>
#include <sys/signalfd.h>

#include <optional>

#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "process/job.hpp"

namespace dblock::process {

// A stop that a signal asks for. `terminal`: the kernel sent it.
[[nodiscard]] Stop stop_by(const signalfd_siginfo& info);

// Signals that would end a process with nothing to pass them on to: TERM, INT, HUP, QUIT, USR1, USR2.
[[nodiscard]] bool ends_wait(int signal);

// The signal mask and dispositions that this process was started with, and a signalfd for those it handles.
// Signals ignored at the start (nohup, background jobs of a plain shell) stay ignored and are never read.
class Signals {
 public:
  // Blocks the handled signals, SIGPIPE and SIGXFSZ in the calling thread; call before any other thread
  // exists. SIGCHLD gets its default disposition back, because an ignored one would lose exit statuses.
  Signals();

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  // Blocks until `wake` is raised or descriptor `also` is readable, `until`, or a signal that ends a wait has
  // come, which alone is returned.
  [[nodiscard]] std::optional<Stop> wait(const WakeEvent& wake, std::optional<BootTime> until,
                                         int also = -1) const;

  // For the job, before its exec: the dispositions of the start, then its mask, which lets pending signals
  // in.
  void restore_dispositions() const noexcept;
  void restore_mask() const noexcept;

 private:
  sigset_t caller_mask_{};
  struct sigaction caller_child_action_ {};  // of SIGCHLD, the only one that is changed
  UniqueFd fd_;
};

// Ends this process as if killed by `signal`, without a core dump; _exit(128 + signal) where that fails (PID
// 1).
[[noreturn]] void die_of_signal(int signal);

}  // namespace dblock::process
