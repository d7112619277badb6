#include "process/supervisor.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "process/channel.hpp"
#include "process/gate_child.hpp"
#include "process/guardian.hpp"
#include "process/signals.hpp"
#include "process/stop_plan.hpp"
#include "process/tree.hpp"

namespace dblock::process {
namespace {

using namespace std::chrono_literals;

// How long the guardian may be behind its plan before dblock stops the tree by itself; near the deadline it
// is half of the slack, so that there is time left to do it.
constexpr Nanos k_guardian_patience = 1s;
constexpr Nanos k_kill_patience = 5s;
constexpr Nanos k_terminal_poll = 200ms;
constexpr Nanos k_dismissal_patience = 2s;
constexpr int k_no_signal = 0;  // the grace begins, but the job has had its signal

// glibc 2.36 declares pidfd_open() without C linkage for C++.
int pidfd_open(pid_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U));
}

class ProcessSupervisor final : public Supervisor {
 public:
  ProcessSupervisor(const JobSpec& spec, SharedPage shared)
      : spec_(spec), shared_(std::move(shared)), plan_(spec.kill_grace, spec.slack) {}

  ProcessSupervisor(const ProcessSupervisor&) = delete;
  ProcessSupervisor& operator=(const ProcessSupervisor&) = delete;
  ~ProcessSupervisor() override {
    if (dismissed_) await_guardian();
  }

  Result<void> begin(bool with_parent, std::function<void()> after_death);

  void arm_release() override { shared_->release_armed.store(true); }
  BeforeStart wait_before_start(const WakeEvent& wake) override;
  [[nodiscard]] int signal() const override { return signal_; }
  void set_deadline(BootTime deadline) override { shared_->extend_deadline(deadline); }
  void stop_revoked() override {
    revoked_.store(true);
    revoked_event_.raise();
  }
  JobEnd run_job(const std::vector<std::string>& environment, std::optional<Nanos> max_runtime) override;
  void finish() override;

 private:
  void watch_parent();
  [[nodiscard]] bool parent_ended() const;
  bool read_signal(signalfd_siginfo& info) const;
  void check_guardian();

  void step();
  void arm_timer();
  [[nodiscard]] std::optional<BootTime> emergency_at() const;
  void handle_messages();
  void handle_ready(const Message& message);
  void handle_job_stopped(int signal);
  void handle_signals();
  void handle_signal(const signalfd_siginfo& info);
  [[nodiscard]] bool terminal_is_raw() const;
  void handle_times();
  void request_stop(StopReason reason, int signal);
  void take_over();
  void await_guardian();

  JobSpec spec_;
  Signals signals_;
  SharedPage shared_;
  StopPlan plan_;
  Channel channel_;
  UniqueFd gate_;
  UniqueFd terminal_;
  UniqueFd parent_;
  bool parent_gone_ = false;
  DeadlineTimer timer_;
  WakeEvent revoked_event_;
  std::atomic<bool> revoked_ = false;
  pid_t guardian_ = -1;
  bool guardian_alive_ = false;
  bool dismissed_ = false;
  int signal_ = 0;

  // While the job runs:
  const std::vector<std::string>* environment_ = nullptr;
  std::optional<Nanos> max_runtime_;
  std::optional<BootTime> runtime_ends_;
  std::optional<BootTime> look_at_terminal_;
  pid_t job_ = -1;
  bool told_of_stop_ = false;
  bool interrupted_at_terminal_ = false;
  bool over_ = false;
  JobEnd end_;
};

Result<void> ProcessSupervisor::begin(bool with_parent, std::function<void()> after_death) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  terminal_.reset(::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC));
  if (with_parent) watch_parent();
  DBLOCK_TRY(ChannelPair pair, make_channel());
  std::array<int, 2> gate{};
  if (::pipe2(gate.data(), O_CLOEXEC) != 0)
    return fail(Errc::internal, with_errno("cannot make a pipe for the job's gate", errno));
  UniqueFd gate_read(gate[0]);
  gate_.reset(gate[1]);
  UniqueFd self(pidfd_open(::getpid()));
  if (!self) return fail(Errc::internal, with_errno("cannot watch dblock's own process", errno));

  const pid_t pid = ::fork();
  if (pid < 0) return fail(Errc::internal, with_errno("cannot fork the guardian", errno));
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

