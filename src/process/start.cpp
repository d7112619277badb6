// Around the job: the guardian's fork and dismissal, the caller's end, the wait for the lock.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/log.hpp"
#include "process/guardian.hpp"
#include "process/process_supervisor.hpp"
#include "process/tree.hpp"
#include "process/watched_process.hpp"

namespace dblock::process {
namespace {

using namespace std::chrono_literals;

constexpr Nanos k_dismissal_patience = 2s;

}  // namespace

Result<void> ProcessSupervisor::begin(bool with_parent, AfterDeath after_death) {
  DBLOCK_TRY(auto tree, Tree::open());
  tree_.emplace(std::move(tree));
  tree_->spare_children();
  terminal_.reset(::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC));
  if (with_parent) DBLOCK_CHECK(watch_parent());
  DBLOCK_TRY(ChannelPair pair, make_channel());
  std::array<int, 2> gate{};
  if (::pipe2(gate.data(), O_CLOEXEC) != 0)
    return fail(Errc::internal, with_errno("cannot make a pipe for the job's gate", errno));
  UniqueFd gate_read(gate[0]);
  gate_.reset(gate[1]);
  UniqueFd self = open_pidfd(::getpid());
  if (!self) return fail(Errc::internal, with_errno("cannot watch dblock's own process", errno));

  const pid_t pid = ::fork();
  if (pid < 0)
    return fail(Errc::internal,
                with_errno("cannot fork the guardian", errno) + "; too many processes (ulimit -u)?");
  if (pid == 0) {
    // Copies of dblock's ends would hide its death from the gate and the channel.
    gate_.reset();
    pair.first.close();
    run_guardian({spec_, signals_, *shared_, std::move(pair.second), std::move(self), std::move(gate_read),
                  static_cast<bool>(terminal_), std::move(after_death)});
  }
  guardian_ = pid;
  guardian_alive_ = true;
  channel_ = std::move(pair.first);
  return {};
}

// What the kernel could tell of a parent that we cannot see is the end of the thread that forked us, not of
// its process (PR_SET_PDEATHSIG).
Result<void> ProcessSupervisor::watch_parent() {
  parent_pid_ = ::getppid();
  if (parent_pid_ == 0) {
    return fail(Errc::usage,
                "--with-parent cannot watch the process that started dblock, which is outside of this PID "
                "namespace (docker exec, or a container's first process); start dblock from a shell in the "
                "container, or leave --with-parent out");
  }
  parent_ = open_pidfd(parent_pid_);
  if (!parent_ && errno != ESRCH)
    return fail(Errc::internal, with_errno("cannot watch the process that started dblock", errno));
  // It may have ended, and its pid been reused, before we looked.
  if (!parent_ || ::getppid() != parent_pid_) parent_gone_ = true;
  return {};
}

bool ProcessSupervisor::parent_ended() const {
  if (parent_gone_) return true;
  if (!parent_) return false;
  pollfd p{parent_.get(), POLLIN, 0};
  return ::poll(&p, 1, 0) > 0;
}

bool ProcessSupervisor::read_signal(signalfd_siginfo& info) const {
  return ::read(signals_.fd(), &info, sizeof info) == static_cast<ssize_t>(sizeof info);
}

StopRequest ProcessSupervisor::request_at_terminal(const signalfd_siginfo& info) const {
  StopRequest request = request_of(info);
  request.terminal = request.terminal && terminal_;
  return request;
}

StopRequest ProcessSupervisor::request_of_parent() const {
  return {.reason = StopReason::parent, .signal = SIGTERM, .pid = parent_pid_};
}

// On SIGCHLD. The guardian is our child; anyone else reaped here is an orphan that fell to us as subreaper or
// as process 1.
void ProcessSupervisor::check_guardian() {
  siginfo_t info{};
  if (guardian_alive_ && ::waitid(P_PID, static_cast<id_t>(guardian_), &info, WSTOPPED | WNOHANG) == 0 &&
      info.si_pid != 0) {
    log::warning("the guardian process was stopped from outside; continued it, since it protects the job");
    ::kill(guardian_, SIGCONT);
  }
  tree_->reap_ended([this](pid_t pid, int status) {
    if (pid == guardian_) guardian_alive_ = false;
    if (pid == job_) end_.status = ExitStatus::from_wait(status);
  });
}

Awaited ProcessSupervisor::await(const WakeEvent& wake) {
  for (;;) {
    if (wake.raised()) return Awaited::woken;
    if (parent_ended()) {
      end_.stop = request_of_parent();
      return Awaited::signalled;
    }
    signalfd_siginfo info{};
    while (read_signal(info)) {
      const auto number = static_cast<int>(info.ssi_signo);
      if (number == SIGCHLD) check_guardian();
      if (ends_wait(number)) {
        end_.stop = request_at_terminal(info);
        return Awaited::signalled;
      }
    }
    if (!guardian_alive_) return Awaited::guardian_died;
    std::array<pollfd, 3> fds{pollfd{wake.fd(), POLLIN, 0}, pollfd{signals_.fd(), POLLIN, 0},
                              pollfd{parent_.get(), POLLIN, 0}};
    ::poll(fds.data(), fds.size(), -1);
  }
}

void ProcessSupervisor::finish() {
  if (!guardian_alive_) return;
  gate_.reset();
  channel_.send({MessageType::finish, 0, 0, {}});
  dismissed_ = true;
}

void ProcessSupervisor::await_guardian() {
  const BootTime patience = BootClock::now() + k_dismissal_patience;
  while (guardian_alive_ && BootClock::now() < patience) {
    pollfd p{channel_.fd(), POLLIN, 0};
    ::poll(&p, 1, 50);
    if ((p.revents & POLLHUP) != 0) break;
    Message unread;
    while (channel_.receive(unread) == Channel::Received::message) {
    }
    check_guardian();  // continues it if somebody stopped it
  }
  if (!guardian_alive_) return;
  ::kill(guardian_, SIGKILL);  // it is exiting or frozen; there is nothing left for it to do
  ::waitpid(guardian_, nullptr, 0);
  guardian_alive_ = false;
}

Result<std::unique_ptr<Supervisor>> Supervisor::start(const JobSpec& spec, bool with_parent,
                                                      AfterDeath after_death) {
  DBLOCK_TRY(SharedPage shared, make_shared_page());
  auto supervisor = std::make_unique<ProcessSupervisor>(spec, std::move(shared));
  DBLOCK_CHECK(supervisor->begin(with_parent, std::move(after_death)));
  return supervisor;
}

}  // namespace dblock::process
