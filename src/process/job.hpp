// One job: what is to be run, why it was stopped, and how it ended. Plain values.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"

namespace dblock::process {

// What becomes of descendants that outlive the job.
enum class Leftovers {
  automatic,  // wait for those in the job's session, leave those in a session of their own
  wait,       // wait for all
  kill,       // stop all
  leave,      // leave all
};

struct JobSpec {
  std::string executable;         // from find_command()
  std::vector<std::string> argv;  // argv[0] included
  int first_signal = SIGTERM;
  Nanos kill_grace{0};  // from the first signal to SIGKILL where the lease is being lost
  // The same where dblock is asked to stop the job, and the lease is renewed meanwhile. Default: kill_grace.
  std::optional<Nanos> stop_grace{};
  Nanos slack{0};  // from SIGKILL to the deadline
  Leftovers leftovers = Leftovers::automatic;
  bool tell_start = false;  // dblock is told as soon as the program has been executed
  bool retried = false;     // Supervisor::run_again() may follow
};

// A decoded wait status.
struct ExitStatus {
  bool signalled = false;
  int number = 0;  // exit code 0-255, or the signal that killed the process

  [[nodiscard]] static ExitStatus from_wait(int wait_status) {
    if (WIFSIGNALED(wait_status)) return {true, WTERMSIG(wait_status)};
    return {false, WEXITSTATUS(wait_status)};
  }
  [[nodiscard]] bool success() const { return !signalled && number == 0; }
  bool operator==(const ExitStatus&) const = default;
};

// Why dblock stopped the job, or gave up a wait; and what the stop did. As a bool: false if there was no
// stop.
struct Stop {
  enum class Reason {
    none,
    signal,      // sent to dblock: TERM, INT or HUP, or another that ends a wait
    parent,      // --with-parent: the process that started dblock has ended
    self_fence,  // the lease could not be renewed in time
    lost,        // the lease is not ours any more
    revoked,     // like `lost`: ended by force, by whom this run has allowed it
    max_runtime,
    guardian,  // the guardian died or did not answer
  };
  Reason reason = Reason::none;
  int signal = 0;              // the job's first signal; with Reason::signal the one that was sent to dblock
  bool from_terminal = false;  // Reason::signal: the terminal sent the signal
  pid_t pid = 0;               // the signal's sender, 0 if unknown; with Reason::parent the ended process
  uid_t uid = 0;               // of the sender
  bool killed = false;  // the job itself got SIGKILL: it did not end within its grace, or the guardian died
  bool late = false;    // the job had ended by itself: the stop was for its leftovers
  Nanos took{0};        // from the first signal to the job's end

  explicit operator bool() const { return reason != Reason::none; }

  // The lease goes on being renewed while the job is stopped for `reason`.
  [[nodiscard]] static constexpr bool keeps_lease(Reason reason) {
    return reason == Reason::signal || reason == Reason::parent || reason == Reason::max_runtime;
  }
  // The lease was not renewed in time, or ended before the stop did: it is lost, whatever was asked for.
  void fence() {
    if (reason == Reason::none || keeps_lease(reason)) reason = Reason::self_fence;
  }
};

struct JobEnd {
  bool started = false;              // its program was executed, or may have been
  std::optional<ExitStatus> status;  // none: the job never ran, or its status is not known
  Stop stop;
  bool ctrl_c = false;     // the terminal's INT has stopped the job, or came while it was stopped
  int exec_errno = 0;      // why the program could not be executed; 0: it was
  int fork_errno = 0;      // why the guardian could make no process for the job; 0: it did
  bool tree_dead = false;  // every descendant is gone (or was left behind on purpose)
  std::vector<std::string> left_behind;  // "name (pid)" of daemons that --leftovers left
  Nanos leftovers_took{0};               // from the job's end, or a later stop, to the end of its leftovers
  bool leftovers_killed = false;         // they did not end within the grace
  int last_signal = 0;                   // the last one that came to dblock
  // Of a further attempt that was not started; all else is then as of the attempt before.
  bool stopped_between = false;  // `stop` came before it began
  int not_again_errno = 0;       // or why it could not be started

  // The job ran and failed, nobody wanted that, and nothing is left of it.
  [[nodiscard]] bool failed_by_itself() const {
    if (stop || ctrl_c || not_again_errno != 0 || exec_errno != 0) return false;
    if (!started || !tree_dead || !status || status->success()) return false;
    return !status->signalled || status->number != last_signal;
  }
};

// What the guardian knows of a job whose dblock has died.
struct JobAtDeath {
  // How the job ended, so far as it concerns the lock; nullopt: dblock died before the whole tree had ended.
  std::optional<JobEnd> end;
  std::optional<BootTime> guarded_since;  // when dblock had the lock at the latest; nullopt: no job started
};

}  // namespace dblock::process
