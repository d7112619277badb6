// dblock's own signals: taken over at the start of a run, handed to the job as the caller had them.
#pragma once

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/types.h>

#include <optional>

#include "base/clock.hpp"
#include "base/unique_fd.hpp"

namespace dblock::process {

// Why dblock stopped the job, or gave up waiting.
enum class StopReason {
  none,
  signal,    // sent to dblock: TERM, INT or HUP, or another that ends a wait
  parent,    // --with-parent: the process that started dblock has ended
  deadline,  // the lease could not be renewed in time (self-fence)
  revoked,   // told to by stop_revoked()
  max_runtime,
  guardian,  // the guardian died or would not answer
};

struct StopRequest {
  StopReason reason = StopReason::none;
  int signal = 0;         // the first one the job gets; of `signal` the one that was sent to dblock
  bool terminal = false;  // `signal`: the terminal made it
  pid_t pid = 0;          // its sender, where the kernel tells it; of `parent` the process that has ended
  uid_t uid = 0;          // of the sender
};

// `terminal`: the kernel sent it.
[[nodiscard]] StopRequest request_of(const signalfd_siginfo& info);

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
  [[nodiscard]] std::optional<StopRequest> wait(const WakeEvent& wake, std::optional<BootTime> until,
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

}  // namespace dblock::process
