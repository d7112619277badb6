// What a Supervisor does before and after the job: it forks and dismisses the guardian, watches the process
// that started dblock, and waits for the lock.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/log.hpp"
#include "base/missing_call.hpp"
#include "process/supervisor.hpp"
#include "process/watched_process.hpp"

namespace dblock::process {
namespace {

using namespace std::chrono_literals;

constexpr Nanos k_dismissal_patience = 2s;  // for the guardian to exit before it is killed

}  // namespace

Supervisor::Supervisor(const JobSpec& spec, SharedPage shared)
    : spec_(spec), shared_(std::move(shared)), rules_(spec) {}

Supervisor::~Supervisor() {
  if (dismissed_) await_guardian();
}

Result<void> Supervisor::fork_guardian(bool with_parent, AfterDeath after_death) {
  DBLOCK_TRY(auto tree, Tree::open());
  tree_.emplace(std::move(tree));
  tree_->spare_children();
  terminal_.reset(::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC));
  if (with_parent) DBLOCK_CHECK(watch_parent());
  UniqueFd self = open_pidfd(::getpid());
  if (!self)
    return fail(Errc::internal, with_missing_call("cannot watch dblock's own process", errno, k_pidfd_open));
  const auto become_guardian = [&](GuardianEnds ends) {
    run_guardian({spec_, signals_, *shared_, std::move(ends.socket), std::move(self), std::move(ends.gate),
                  static_cast<bool>(terminal_), std::move(after_death)});
  };
  if (spec_.retried) {
    DBLOCK_TRY(GuardianStarter starter, GuardianStarter::fork(become_guardian));
    starter_.emplace(std::move(starter));
  }
  Channels ours;
  DBLOCK_TRY(GuardianEnds ends, make_channels(ours));
  const pid_t pid = ::fork();
  if (pid < 0)
    return fail(Errc::internal,
                with_errno("cannot fork the guardian", errno) + "; too many processes (ulimit -u)?");
  if (pid == 0) {
    // The guardian's copies of dblock's ends would keep gate and socket open after dblock's death.
    ours = {};
    become_guardian(std::move(ends));
  }
  guardian_ = pid;
  guardian_alive_ = true;
  socket_ = std::move(ours.socket);
  gate_ = std::move(ours.gate);
  return {};
}

// Returns the guardian's ends.
Result<GuardianEnds> Supervisor::make_channels(Channels& ours) const {
  DBLOCK_TRY(SocketPair pair, make_socket_pair("the guardian"));
  std::array<int, 2> gate{};
  if (::pipe2(gate.data(), O_CLOEXEC) != 0)
    return fail(Errc::internal, with_errno("cannot make a pipe for the job's gate", errno));
  ours = {std::move(pair.first), UniqueFd(gate[1])};
  return GuardianEnds{std::move(pair.second), UniqueFd(gate[0])};
}

// A parent outside of this PID namespace has no pid here, so dblock cannot watch it. PR_SET_PDEATHSIG is no
// way out: it tells the end of the thread that forked dblock, not of the parent process.
Result<void> Supervisor::watch_parent() {
  parent_pid_ = ::getppid();
  if (parent_pid_ == 0) {
    return fail(Errc::usage,
                "--with-parent cannot watch the process that started dblock, which is outside of this PID "
                "namespace (docker exec, or a container's first process); start dblock from a shell in the "
                "container, or leave --with-parent out");
  }
  parent_ = open_pidfd(parent_pid_);
  if (!parent_ && errno != ESRCH)
    return fail(Errc::internal,
                with_missing_call("cannot watch the process that started dblock", errno, k_pidfd_open));
  // The parent may have ended, and its pid been reused, before open_pidfd().
  if (!parent_ || ::getppid() != parent_pid_) parent_gone_ = true;
  return {};
}

bool Supervisor::parent_ended() const {
  if (parent_gone_) return true;
  if (!parent_) return false;
  pollfd p{parent_.get(), POLLIN, 0};
  return ::poll(&p, 1, 0) > 0;
}

bool Supervisor::read_signal(signalfd_siginfo& info) const {
  return ::read(signals_.fd(), &info, sizeof info) == static_cast<ssize_t>(sizeof info);
}

