// The guardian's decisions: when to signal the job and when to kill it, when its tree counts as dead, and
// when to release the lock in dblock's place.
//
// Entirely passive. guardian.cpp reports each event when it happens, carries out the actions that come back,
// in their order, and only then reports the next event. No system call, no clock, no process: all of it comes
// in as values, so tests/unit/process_guardian_rules_test.cpp decides each case without any.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "base/clock.hpp"
#include "process/guardian/stop_plan.hpp"
#include "process/job.hpp"
#include "process/messages.hpp"
#include "process/process_info.hpp"

namespace dblock::process {

struct GuardianAction {
  enum class Kind {
    tell,              // send `message` to dblock
    signal_job,        // send `signal` to the job alone
    stop_job,          // send `signal` to the job or its group, then continue what is stopped there
    stop_leftovers,    // send `signal` to all descendants that did not get it with the job's group
    continue_job,      // continue the job and its group
    continue_stopped,  // do continue_job if any descendant is stopped
    look,              // list the descendants, then call tree_seen()
    kill_tree,         // kill all descendants, then call tree_killed(); report a job's end on the way
    kill_job,          // kill the job, which is still behind its gate
    release,           // release the lock in dblock's place
    end,               // exit the guardian
  };
  Kind kind{};
  int signal = 0;
  Message message{};
};

class GuardianRules {
 public:
  using Actions = std::vector<GuardianAction>;

  // `session`: the session of dblock's caller, in which the job begins.
  GuardianRules(const JobSpec& spec, pid_t session);

  // The events, in the order in which one round reports them. The time comes first: after a suspend the
  // deadline's passing and the job's end may both be new, and a job that outlived its deadline must not count
  // as ended in time.
  Actions time_passed(const Moment& moment);
  Actions message_received(const Message& message, BootTime now);  // dblock has sent `message`
  Actions dblock_died();
  [[nodiscard]] Actions job_executed() const;
  Actions job_stopped(int signal);
  Actions job_ended(int wait_status, int exec_errno);
  // Every child that has ended was waited for. `none_left`: the wait said ECHILD, the only proof that all
  // descendants are dead.
  Actions children_waited_for(bool none_left, BootTime now);

  // The start, and the results of actions. `job`: the job's pid, or the negative errno of a failed fork.
  Actions job_forked(pid_t job, pid_t guardian);
  Actions tree_seen(const std::vector<ProcessInfo>& descendants);
  Actions tree_killed(bool dead);

  // True while the job or its leftovers run, and may have to be stopped.
  [[nodiscard]] bool watching() const { return phase_ == Phase::running || phase_ == Phase::leftovers; }
  [[nodiscard]] bool job_runs() const { return phase_ == Phase::running; }
  // When the next round is due if no event comes before; nullopt: not until an event.
  [[nodiscard]] std::optional<BootTime> wake_at(BootTime now) const;
  // For the release in dblock's place.
  [[nodiscard]] JobAtDeath at_death() const;

 private:
  enum class Phase { no_job, running, leftovers, finished };

  void begin_stop(Stop::Reason why, int signal, BootTime now, Actions& actions);
  [[nodiscard]] bool looks_for_leftovers() const;
  [[nodiscard]] bool session_members_may_remain(const std::vector<ProcessInfo>& descendants);
  void note_stop(Stop::Reason reason);
  void note_fence();
  void finish(bool tree_dead, Actions& actions);
  void release_and_end(Actions& actions) const;

  Leftovers leftovers_;
  int first_signal_;
  pid_t session_;
  StopPlan plan_;
  Phase phase_ = Phase::no_job;
  bool dblock_died_ = false;
  bool job_killed_ = false;
  bool leftovers_killed_ = false;
  bool fenced_ = false;
  JobEnd end_;             // as dblock notes it too
  bool all_over_ = false;  // `end_` was complete before dblock's death
  std::optional<BootTime> guarded_since_;
  Nanos look_again_in_;
  int empty_looks_ = 0;
  std::vector<pid_t> ended_by_last_look_;
  std::optional<BootTime> continue_until_;
  BootTime continue_at_{};
};

}  // namespace dblock::process