void ProcessSupervisor::watch_parent() {
  const pid_t parent = ::getppid();
  parent_.reset(pidfd_open(parent));
  // It may have ended, and its pid been reused, before we looked.
  if (!parent_ || ::getppid() != parent) parent_gone_ = true;
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

// On SIGCHLD. The guardian is our child; anyone else reaped here is an orphan that fell to us as subreaper or
// as process 1.
void ProcessSupervisor::check_guardian() {
  siginfo_t info{};
  if (guardian_alive_ && ::waitid(P_PID, static_cast<id_t>(guardian_), &info, WSTOPPED | WNOHANG) == 0 &&
      info.si_pid != 0) {
    log::warning("the guardian process was stopped from outside; continued it, since it protects the job");
    ::kill(guardian_, SIGCONT);
  }
  reap_ended([this](pid_t pid, int status) {
    if (pid == guardian_) guardian_alive_ = false;
    if (pid == job_) end_.status = ExitStatus::from_wait(status);
  });
}

BeforeStart ProcessSupervisor::wait_before_start(const WakeEvent& wake) {
  for (;;) {
    if (wake.raised()) return BeforeStart::woken;
    if (parent_ended()) {
      signal_ = SIGTERM;
      return BeforeStart::signalled;
    }
    signalfd_siginfo info{};
    while (read_signal(info)) {
      const auto number = static_cast<int>(info.ssi_signo);
      if (number == SIGCHLD) check_guardian();
      if (number == SIGTERM || number == SIGINT || number == SIGHUP || number == SIGQUIT) {
        signal_ = number;
        return BeforeStart::signalled;
      }
    }
    if (!guardian_alive_) return BeforeStart::guardian_died;
    std::array<pollfd, 3> fds{pollfd{wake.fd(), POLLIN, 0}, pollfd{signals_.fd(), POLLIN, 0},
                              pollfd{parent_.get(), POLLIN, 0}};
    ::poll(fds.data(), fds.size(), -1);
  }
}

JobEnd ProcessSupervisor::run_job(const std::vector<std::string>& environment,
                                  std::optional<Nanos> max_runtime) {
  environment_ = &environment;
  max_runtime_ = max_runtime;
  while (!over_) step();
  environment_ = nullptr;
  // A shell's loop around us stops at Ctrl-C only when it sees us die of it, also when the job had to be
  // killed.
  if (interrupted_at_terminal_ && end_.status == ExitStatus{true, SIGKILL}) end_.status = {true, SIGINT};
  return std::move(end_);
}

void ProcessSupervisor::step() {
  arm_timer();
  std::array<pollfd, 5> fds{pollfd{channel_.fd(), POLLIN, 0}, pollfd{signals_.fd(), POLLIN, 0},
                            pollfd{timer_.fd(), POLLIN, 0}, pollfd{revoked_event_.fd(), POLLIN, 0},
                            pollfd{parent_.get(), POLLIN, 0}};
  ::poll(fds.data(), fds.size(), -1);
  handle_messages();
  if (over_) return;
  handle_signals();
  if (!guardian_alive_) {
    handle_messages();  // its last words
    if (!over_) take_over();
    return;
  }
  // Both are heard once only: what stays readable would keep poll() from sleeping.
  if (revoked_.exchange(false)) {
    revoked_event_.clear();
    request_stop(StopReason::revoked, spec_.first_signal);
  }
  if (parent_ended()) {
    parent_.reset();
    parent_gone_ = false;
    log::info("the process that started dblock has ended; stopping the job");
    request_stop(StopReason::signal, SIGTERM);
  }
  handle_times();
}

void ProcessSupervisor::arm_timer() {
  std::optional<BootTime> at = emergency_at();
  for (const auto& other : {runtime_ends_, look_at_terminal_}) {
    if (other) at = at ? std::min(*at, *other) : *other;
  }
  if (at) {
    timer_.arm(*at);
  } else {
    timer_.disarm();
  }
}

// The guardian acts at the plan's times; we act a little later, and before the deadline, if it did not.
std::optional<BootTime> ProcessSupervisor::emergency_at() const {
  StopPlan plan = plan_;
  plan.set_deadline(shared_->deadline());
  auto at = plan.kill_at();
  if (!at) return std::nullopt;
  *at += k_guardian_patience;
  if (plan.deadline()) at = std::min(*at, *plan.deadline() - spec_.slack / 2);
  return at;
}

void ProcessSupervisor::handle_messages() {
  Message message;
  while (!over_ && channel_.receive(message) == Channel::Received::message) {
    switch (message.type) {
      case MessageType::ready:
        handle_ready(message);
        break;
      case MessageType::job_stopped:
        handle_job_stopped(message.value);
        break;
      case MessageType::job_exited:
        end_.status = ExitStatus::from_wait(message.value);
        end_.exec_errno = message.detail;
        look_at_terminal_.reset();
        break;
      case MessageType::left_behind:
        end_.left_behind.emplace_back(message.text.data());
        break;
      case MessageType::done:
        end_.tree_dead = message.value != 0;
        if (message.detail != 0 && end_.stopped == StopReason::none) end_.stopped = StopReason::deadline;
        over_ = true;
        break;
      default:
        break;
    }
  }
}

// The job is known to both of us and still behind the gate. I4: look at the deadline once more before the
// exec; with no time for even an immediate stop, the job does not start.
void ProcessSupervisor::handle_ready(const Message& message) {
  if (message.value < 0) {
    end_.exec_errno = -message.value;
    end_.tree_dead = true;
    over_ = true;
    return;
  }
  job_ = message.value;
  handle_signals();  // a stop that has come since the wait ended
  plan_.set_deadline(shared_->deadline());
  if (end_.stopped == StopReason::none && plan_.fence_due(BootClock::now()))
    end_.stopped = StopReason::deadline;
  if (end_.stopped != StopReason::none) {
    end_.tree_dead = true;
    over_ = true;
    return;
  }
  // Sent before the gate opens: a guardian that sleeps without a timer would let the job outlive its lease.
  channel_.send({MessageType::guard, 0, 0, {}});
  open_gate(gate_, *environment_);
  gate_.reset();
  if (max_runtime_) runtime_ends_ = BootClock::now() + *max_runtime_;
}

void ProcessSupervisor::handle_job_stopped(int signal) {
  if (signal == SIGTTIN || signal == SIGTTOU) {
    // It waits for the terminal; a shell's `fg` gives it the terminal but wakes only what the shell saw stop.
    look_at_terminal_ = BootClock::now() + k_terminal_poll;
    return;
  }
  if (std::exchange(told_of_stop_, true)) return;
  log::warning("the job was stopped (Ctrl-Z or SIGSTOP) and has been continued: a lock cannot be parked");
}

void ProcessSupervisor::handle_signals() {
  signalfd_siginfo info{};
  while (read_signal(info)) handle_signal(info);
}

void ProcessSupervisor::handle_signal(const signalfd_siginfo& info) {
  const auto number = static_cast<int>(info.ssi_signo);
  // Made by the terminal for its whole foreground group: the job has it already.
  const bool job_has_it = info.ssi_code == SI_KERNEL && terminal_;
  switch (number) {
    case SIGCHLD:
      check_guardian();
      break;
    case SIGINT:
      if (!job_has_it) {
        request_stop(StopReason::signal, number);
      } else if (!terminal_is_raw()) {
        interrupted_at_terminal_ = true;
        request_stop(StopReason::signal, k_no_signal);
      }
      break;
    case SIGTERM:
    case SIGHUP:
      request_stop(StopReason::signal, number);
      break;
    case SIGQUIT:
    case SIGUSR1:
    case SIGUSR2:
    case SIGWINCH:
      if (!job_has_it) channel_.send({MessageType::forward, number, 0, {}});
      break;
    case SIGTSTP:
      // From the terminal it has stopped every member of the foreground group that does not handle it, of
      // which the guardian sees no more than its own child.
      if (job_has_it) {
        channel_.send({MessageType::unpark, 0, 0, {}});
        handle_job_stopped(SIGTSTP);
      }
      break;
    default:
      break;  // TTIN, TTOU: meant for a job in the background, which shares our group
  }
}

// An interactive program at its prompt reads key by key; to it Ctrl-C is one more key, not the end.
bool ProcessSupervisor::terminal_is_raw() const {
  termios mode{};
  return ::tcgetattr(terminal_.get(), &mode) == 0 && (mode.c_lflag & ICANON) == 0;
}

void ProcessSupervisor::handle_times() {
  const BootTime now = BootClock::now();
  if (runtime_ends_ && now >= *runtime_ends_) {
    runtime_ends_.reset();
    request_stop(StopReason::max_runtime, spec_.first_signal);
  }
  if (look_at_terminal_ && now >= *look_at_terminal_) {
    look_at_terminal_.reset();
    if (terminal_ && ::tcgetpgrp(terminal_.get()) == ::getpgrp()) {
      channel_.send({MessageType::resume, 0, 0, {}});
    } else {
      look_at_terminal_ = now + k_terminal_poll;
    }
  }
  const auto emergency = emergency_at();
  if (emergency && now >= *emergency) take_over();
}

void ProcessSupervisor::request_stop(StopReason reason, int signal) {
  if (end_.stopped == StopReason::none) {
    end_.stopped = reason;
    end_.stop_signal = signal == k_no_signal ? SIGINT : signal;
  }
  plan_.request(BootClock::now());
  channel_.send({MessageType::stop, signal, 0, {}});
}

// The guardian is dead, or did not do in time what it had to. Without it the job's tree falls to us, the next
// subreaper; stop it all ourselves.
void ProcessSupervisor::take_over() {
  const auto deadline = shared_->deadline();
  if (end_.stopped == StopReason::none) {
    const bool late = deadline && BootClock::now() >= *deadline - spec_.slack - spec_.kill_grace;
    end_.stopped = late ? StopReason::deadline : StopReason::guardian;
  }
  if (guardian_alive_) ::kill(guardian_, SIGKILL);
  end_.tree_dead = kill_all(BootClock::now() + k_kill_patience, [this](pid_t pid, int status) {
    if (pid == guardian_) guardian_alive_ = false;
    if (pid == job_ && !end_.status) end_.status = ExitStatus::from_wait(status);
  });
  over_ = true;
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

}  // namespace

Result<std::unique_ptr<Supervisor>> Supervisor::start(const JobSpec& spec, bool with_parent,
                                                      std::function<void()> after_death) {
  DBLOCK_TRY(SharedPage shared, make_shared_page());
  auto supervisor = std::make_unique<ProcessSupervisor>(spec, std::move(shared));
  DBLOCK_CHECK(supervisor->begin(with_parent, std::move(after_death)));
  return supervisor;
}

}  // namespace dblock::process
