#include "process/guardian/guardian_rules.hpp"

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>

#include "process/detached.hpp"
#include "process/hooks.hpp"

namespace dblock::process {
namespace {

using namespace std::chrono_literals;

// No event tells that a descendant has left the job's session. So the guardian polls, often at first and ever
// more rarely later.
constexpr Nanos k_first_leftover_poll = 10ms;
constexpr Nanos k_last_leftover_poll = 1s;
// How many looks in a row must find no process of the job's session. One look may miss a process while others
// come and go.
constexpr int k_empty_looks_needed = 3;
// How long after a Ctrl-Z the guardian continues stopped members of the foreground group. A member may stop
// late: a shell between vfork() and exec cannot be stopped, but its child can.
constexpr Nanos k_continue_period = 1s;
constexpr Nanos k_continue_poll = 50ms;

using Do = GuardianAction::Kind;

GuardianAction tell_dblock(const Message& message) {
  return {.kind = Do::tell, .message = message};
}

}  // namespace

GuardianRules::GuardianRules(const JobSpec& spec, pid_t session)
    : leftovers_(spec.leftovers),
      first_signal_(spec.first_signal),
      session_(session),
      plan_(spec),
      look_again_in_(k_first_leftover_poll) {}

GuardianRules::Actions GuardianRules::job_forked(pid_t job, pid_t guardian) {
  if (job > 0) phase_ = Phase::running;
  return {tell_dblock({MessageType::ready, job, guardian})};
}

GuardianRules::Actions GuardianRules::time_passed(const Moment& moment) {
  if (!watching()) return {};
  Actions actions;
  plan_.set_deadline(moment.deadline);
  if (plan_.fence_due(moment.now) && !plan_.stopping()) {
    note_fence();
    begin_stop(Stop::Reason::self_fence, first_signal_, moment.now, actions);
    actions.push_back(tell_dblock({MessageType::fencing}));
  }
  if (plan_.kill_due(moment.now)) {
    if (plan_.fence_kill_due(moment.now)) note_fence();
    job_killed_ = phase_ == Phase::running;
    leftovers_killed_ = phase_ == Phase::leftovers;
    actions.push_back({Do::kill_tree});
    return actions;
  }
  if (continue_until_ && (phase_ != Phase::running || moment.now >= *continue_until_))
    continue_until_.reset();
  if (continue_until_ && moment.now >= continue_at_) {
    continue_at_ = moment.now + k_continue_poll;
    actions.push_back({Do::continue_stopped});
  }
  return actions;
}

std::optional<BootTime> GuardianRules::wake_at(BootTime now) const {
  if (!watching()) return std::nullopt;
  auto at = plan_.next_change();
  if (phase_ == Phase::leftovers && looks_for_leftovers()) at = earlier(at, now + look_again_in_);
  if (continue_until_) at = earlier(at, continue_at_);
  return at;
}

// A stop that has begun is never taken back, even if a late renewal moves the deadline: the job has been told
// to end. It gets no second signal either, but a lease that is lost meanwhile shortens its grace.
void GuardianRules::begin_stop(Stop::Reason why, int signal, BootTime now, Actions& actions) {
  const bool first = !plan_.stopping();
  plan_.begin_stop(now, why);
  if (first) actions.push_back({phase_ == Phase::running ? Do::stop_job : Do::stop_leftovers, signal});
}

GuardianRules::Actions GuardianRules::message_received(const Message& message, BootTime now) {
  const bool running = phase_ == Phase::running;
  Actions actions;
  switch (message.type) {
    case MessageType::forward:
      if (running) actions.push_back({Do::signal_job, message.value});
      break;
    case MessageType::guard:  // also wakes the guardian, which then looks at the deadline
      guarded_since_ = now;
      break;
    case MessageType::stop: {
      const auto why = static_cast<Stop::Reason>(message.detail);
      note_stop(why);
      end_.ctrl_c = end_.ctrl_c || message.value == k_by_ctrl_c;
      if (watching()) begin_stop(why, message.value, now, actions);
      break;
    }
    case MessageType::continue_job:
      if (running) actions.push_back({Do::continue_job});
      break;
    case MessageType::continue_group:
      continue_until_ = now + k_continue_period;
      continue_at_ = now;
      break;
    case MessageType::dismiss:
      // The run is over. A job that is still behind its gate ends with the guardian.
      if (running) actions.push_back({Do::kill_job});
      actions.push_back({Do::end});
      break;
    default:
      break;
  }
  return actions;
}

GuardianRules::Actions GuardianRules::job_executed() const {
  if (phase_ != Phase::running) return {};
  return {tell_dblock({MessageType::job_started})};
}

// A job stopped by SIGTTIN or SIGTTOU waits for the terminal, so it stays stopped. A job stopped by any other
// signal is continued: it would hold the lock without working.
GuardianRules::Actions GuardianRules::job_stopped(int signal) {
  if (phase_ != Phase::running) return {};
  Actions actions;
  const bool for_terminal = signal == SIGTTIN || signal == SIGTTOU;
  if (!for_terminal || plan_.stopping()) actions.push_back({Do::continue_job});
  actions.push_back(tell_dblock({MessageType::job_stopped, signal}));
  return actions;
}

GuardianRules::Actions GuardianRules::job_ended(int wait_status, int exec_errno) {
  if (phase_ != Phase::running) return {};
  phase_ = Phase::leftovers;
  end_.started = exec_errno == 0;
  if (exec_errno == k_deadline_too_near) {
    note_stop(Stop::Reason::self_fence);
  } else {
    end_.status = ExitStatus::from_wait(wait_status);
    end_.exec_errno = exec_errno;
  }
  Actions actions{tell_dblock({MessageType::job_exited, wait_status, exec_errno})};
  if (plan_.stopping()) actions.push_back({Do::stop_leftovers, first_signal_});
  return actions;
}

GuardianRules::Actions GuardianRules::children_waited_for(bool none_left, BootTime now) {
  if (phase_ != Phase::leftovers) return {};
  Actions actions;
  if (none_left) {
    finish(true, actions);
  } else if (leftovers_ == Leftovers::kill) {
    begin_stop(Stop::Reason::none, first_signal_, now, actions);
  } else if (looks_for_leftovers()) {
    actions.push_back({Do::look});
  }
  return actions;
}

bool GuardianRules::looks_for_leftovers() const {
  return !plan_.stopping() && (leftovers_ == Leftovers::automatic || leftovers_ == Leftovers::leave);
}

GuardianRules::Actions GuardianRules::tree_seen(const std::vector<ProcessInfo>& descendants) {
  Actions actions;
  if (leftovers_ == Leftovers::automatic && session_members_may_remain(descendants)) return actions;
  for (const ProcessInfo& process : descendants) {
    // Keepers and hooks are not reported: a keeper ends with the process it watches, a hook at its time
    // limit.
    if (process.ended() || process.name == k_keeper_name || process.name == k_hooks_name) continue;
    actions.push_back(tell_dblock(Message::with_text(MessageType::left_behind, process.display())));
    end_.left_behind.push_back(process.display());
  }
  finish(true, actions);
  return actions;
}

// True while processes of the job's session may be left. One that has just ended still counts, since it may
// have left a child that this look has missed.
bool GuardianRules::session_members_may_remain(const std::vector<ProcessInfo>& descendants) {
  std::vector<pid_t> ended;
  bool some = false;
  for (const ProcessInfo& process : descendants) {
    if (process.session != session_) continue;
    const bool known_to_have_ended =
        process.ended() && std::ranges::find(ended_by_last_look_, process.pid) != ended_by_last_look_.end();
    if (process.ended()) ended.push_back(process.pid);
    if (!known_to_have_ended) some = true;
  }
  ended_by_last_look_ = std::move(ended);
  empty_looks_ = some ? 0 : empty_looks_ + 1;
  look_again_in_ = some ? std::min(look_again_in_ * 2, k_last_leftover_poll) : k_first_leftover_poll;
  return empty_looks_ < k_empty_looks_needed;
}

// dblock is dead, so nothing renews the lease: the guardian kills the tree at once. It releases the lock
// only when the tree is known to be dead.
GuardianRules::Actions GuardianRules::dblock_died() {
  dblock_died_ = true;
  Actions actions;
  if (phase_ == Phase::finished) {
    release_and_end(actions);
  } else {
    actions.push_back({Do::kill_tree});
  }
  return actions;
}

GuardianRules::Actions GuardianRules::tree_killed(bool dead) {
  Actions actions;
  finish(dead, actions);
  if (dblock_died_) release_and_end(actions);
  return actions;
}

// Only the first reason counts, as for dblock.
void GuardianRules::note_stop(Stop::Reason reason) {
  if (!end_.stop) end_.stop.reason = reason;
}

void GuardianRules::note_fence() {
  fenced_ = true;
  end_.stop.fence();
}

JobAtDeath GuardianRules::at_death() const {
  return {all_over_ ? std::optional(end_) : std::nullopt, guarded_since_};
}

void GuardianRules::finish(bool tree_dead, Actions& actions) {
  phase_ = Phase::finished;
  end_.tree_dead = tree_dead;
  all_over_ = !dblock_died_;
  const std::int32_t how = (job_killed_ ? k_job_killed : 0) | (fenced_ ? k_fenced : 0) |
                           (leftovers_killed_ ? k_leftovers_killed : 0);
  actions.push_back(tell_dblock({MessageType::done, tree_dead ? 1 : 0, how}));
}

void GuardianRules::release_and_end(Actions& actions) const {
  if (end_.tree_dead) actions.push_back({Do::release});
  actions.push_back({Do::end});
}

}  // namespace dblock::process
