// While the job runs: one poll loop over the guardian's messages, signals, deadlines and losses.
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "process/gate_child.hpp"
#include "process/process_supervisor.hpp"
#include "process/tree.hpp"

namespace dblock::process {
namespace {

using namespace std::chrono_literals;

// How long the guardian may be behind its plan before dblock stops the tree by itself; near the deadline it
// is half of the slack, so that there is time left to do it.
constexpr Nanos k_guardian_patience = 1s;
constexpr Nanos k_terminal_poll = 200ms;
constexpr int k_no_signal = 0;  // the grace begins, but the job has had its signal

}  // namespace

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
  if (revoked_event_.raised()) {
    revoked_event_.clear();
    request_stop({.reason = StopReason::revoked, .signal = spec_.first_signal}, spec_.first_signal);
    tell_loss();
  }
  if (parent_ended()) {
    parent_.reset();
    parent_gone_ = false;
    log::info("the process that started dblock has ended; stopping the job");
    request_stop(request_of_parent(), SIGTERM);
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
        handle_job_exited(message);
        break;
      case MessageType::fencing:
        note_stop();
        tell_loss();
        break;
      case MessageType::left_behind:
        end_.left_behind.emplace_back(message.text.data());
        break;
      case MessageType::done:
        end_.tree_dead = message.value != 0;
        if ((message.detail & k_fenced) != 0) note_deadline();
        end_.killed = (message.detail & k_job_killed) != 0;
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
    end_.fork_errno = -message.value;
    end_.tree_dead = true;
    over_ = true;
    return;
  }
  job_ = message.value;
  handle_signals();  // a stop that has come since the wait ended
  plan_.set_deadline(shared_->deadline());
  if (plan_.fence_due(BootClock::now())) note_deadline();
  if (end_.stop.reason != StopReason::none) {
    end_.tree_dead = true;
    over_ = true;
    return;
  }
  // Sent before the gate opens: a guardian that sleeps without a timer would let the job outlive its lease.
  channel_.send({MessageType::guard, 0, 0, {}});
  open_gate(gate_, *environment_);
  gate_.reset();
  end_.started = true;
  if (max_runtime_) runtime_ends_ = BootClock::now() + *max_runtime_;
}

void ProcessSupervisor::handle_job_exited(const Message& message) {
  look_at_terminal_.reset();
  end_.started = message.detail == 0;
  if (message.detail == k_too_late) {
    note_deadline();
    return;
  }
  handle_signals();  // Ctrl-C has come to both of us, and may have ended the job before we read of it
  if (stopping_since_) end_.stop_took = BootClock::now() - *stopping_since_;
  end_.status = ExitStatus::from_wait(message.value);
  end_.exec_errno = message.detail;
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
        request_stop(request_at_terminal(info), number);
      } else if (!terminal_is_raw()) {
        interrupted_at_terminal_ = true;
        request_stop(request_at_terminal(info), k_no_signal);
      }
      break;
    case SIGTERM:
    case SIGHUP:
      request_stop(request_at_terminal(info), number);
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
    request_stop({.reason = StopReason::max_runtime, .signal = spec_.first_signal}, spec_.first_signal);
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

void ProcessSupervisor::request_stop(const StopRequest& request, int signal_for_job) {
  if (end_.stop.reason == StopReason::none) {
    end_.stop = request;
    end_.stop_came_late = end_.status.has_value();
  }
  note_stop();
  plan_.request(BootClock::now());
  channel_.send({MessageType::stop, signal_for_job, 0, {}});
}

void ProcessSupervisor::note_stop() {
  if (!stopping_since_) stopping_since_ = BootClock::now();
}

void ProcessSupervisor::note_deadline() {
  if (end_.stop.reason == StopReason::none)
    end_.stop = {.reason = StopReason::deadline, .signal = spec_.first_signal};
}

void ProcessSupervisor::tell_loss() {
  if (const auto told = std::exchange(on_loss_, nullptr)) told();
}

// The guardian is dead, or did not do in time what it had to. Without it the job's tree falls to us, the next
// subreaper; stop it all ourselves.
void ProcessSupervisor::take_over() {
  const auto deadline = shared_->deadline();
  if (end_.stop.reason == StopReason::none) {
    const bool late = deadline && BootClock::now() >= *deadline - spec_.slack - spec_.kill_grace;
    end_.stop = {.reason = late ? StopReason::deadline : StopReason::guardian,
                 .signal = stopping_since_ ? spec_.first_signal : SIGKILL};
  }
  if (end_.stop.reason == StopReason::deadline) tell_loss();
  end_.killed = !end_.status;
  if (stopping_since_) end_.stop_took = BootClock::now() - *stopping_since_;
  // A guardian that is merely late comes last: should we be killed in the middle of this, it is the one who
  // is left to stop the rest, and to release.
  if (guardian_alive_) {
    tree_->kill_all_but(guardian_);
    // From here until the release nobody would follow up on our own death: the lease would have to end.
    log::warning(
        "the guardian process did not stop the job in time (an overloaded machine, or was it "
        "frozen?); dblock stopped the job itself");
    ::kill(guardian_, SIGKILL);
  }
  const bool dead = tree_->kill_all([this](pid_t pid, int status) {
    if (pid == guardian_) guardian_alive_ = false;
    if (pid == job_ && !end_.status) end_.status = ExitStatus::from_wait(status);
  });
  handle_messages();  // the end of a job that the guardian has waited for is told by nobody else
  end_.tree_dead = dead;
  over_ = true;
}

}  // namespace dblock::process
