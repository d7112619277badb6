// dblock's own signals: taken over at the start of a run, handed to the job as the caller had them.
#pragma once

#include <signal.h>

#include <optional>

#include "base/clock.hpp"
#include "base/unique_fd.hpp"

namespace dblock::process {

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

  // Blocks until `wake` is raised or descriptor `also` is readable (0), a signal that ends a wait has come
  // (its number), or `until` (0).
  [[nodiscard]] int wait(const WakeEvent& wake, std::optional<BootTime> until, int also = -1) const;

  // For the job, before its exec: the dispositions of the start, then its mask, which lets pending signals
  // in.
  void restore_dispositions() const noexcept;
  void restore_mask() const noexcept;

 private:
  sigset_t caller_mask_{};
  struct sigaction caller_child_action_ {};  // of SIGCHLD, the only one that is changed
  UniqueFd fd_;
};

}  // namespace dblock::process