Stop Supervisor::stop_by_signal(const signalfd_siginfo& info) const {
  Stop stop = stop_by(info);
  // The terminal sends a signal to its whole foreground group: the job has it already.
  stop.from_terminal = stop.from_terminal && terminal_;
  return stop;
}

// Called on SIGCHLD. The guardian is dblock's child. Any other child that is waited for here is an orphan
// that dblock has adopted as subreaper or as process 1.
void Supervisor::check_guardian() {
  siginfo_t info{};
  if (guardian_alive_ && ::waitid(P_PID, static_cast<id_t>(guardian_), &info, WSTOPPED | WNOHANG) == 0 &&
      info.si_pid != 0) {
    log::warning("the guardian process was stopped from outside; continued it, since it protects the job");
    ::kill(guardian_, SIGCONT);
  }
  tree_->collect_ended([this](pid_t pid, int status) { waited_for(pid, status); });
}

void Supervisor::waited_for(pid_t pid, int wait_status) {
  if (pid == guardian_) guardian_alive_ = false;
  if (starter_ && pid == starter_->pid()) {
    starter_->has_ended();
    starter_.reset();
  }
  if (pid == job_) rules_.job_waited_for(wait_status);
}

Stop Supervisor::await(const WakeEvent& wake, std::optional<BootTime> until,
                       const std::function<void()>& on_silence) {
  if (until) timer_.arm(*until);
  BootTime silent_until = on_silence ? BootClock::now() + k_silence : BootTime::max();
  for (;;) {
    if (wake.raised() || (until && BootClock::now() >= *until)) return {};
    if (parent_ended()) return {.reason = Stop::Reason::parent, .signal = SIGTERM, .pid = parent_pid_};
    signalfd_siginfo info{};
    while (read_signal(info)) {
      const auto number = static_cast<int>(info.ssi_signo);
      if (number == SIGCHLD) check_guardian();
      if (ends_wait(number)) return stop_by_signal(info);
    }
    if (!guardian_alive_) return {.reason = Stop::Reason::guardian};
    int patience_ms = -1;
    if (silent_until != BootTime::max()) {
      const Nanos left = silent_until - BootClock::now();
      if (left > Nanos{0}) {
        patience_ms = static_cast<int>(left / 1ms) + 1;
      } else {
        silent_until = BootTime::max();
        on_silence();
      }
    }
    std::array<pollfd, 4> fds{pollfd{wake.fd(), POLLIN, 0}, pollfd{signals_.fd(), POLLIN, 0},
                              pollfd{parent_.get(), POLLIN, 0}, pollfd{until ? timer_.fd() : -1, POLLIN, 0}};
    ::poll(fds.data(), fds.size(), patience_ms);
  }
}

void Supervisor::dismiss_guardian() {
  if (next_.socket) send_record(next_.socket, Message{MessageType::dismiss});
  next_ = {};
  if (!guardian_alive_) return;
  gate_.reset();
  send_record(socket_, Message{MessageType::dismiss});
  dismissed_ = true;
}

void Supervisor::await_guardian() {
  const BootTime patience = BootClock::now() + k_dismissal_patience;
  while (guardian_alive_ && BootClock::now() < patience) {
    pollfd p{socket_.get(), POLLIN, 0};
    ::poll(&p, 1, 50);
    if ((p.revents & POLLHUP) != 0) break;
    Message unread;
    while (receive_record(socket_, unread) == Received::message) {
    }
    check_guardian();  // continues a guardian that was stopped from outside
  }
  if (!guardian_alive_) return;
  ::kill(guardian_, SIGKILL);  // the guardian is exiting or frozen, and has nothing left to do
  ::waitpid(guardian_, nullptr, 0);
  guardian_alive_ = false;
}

Result<std::unique_ptr<Supervisor>> Supervisor::start(const JobSpec& spec, bool with_parent,
                                                      AfterDeath after_death) {
  DBLOCK_TRY(SharedPage shared, make_shared_page());
  auto supervisor = std::make_unique<Supervisor>(spec, std::move(shared));
  DBLOCK_CHECK(supervisor->fork_guardian(with_parent, std::move(after_death)));
  return supervisor;
}

}  // namespace dblock::process
