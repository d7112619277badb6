#include "process/signals.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"

namespace dblock::process {
namespace {

// The signals that dblock forwards, acts upon or swallows. Faults (SEGV, BUS, …) are not among them: blocking
// them would turn a crash into undefined behaviour.
constexpr std::array k_handled{SIGTERM,  SIGINT,  SIGHUP,  SIGQUIT, SIGUSR1, SIGUSR2,
                               SIGWINCH, SIGTSTP, SIGTTIN, SIGTTOU, SIGCHLD};

bool is_ignored(int signal) {
  struct sigaction current {};
  return ::sigaction(signal, nullptr, &current) == 0 && current.sa_handler == SIG_IGN;
}

}  // namespace

Stop stop_by(const signalfd_siginfo& info) {
  const bool by_kernel = info.ssi_code == SI_KERNEL;
  return {.reason = Stop::Reason::signal,
          .signal = static_cast<int>(info.ssi_signo),
          .from_terminal = by_kernel,
          .pid = by_kernel ? 0 : static_cast<pid_t>(info.ssi_pid),
          .uid = info.ssi_uid};
}

bool ends_wait(int signal) {
  constexpr std::array ending{SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
  return std::ranges::find(ending, signal) != ending.end();
}

Signals::Signals() {
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &plain, &caller_child_action_);

  sigset_t blocked;
  sigset_t read;
  sigemptyset(&blocked);
  sigemptyset(&read);
  // A write to a closed pipe must return an error, not end the holder of a lock.
  sigaddset(&blocked, SIGPIPE);
  sigaddset(&blocked, SIGXFSZ);  // likewise a write to a file that may not grow any more
  for (const int s : k_handled) {
    if (is_ignored(s)) continue;
    sigaddset(&blocked, s);
    sigaddset(&read, s);
  }
  ::sigprocmask(SIG_BLOCK, &blocked, &caller_mask_);
  // A signal that the caller had blocked stays unread: the caller did not want it to have an effect.
  for (const int s : k_handled) {
    if (s != SIGCHLD && sigismember(&caller_mask_, s) == 1) sigdelset(&read, s);
  }
  fd_.reset(::signalfd(-1, &read, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_) die("cannot make a descriptor for signals");
}

std::optional<Stop> Signals::wait(const WakeEvent& wake, std::optional<BootTime> until, int also) const {
  DeadlineTimer timer;
  if (until) timer.arm(*until);
  for (;;) {
    std::array<pollfd, 4> fds{pollfd{fd_.get(), POLLIN, 0}, pollfd{wake.fd(), POLLIN, 0},
                              pollfd{timer.fd(), POLLIN, 0}, pollfd{also, POLLIN, 0}};
    ::poll(fds.data(), fds.size(), -1);
    signalfd_siginfo info{};
    while (::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      if (ends_wait(static_cast<int>(info.ssi_signo))) return stop_by(info);
    }
    if (((fds[1].revents | fds[2].revents | fds[3].revents) & (POLLIN | POLLHUP)) != 0) return std::nullopt;
  }
}

std::optional<Stop> Signals::wait(const WakeEvent& wake, std::optional<BootTime> until, int also,
                                  const std::function<void()>& on_silence) const {
  const BootTime silent_until = BootClock::now() + k_silence;
  if (until && *until <= silent_until) return wait(wake, until, also);
  const auto stop = wait(wake, silent_until, also);
  if (stop || wake.raised() || BootClock::now() < silent_until) return stop;
  on_silence();
  return wait(wake, until, also);
}

void Signals::restore_dispositions() const noexcept {
  ::sigaction(SIGCHLD, &caller_child_action_, nullptr);
}

void Signals::restore_mask() const noexcept {
  ::sigprocmask(SIG_SETMASK, &caller_mask_, nullptr);
}

void die_of_signal(int signal) {
  // The job dumped core if it should have; a core dump of dblock would only confuse.
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::prctl(PR_SET_DUMPABLE, 0);
  ::signal(signal, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  ::sigprocmask(SIG_UNBLOCK, &only, nullptr);
  ::raise(signal);
  ::_exit(128 + signal);  // process 1 of a container survives its own signals, any process a SIGWINCH
}

}  // namespace dblock::process
