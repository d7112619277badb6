// What a Supervisor does while the job runs: one poll loop that reports the events of each round to the
// rules, and carries out the actions they return.
#include "process/supervisor.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "base/duration.hpp"
#include "base/log.hpp"
#include "process/detached.hpp"
#include "process/guardian/gate_child.hpp"
#include "process/hooks.hpp"

namespace dblock::process {

JobEnd Supervisor::run_job(const std::vector<std::string>& environment, std::optional<Nanos> max_runtime) {
  rules_.set_max_runtime(max_runtime);
  return supervise(environment);
}

JobEnd Supervisor::run_again(const std::vector<std::string>& environment, Nanos pause) {
  if (on_leftovers_) on_leftovers_(std::nullopt);
  rules_.begin_pause(BootClock::now() + pause);
  return supervise(environment);
}

JobEnd Supervisor::supervise(const std::vector<std::string>& environment) {
  environment_ = &environment;
  while (!rules_.over()) round();
  environment_ = nullptr;
  return rules_.end();
}

void Supervisor::start_guardian() {
  const auto ends = make_channels(next_);
  if (ends && starter_ && starter_->start(*ends)) return;
  next_ = {};
  act(rules_.message_received({MessageType::ready, ends ? -ECHILD : -EMFILE}, moment_));
}

// The guardian of the attempt before has to end before the gate opens: it would take dblock's death for the
// time to release the lock. Until then it is the one to do so.
void Supervisor::adopt_guardian() {
  Message ready{MessageType::ready, -ECHILD};
  const Received received = receive_record(next_.socket, ready);
  if (received == Received::nothing) return;
  Channels ours = std::exchange(next_, {});
  if (received == Received::message) {
    dismiss_guardian();
    await_guardian();
    dismissed_ = false;
    socket_ = std::move(ours.socket);
    gate_ = std::move(ours.gate);
    guardian_ = ready.detail;
    siginfo_t info{};  // it may have ended, and been waited for, already
    guardian_alive_ = ::waitid(P_PID, static_cast<id_t>(guardian_), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
    job_ = ready.value;
  }
  read_signals();
  // The last look at the deadline before the gate opens must use the present time.
  moment_ = {BootClock::now(), shared_->deadline()};
  if (!rules_.over()) act(rules_.message_received(ready, moment_));
}

// Priority: the guardian's messages (it sees the deadline and the job's end first) > signals > the guardian's
// death > the loss of the lease > the parent's end > dblock's own times.
void Supervisor::round() {
  await_event();
  moment_ = {BootClock::now(), shared_->deadline()};
  read_messages();
  if (next_.socket) adopt_guardian();
  if (rules_.over()) return;
  read_signals();
  if (rules_.over()) return;
  if (!guardian_alive_ && rules_.between()) socket_.reset();  // nothing was left to guard
  if (!guardian_alive_ && !rules_.between()) {
    read_messages();  // the guardian's last ones
    if (!rules_.over()) act(rules_.guardian_died(moment_));
    return;
  }
  // Both events are reported once only: a descriptor that stays readable would keep poll() from sleeping.
  if (lost_event_.raised()) {
    lost_event_.clear();
    act(rules_.lease_lost(lost_how_.load(), moment_));
  }
  if (parent_ended()) {
    parent_.reset();
    parent_gone_ = false;
    log::info("the process that started dblock has ended; stopping the job");
    act(rules_.parent_ended(parent_pid_, moment_));
  }
  act(rules_.time_passed(moment_));
}

void Supervisor::await_event() {
  if (const auto at = rules_.wake_at(shared_->deadline())) {
    timer_.arm(*at);
  } else {
    timer_.disarm();
  }
  std::array<pollfd, 6> fds{pollfd{socket_.get(), POLLIN, 0}, pollfd{signals_.fd(), POLLIN, 0},
                            pollfd{timer_.fd(), POLLIN, 0},   pollfd{lost_event_.fd(), POLLIN, 0},
                            pollfd{parent_.get(), POLLIN, 0}, pollfd{next_.socket.get(), POLLIN, 0}};
  ::poll(fds.data(), fds.size(), -1);
}

void Supervisor::read_messages() {
  Message message;
  while (!rules_.over() && receive_record(socket_, message) == Received::message) {
    if (message.type == MessageType::ready) job_ = message.value;
    // Signals are reported before these two messages (see message_received() in supervisor_rules.hpp).
    if (message.type == MessageType::ready || message.type == MessageType::job_exited) read_signals();
    // The last look at the deadline before the gate opens must use the present time.
    if (message.type == MessageType::ready) moment_ = {BootClock::now(), shared_->deadline()};
    act(rules_.message_received(message, moment_));
  }
}

void Supervisor::read_signals() {
  signalfd_siginfo info{};
  while (read_signal(info)) {
    if (info.ssi_signo == SIGCHLD) {
      check_guardian();
      continue;
    }
    const Stop stop = stop_by_signal(info);
    const bool raw = stop.signal == SIGINT && stop.from_terminal && terminal_is_raw();
    act(rules_.signalled(stop, raw, moment_));
  }
}

bool Supervisor::terminal_is_raw() const {
  termios mode{};
  return ::tcgetattr(terminal_.get(), &mode) == 0 && (mode.c_lflag & ICANON) == 0;
}

void Supervisor::act(const SupervisorRules::Actions& actions) {
  for (const SupervisorAction& action : actions) carry_out(action);
}

void Supervisor::carry_out(const SupervisorAction& action) {
  switch (action.kind) {
    case SupervisorAction::Kind::tell:
      send_record(socket_, action.message);
      break;
    case SupervisorAction::Kind::open_gate:
      process::open_gate(gate_, *environment_);
      gate_.reset();
      break;
    case SupervisorAction::Kind::tell_start:
      if (const auto callback = std::exchange(on_start_, nullptr)) callback();
      break;
    case SupervisorAction::Kind::start_guardian:
      start_guardian();
      break;
    case SupervisorAction::Kind::tell_loss:
      if (const auto callback = std::exchange(on_loss_, nullptr)) callback();
      break;
    case SupervisorAction::Kind::tell_overdue:
      on_overdue_();
      break;
    case SupervisorAction::Kind::kill_tree:
      kill_tree();
      break;
    case SupervisorAction::Kind::look_at_terminal: {
      const bool ours = terminal_ && ::tcgetpgrp(terminal_.get()) == ::getpgrp();
      act(rules_.terminal_seen(ours, moment_));
      break;
    }
    case SupervisorAction::Kind::say_leftovers:
      say_leftovers();
      break;
    case SupervisorAction::Kind::say_stopping:
      say_stopping();
      break;
    case SupervisorAction::Kind::say_continued:
      log::warning(
          "the job was stopped (Ctrl-Z or SIGSTOP) and has been continued: a job under a lock must not "
          "pause");
      break;
  }
}

void Supervisor::say_leftovers() const {
  constexpr std::size_t k_most = 5;
  const bool all_awaited = spec_.leftovers != Leftovers::automatic || rules_.end().stop;
  const pid_t session = ::getsid(0);
  std::string names;
  std::size_t count = 0;
  for (const ProcessInfo& process : tree_->descendants()) {
    if (process.pid == guardian_ || process.ended()) continue;
    if (starter_ && process.pid == starter_->pid()) continue;
    if (!all_awaited && process.session != session) continue;
    if (process.name == k_keeper_name || process.name == k_hooks_name) continue;
    if (++count > k_most) continue;
    names += (names.empty() ? "" : ", ") + process.display();
  }
  if (count == 0) return;
  if (on_leftovers_) on_leftovers_(rules_.job_ended_at());
  if (count > k_most) names += " and " + std::to_string(count - k_most) + " more";
  const char* const change =
      rules_.end().stop ? ""
                        : "; --leftovers kill stops such processes, --leftovers leave does not wait for them";
  log::info("the job has ended; the lock is kept until what the job left running has ended, too: " + names +
            change);
}

void Supervisor::say_stopping() const {
  const Nanos left = std::max(Nanos{0}, *rules_.grace_ends_at() - BootClock::now());
  const char* const option = Stop::keeps_lease(rules_.end().stop.reason) ? " (--stop-grace)" : "";
  log::info("the job was asked to end and still runs; it is killed in " +
            format_age(std::chrono::duration_cast<Micros>(left)) + " at the latest" + option);
}

void Supervisor::kill_tree() {
  // A guardian that is merely late is killed last: if dblock is killed in the middle of this, the guardian is
  // left to stop the rest and to release the lock.
  if (guardian_alive_) {
    tree_->kill_all_except(guardian_);
    // From here on no process releases the lock if dblock dies: the lease would have to expire.
    log::warning(
        "the guardian process did not stop the job in time (an overloaded machine, or was it "
        "frozen?); dblock stopped the job itself");
    ::kill(guardian_, SIGKILL);
  }
  const bool dead = tree_->kill_all([this](pid_t pid, int status) { waited_for(pid, status); });
  read_messages();  // if the guardian has waited for the job, only its message tells how the job ended
  rules_.tree_killed(dead);
}

}  // namespace dblock::process
