#include "process/supervisor_rules.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <utility>

#include "process/signals.hpp"

namespace dblock::process {
namespace {

constexpr Nanos k_terminal_poll = std::chrono::milliseconds(200);
constexpr Nanos k_unmentioned = std::chrono::seconds(1);  // leftovers that end sooner are not mentioned
// Until a wait for the job's end is announced again.
constexpr Nanos k_announce_every = std::chrono::minutes(1);

SupervisorAction tell_guardian(MessageType type, int value = 0, int detail = 0) {
  return {.kind = SupervisorAction::Kind::tell, .message = {type, value, detail}};
}

}  // namespace

SupervisorRules::Actions SupervisorRules::message_received(const Message& message, const Moment& moment) {
  switch (message.type) {
    case MessageType::ready:
      return job_ready(message, moment);
    case MessageType::job_started:
      return {{SupervisorAction::Kind::tell_start}};
    case MessageType::job_stopped:
      return job_stopped(message.value, moment.now);
    case MessageType::job_exited:
      return job_exited(message, moment.now);
    case MessageType::fencing:
      note_self_fence();
      begin_stop(Stop::Reason::self_fence, moment.now);
      return {{SupervisorAction::Kind::tell_loss}};
    case MessageType::left_behind:
      end_.left_behind.emplace_back(message.text.data());
      break;
    case MessageType::done:
      end_.tree_dead = message.value != 0;
      if ((message.detail & k_fenced) != 0) note_self_fence();
      end_.stop.killed = (message.detail & k_job_killed) != 0;
      leftovers_ended((message.detail & k_leftovers_killed) != 0, moment.now);
      finish();
      break;
    default:
      break;
  }
  return {};
}

// The guardian and dblock now know the job, which is still behind the gate. I4: look at the deadline once
// more before the exec; when there is no time left even for an immediate stop, the job does not start.
SupervisorRules::Actions SupervisorRules::job_ready(const Message& message, const Moment& moment) {
  plan_.set_deadline(moment.deadline);
  if (message.value < 0) end_.fork_errno = -message.value;
  if (message.value > 0 && plan_.fence_due(moment.now)) note_self_fence();
  if (message.value < 0 || end_.stop) {
    end_.tree_dead = true;
    finish();
    return {};
  }
  end_.started = true;
  between_ = false;
  begins_until_.reset();
  if (max_runtime_ && !before_) runtime_ends_ = moment.now + *max_runtime_;
  if (expected_ && !before_) overdue_at_ = moment.now + *expected_;
  // `guard` goes out before the gate opens: a guardian that sleeps without a timer would let the job outlive
  // its lease.
  return {tell_guardian(MessageType::guard), {SupervisorAction::Kind::open_gate}};
}

// A short job may have ended before the guardian saw its start.
SupervisorRules::Actions SupervisorRules::job_exited(const Message& message, BootTime now) {
  look_at_terminal_.reset();
  end_.started = message.detail == 0;
  if (message.detail == k_deadline_too_near) {
    note_self_fence();
    return {};
  }
  if (plan_.stopping()) end_.stop.took = now - *plan_.stop_began_at();
  end_.status = ExitStatus::from_wait(message.value);
  end_.exec_errno = message.detail;
  job_ended_at_ = now;
  say_wait_at_ = now + k_silence;
  if (!end_.started) return {};
  return {{SupervisorAction::Kind::tell_start}};
}

void SupervisorRules::leftovers_ended(bool killed, BootTime now) {
  if (!job_ended_at_) return;
  BootTime begun = *job_ended_at_;
  if (const auto stop = plan_.stop_began_at()) begun = std::max(begun, *stop);
  const Nanos took = now - begun;
  if (!killed && took < k_unmentioned) return;
  end_.leftovers_took = took;
  end_.leftovers_killed = killed;
}

SupervisorRules::Actions SupervisorRules::job_stopped(int signal, BootTime now) {
  if (signal == SIGTTIN || signal == SIGTTOU) {
    // The job waits for the terminal. A shell's `fg` gives it the terminal, but continues only processes that
    // the shell saw stop.
    look_at_terminal_ = now + k_terminal_poll;
    return {};
  }
  if (std::exchange(said_continued_, true)) return {};
  return {{SupervisorAction::Kind::say_continued}};
}

SupervisorRules::Actions SupervisorRules::terminal_seen(bool ours, const Moment& moment) {
  if (ours) return {tell_guardian(MessageType::continue_job)};
  look_at_terminal_ = moment.now + k_terminal_poll;
  return {};
}

SupervisorRules::Actions SupervisorRules::signalled(const Stop& signal, bool raw, const Moment& moment) {
  const bool job_has_it = signal.from_terminal;
  if (between_) return ends_wait(signal.signal) ? stop(signal, signal.signal, moment.now) : Actions{};
  end_.last_signal = signal.signal;
  switch (signal.signal) {
    case SIGINT:
      // An interactive program at its prompt reads key by key, and treats Ctrl-C as one more key.
      if (job_has_it && raw) break;
      end_.ctrl_c = end_.ctrl_c || job_has_it;
      return stop(signal, job_has_it ? k_by_ctrl_c : SIGINT, moment.now);
    case SIGTERM:
    case SIGHUP:
      return stop(signal, signal.signal, moment.now);
    case SIGQUIT:
    case SIGUSR1:
    case SIGUSR2:
    case SIGWINCH:
      if (!job_has_it) return {tell_guardian(MessageType::forward, signal.signal)};
      break;
    case SIGTSTP:
      // The terminal's SIGTSTP has stopped every member of the foreground group that does not handle it. The
      // guardian sees only its own child stop, so dblock tells it.
      if (job_has_it) {
        Actions actions{tell_guardian(MessageType::continue_group)};
        std::ranges::copy(job_stopped(SIGTSTP, moment.now), std::back_inserter(actions));
        return actions;
      }
      break;
    default:
      break;  // TTIN, TTOU: meant for a job in the background, which shares dblock's group
  }
  return {};
}

SupervisorRules::Actions SupervisorRules::lease_lost(Stop::Reason how, const Moment& moment) {
  Actions actions = stop({.reason = how, .signal = first_signal_}, first_signal_, moment.now);
  actions.push_back({SupervisorAction::Kind::tell_loss});
  return actions;
}

SupervisorRules::Actions SupervisorRules::parent_ended(pid_t parent, const Moment& moment) {
  return stop({.reason = Stop::Reason::parent, .signal = SIGTERM, .pid = parent}, SIGTERM, moment.now);
}

SupervisorRules::Actions SupervisorRules::time_passed(const Moment& moment) {
  Actions actions;
  if (runtime_ends_ && moment.now >= *runtime_ends_) {
    runtime_ends_.reset();
    actions = stop({.reason = Stop::Reason::max_runtime, .signal = first_signal_}, first_signal_, moment.now);
  }
  if (overdue_at_ && !between_ && moment.now >= *overdue_at_) {
    overdue_at_.reset();
    if (!end_.stop) actions.push_back({SupervisorAction::Kind::tell_overdue});
  }
  if (look_at_terminal_ && moment.now >= *look_at_terminal_) {
    look_at_terminal_.reset();
    actions.push_back({SupervisorAction::Kind::look_at_terminal});
  }
  if (over_) return actions;
  if (between_) {
    std::ranges::copy(time_passed_between(moment), std::back_inserter(actions));
    return actions;
  }
  plan_.set_deadline(moment.deadline);
  const auto late = plan_.stop_in_place_at();
  if (late && moment.now >= *late) {
    std::ranges::copy(act_for_guardian(moment), std::back_inserter(actions));
  } else if (say_wait_at_ && moment.now >= *say_wait_at_) {
    say_wait_at_ = moment.now + k_announce_every;
    using enum SupervisorAction::Kind;
    actions.push_back({job_ended_at_ ? say_leftovers : say_stopping});
  }
  return actions;
}

std::optional<BootTime> SupervisorRules::wake_at(std::optional<BootTime> deadline) {
  plan_.set_deadline(deadline);
  std::optional<BootTime> at = between_ ? plan_.next_change() : plan_.stop_in_place_at();
  for (const auto& other : {runtime_ends_, between_ ? std::nullopt : overdue_at_, look_at_terminal_,
                            say_wait_at_, begins_at_, begins_until_}) {
    if (other) at = earlier(at, *other);
  }
  return at;
}

// Only the first reason counts: the guardian, too, begins one stop only. The guardian has to know each
// reason: it tells how much grace is left, and how the job ended in case dblock dies before it has recorded
// that.
SupervisorRules::Actions SupervisorRules::stop(const Stop& why, int signal_for_job, BootTime now) {
  if (!end_.stop) {
    end_.stop = why;
    end_.stop.late = end_.status.has_value();
  }
  if (between_) {
    finish();
  } else {
    begin_stop(why.reason, now);
  }
  return {tell_guardian(MessageType::stop, signal_for_job, static_cast<int>(why.reason))};
}

void SupervisorRules::begin_stop(Stop::Reason why, BootTime now) {
  if (!plan_.stopping()) say_wait_at_ = now + k_silence;
  plan_.begin_stop(now, why);
}

void SupervisorRules::note_self_fence() {
  if (!end_.stop) end_.stop.signal = first_signal_;
  end_.stop.fence();
}

SupervisorRules::Actions SupervisorRules::guardian_died(const Moment& moment) {
  plan_.set_deadline(moment.deadline);
  return act_for_guardian(moment);
}

// The guardian is dead, or did not stop the job in time. dblock stops the whole tree itself: as the next
// subreaper it adopts a dead guardian's tree.
SupervisorRules::Actions SupervisorRules::act_for_guardian(const Moment& moment) {
  Actions actions;
  if (!end_.stop) {
    const bool fenced = plan_.fence_due(moment.now);
    end_.stop = {.reason = fenced ? Stop::Reason::self_fence : Stop::Reason::guardian, .signal = SIGKILL};
  }
  if (plan_.fence_kill_due(moment.now)) end_.stop.fence();
  if (end_.stop.reason == Stop::Reason::self_fence) actions.push_back({SupervisorAction::Kind::tell_loss});
  end_.stop.killed = !end_.status;
  if (plan_.stopping()) end_.stop.took = moment.now - *plan_.stop_began_at();
  actions.push_back({SupervisorAction::Kind::kill_tree});
  return actions;
}

void SupervisorRules::tree_killed(bool dead) {
  end_.tree_dead = dead;
  finish();
}

void SupervisorRules::job_waited_for(int wait_status) {
  if (!end_.status) end_.status = ExitStatus::from_wait(wait_status);
}

}  // namespace dblock::process
