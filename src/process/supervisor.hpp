// Supervision of one job: dblock -> guardian -> job. Knows nothing of leases: its caller
// sets a deadline and moves it forwards, and the supervisor guarantees that the job's tree is dead before the
// deadline.
//
// start() -> await() until the lock is granted -> set_deadline() -> run_job() -> release the lock ->
// dismiss_guardian(). supervisor_start.cpp has what comes before and after the job, supervisor.cpp the loop
// while the job runs; supervisor_rules.hpp makes the decisions. For one thread, except for the functions
// called thread-safe.
#pragma once

#include <sys/signalfd.h>
#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "process/guardian/guardian.hpp"
#include "process/guardian/guardian_starter.hpp"
#include "process/job.hpp"
#include "process/messages.hpp"
#include "process/signals.hpp"
#include "process/supervisor_rules.hpp"
#include "process/tree.hpp"

namespace dblock::process {

class Supervisor {
 public:
  // Blocks the signals that dblock handles (signals.hpp), becomes child subreaper and forks the guardian,
  // which forks the job behind a closed gate. Call before any thread or connection exists. `after_death` runs
  // in the guardian once dblock has died (not merely frozen) and the job's tree is confirmed dead, if the
  // release was armed by then. `with_parent`: treat the end of the process that started dblock as SIGTERM.
  [[nodiscard]] static Result<std::unique_ptr<Supervisor>> start(const JobSpec& spec, bool with_parent,
                                                                 AfterDeath after_death);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  ~Supervisor();

  // Thread-safe. From now on a lease may exist, so that dblock's death makes the guardian run `after_death`.
  void arm_release() { shared_->arm_release(); }
  // Thread-safe. The lease is proved until `deadline`. Never moves it backwards.
  void set_deadline(BootTime deadline) { shared_->extend_deadline(deadline); }
  // Thread-safe. The lease is lost for certain: stop the job now. `how`: Stop::Reason::lost, or revoked where
  // this run has allowed that, so that its job has its grace as if it were asked to stop.
  void stop_lost(Stop::Reason how) {
    lost_how_.store(how);
    lost_event_.raise();
  }

  // Blocks until `wake` is raised, before the job starts or after its end. Returns no Stop then. Returns a
  // Stop, which tells the reason, when a signal comes that ends a wait, the parent has ended, or the guardian
  // is gone. Signals that were ignored when dblock started stay ignored. With `until` it returns at that time
  // as if woken. Calls `on_silence` once, when that takes longer than k_silence.
  [[nodiscard]] Stop await(const WakeEvent& wake, std::optional<BootTime> until = {},
                           const std::function<void()>& on_silence = {});

  // run_job() calls `callback` once, as soon as the job's program has been executed, if JobSpec::tell_start
  // asks for it. `callback` must not block.
  void on_start(std::function<void()> callback) { on_start_ = std::move(callback); }

  // run_job() calls `callback` once, as soon as it stops the job because the lease is lost. `callback` must
  // not block.
  void on_loss(std::function<void()> callback) { on_loss_ = std::move(callback); }

  // run_job() calls `callback` once, when the job still runs `expected` after its start. `callback` must not
  // block.
  void on_overdue(Nanos expected, std::function<void()> callback) {
    rules_.set_expected(expected);
    on_overdue_ = std::move(callback);
  }

  // run_job() calls `callback` with the time of the job's end each time it announces its wait for what the
  // job left running, and run_again() with nullopt. `callback` must not block.
  void on_leftovers(std::function<void(std::optional<BootTime> job_ended_at)> callback) {
    on_leftovers_ = std::move(callback);
  }

  // Opens the gate, and supervises until the job and its leftovers are dealt with. Does not open the gate
  // when the deadline leaves no time for the job. `environment`: NAME=VALUE entries that replace or complete
  // the inherited ones. `max_runtime` counts from the job's start.
  [[nodiscard]] JobEnd run_job(const std::vector<std::string>& environment, std::optional<Nanos> max_runtime);

  // After an end that JobEnd::failed_by_itself(): waits for `pause`, and then does as run_job(), with another
  // guardian. What would stop a job ends the pause at once; JobEnd tells that, and when the job could not be
  // started again. `max_runtime` of run_job() counts on. REQUIRES: JobSpec::retried.
  [[nodiscard]] JobEnd run_again(const std::vector<std::string>& environment, Nanos pause);

  // Dismisses the guardian: the lock is released or was never granted, so nothing is left to do if dblock
  // dies. Does not wait for the guardian's exit; the destructor does, so that a run leaves no process behind.
  void dismiss_guardian();

  Supervisor(const JobSpec& spec, SharedPage shared);  // for start()

 private:
  // dblock's ends of the channels to a guardian and its job.
  struct Channels {
    UniqueFd socket;
    UniqueFd gate;
  };

  // supervisor_start.cpp
  Result<GuardianEnds> make_channels(Channels& ours) const;
  Result<void> fork_guardian(bool with_parent, AfterDeath after_death);
  Result<void> watch_parent();
  [[nodiscard]] bool parent_ended() const;
  [[nodiscard]] bool read_signal(signalfd_siginfo& info) const;
  [[nodiscard]] Stop stop_by_signal(const signalfd_siginfo& info) const;
  void check_guardian();
  void waited_for(pid_t pid, int wait_status);
  void await_guardian();

  // supervisor.cpp
  JobEnd supervise(const std::vector<std::string>& environment);
  void start_guardian();
  void adopt_guardian();
  void round();
  void await_event();
  void read_messages();
  void read_signals();
  [[nodiscard]] bool terminal_is_raw() const;
  void act(const SupervisorRules::Actions& actions);
  void carry_out(const SupervisorAction& action);
  void say_leftovers() const;
  void say_stopping() const;
  void kill_tree();

  JobSpec spec_;
  Signals signals_;
  SharedPage shared_;
  SupervisorRules rules_;
  std::optional<GuardianStarter> starter_;  // with JobSpec::retried, while it lives
  UniqueFd socket_;                         // to the guardian
  UniqueFd gate_;
  Channels next_;  // to a guardian that has been asked for and has not told that it is ready
  UniqueFd terminal_;
  UniqueFd parent_;
  pid_t parent_pid_ = 0;
  bool parent_gone_ = false;
  DeadlineTimer timer_;
  WakeEvent lost_event_;
  std::atomic<Stop::Reason> lost_how_ = Stop::Reason::lost;
  std::optional<Tree> tree_;  // from fork_guardian() on
  pid_t guardian_ = -1;
  bool guardian_alive_ = false;
  bool dismissed_ = false;

  // While the job runs:
  const std::vector<std::string>* environment_ = nullptr;
  std::function<void()> on_start_;
  std::function<void()> on_loss_;
  std::function<void()> on_overdue_;
  std::function<void(std::optional<BootTime>)> on_leftovers_;
  Moment moment_;  // of this round
  pid_t job_ = -1;
};

}  // namespace dblock::process
