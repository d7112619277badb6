// dblock's decisions while it supervises a job: whether the job may start, when and why dblock tells the
// guardian to stop the job, and when dblock stops the tree in the guardian's place.
//
// Entirely passive. supervisor.cpp reports each event when it happens, carries out the actions that come
// back, in their order, and only then reports the next event. No system call, no clock, no process: all of it
// comes in as values, so tests/unit/process_supervisor_rules_test.cpp decides each case without any.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "base/clock.hpp"
#include "process/guardian/stop_plan.hpp"
#include "process/job.hpp"
#include "process/messages.hpp"

namespace dblock::process {

struct SupervisorAction {
  enum class Kind {
    tell,              // send `message` to the guardian
    open_gate,         // let the job start
    tell_start,        // call the function given to on_start(), unless that was done
    start_guardian,    // have a guardian with a job behind its gate started, for a further attempt
    tell_loss,         // call the function given to on_loss()
    tell_overdue,      // call the function given to on_overdue()
    kill_tree,         // kill the tree in the guardian's place, then call tree_killed()
    look_at_terminal,  // find out whose the terminal's foreground is, then call terminal_seen()
    say_continued,     // warn that the job was stopped, which a lock does not allow, and was continued
    say_leftovers,     // name the processes that are waited for after the job's end
    say_stopping,      // tell that the job was asked to end, and until when it may take
  };
  Kind kind{};
  Message message{};
};

class SupervisorRules {
 public:
  using Actions = std::vector<SupervisorAction>;

  explicit SupervisorRules(const JobSpec& spec) : first_signal_(spec.first_signal), plan_(spec) {}

  // After the end of an attempt: a further one is to begin at `begins`. Until it does, no job runs, and what
  // would stop a job ends the run at once. Times that count from the job's start go on.
  void begin_pause(BootTime begins);
  // True from begin_pause() until the gate opens.
  [[nodiscard]] bool between() const { return between_; }

  // `max_runtime` counts from the job's first start.
  void set_max_runtime(std::optional<Nanos> max_runtime) { max_runtime_ = max_runtime; }
  // A job that still runs `expected` after its start is overdue; this changes nothing for the job.
  void set_expected(Nanos expected) { expected_ = expected; }

  // The events, in the order in which one round reports them. The guardian's messages come first: the
  // guardian acts on the same deadline earlier than dblock. Signals that have come are reported before
  // message_received(ready), since they decide whether the job starts, and before
  // message_received(job_exited), since Ctrl-C may have ended the job.
  Actions message_received(const Message& message, const Moment& moment);  // the guardian has sent `message`
  // `signal.from_terminal`: the job has got the signal too. `raw`: the terminal passes keys on one by one.
  Actions signalled(const Stop& signal, bool raw, const Moment& moment);
  Actions guardian_died(const Moment& moment);
  Actions lease_lost(Stop::Reason how, const Moment& moment);  // `how`: lost or revoked
  Actions parent_ended(pid_t parent, const Moment& moment);
  Actions time_passed(const Moment& moment);

  // The results of actions. `ours`: dblock and the job are in the terminal's foreground.
  Actions terminal_seen(bool ours, const Moment& moment);
  void tree_killed(bool dead);
  // The guardian is dead, so dblock has adopted the job and waited for it.
  void job_waited_for(int wait_status);

  // When time_passed() is due if no event comes before; nullopt: not until an event.
  [[nodiscard]] std::optional<BootTime> wake_at(std::optional<BootTime> deadline);
  // When a stop that has begun ends with SIGKILL at the latest.
  [[nodiscard]] std::optional<BootTime> grace_ends_at() const { return plan_.grace_ends_at(); }
  // When the job ended whose leftovers are waited for.
  [[nodiscard]] std::optional<BootTime> job_ended_at() const { return job_ended_at_; }
  [[nodiscard]] bool over() const { return over_; }
  [[nodiscard]] const JobEnd& end() const { return end_; }

 private:
  Actions job_ready(const Message& message, const Moment& moment);
  Actions job_stopped(int signal, BootTime now);
  Actions job_exited(const Message& message, BootTime now);
  void leftovers_ended(bool killed, BootTime now);
  Actions stop(const Stop& why, int signal_for_job, BootTime now);
  void begin_stop(Stop::Reason why, BootTime now);
  Actions act_for_guardian(const Moment& moment);
  void note_self_fence();
  Actions time_passed_between(const Moment& moment);
  void finish();

  int first_signal_;
  StopPlan plan_;
  std::optional<Nanos> max_runtime_;
  std::optional<Nanos> expected_;
  std::optional<BootTime> runtime_ends_;
  std::optional<BootTime> overdue_at_;
  std::optional<BootTime> look_at_terminal_;
  std::optional<BootTime> job_ended_at_;
  std::optional<BootTime> say_wait_at_;
  std::optional<BootTime> begins_at_;     // the next attempt
  std::optional<BootTime> begins_until_;  // or the run goes on without it
  std::optional<JobEnd> before_;          // the end of the attempt before this one
  bool between_ = false;
  bool said_continued_ = false;
  bool over_ = false;
  JobEnd end_;
};

}  // namespace dblock::process
