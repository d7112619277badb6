// The signals sent to dblock: blocked at the start of a run and read from a descriptor. The job gets back the
// mask and the dispositions that dblock's caller had set.
#pragma once

#include <signal.h>
#include <sys/signalfd.h>

#include <functional>
#include <optional>

#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "process/job.hpp"

namespace dblock::process {

// The stop that a signal asks for, with `from_terminal` set when the kernel sent the signal.
[[nodiscard]] Stop stop_by(const signalfd_siginfo& info);

// True for the signals that end a wait while there is no job to pass them on to: TERM, INT, HUP, QUIT, USR1,
// USR2.
[[nodiscard]] bool ends_wait(int signal);

// A wait that takes longer than this is announced.
inline constexpr Nanos k_silence = std::chrono::seconds(5);

// Keeps the signal mask and dispositions that this process was started with, and has a signalfd for the
// handled signals. Signals ignored at the start (nohup, background jobs of a plain shell) stay ignored and
// are never read.
class Signals {
 public:
  // Blocks the handled signals, SIGPIPE and SIGXFSZ in the calling thread; call before any other thread
  // exists. SIGCHLD gets its default disposition back, because an ignored one would lose exit statuses.
  Signals();

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  // Blocks until `wake` is raised, until descriptor `also` is readable (-1: none), until the time `until`, or
  // until a signal comes that ends a wait (ends_wait()). Returns a Stop for such a signal only.
  [[nodiscard]] std::optional<Stop> wait(const WakeEvent& wake, std::optional<BootTime> until,
                                         int also = -1) const;
  // The same. Calls `on_silence` once, when that takes longer than k_silence.
  [[nodiscard]] std::optional<Stop> wait(const WakeEvent& wake, std::optional<BootTime> until, int also,
                                         const std::function<void()>& on_silence) const;

  // For the job, before its exec: restore what this process was started with. Call the second one last: it
  // delivers the pending signals.
  void restore_dispositions() const noexcept;
  void restore_mask() const noexcept;

 private:
  sigset_t caller_mask_{};
  struct sigaction caller_child_action_ {};  // of SIGCHLD, the only disposition that is changed
  UniqueFd fd_;
};

// Ends this process as if killed by `signal`, without a core dump; _exit(128 + signal) where that fails (PID
// 1).
[[noreturn]] void die_of_signal(int signal);

}  // namespace dblock::process
