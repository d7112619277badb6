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
  automatic,  // wait for those in the job's session, leave those that made one of their own
  wait,       // wait for all
  kill,       // stop all
  leave,      // leave all
};

struct JobSpec {
  std::string executable;         // from find_command()
  std::vector<std::string> argv;  // argv[0] included
  int first_signal = SIGTERM;
  Nanos kill_grace{0};  // first signal to SIGKILL
  Nanos slack{0};       // SIGKILL to the deadline
  Leftovers leftovers = Leftovers::automatic;
};

// A wait status, decoded once and for all.
struct ExitStatus {
  bool signalled = false;
  int number = 0;  // exit code 0-255, or the signal that killed it

  [[nodiscard]] static ExitStatus from_wait(int wait_status) {
    if (WIFSIGNALED(wait_status)) return {true, WTERMSIG(wait_status)};
    return {false, WEXITSTATUS(wait_status)};
  }
  [[nodiscard]] bool success() const { return !signalled && number == 0; }
  bool operator==(const ExitStatus&) const = default;
};

// Why dblock stopped the job, or gave up a wait; and what the stop did. False where nothing was stopped.
struct Stop {
  enum class Reason {
    none,
    signal,    // sent to dblock: TERM, INT or HUP, or another that ends a wait
    parent,    // --with-parent: the process that started dblock has ended
    deadline,  // the lease could not be renewed in time (self-fence)
    lost,      // told to by stop_lost()
    revoked,   // the same, where the caller knows that the lease was ended by force
    max_runtime,
    guardian,  // the guardian died or would not answer
  };
  Reason reason = Reason::none;
  int signal = 0;         // the first one the job gets; of `signal` the one that was sent to dblock
  bool terminal = false;  // `signal`: the terminal made it
  pid_t pid = 0;          // its sender, where the kernel tells it; of `parent` the process that has ended
  uid_t uid = 0;          // of the sender
  bool killed = false;    // the job itself, by SIGKILL, because it did not end in its grace
  bool late = false;      // the job had ended by itself: the stop was for its leftovers
  Nanos took{0};          // from the first signal to the job's end

  explicit operator bool() const { return reason != Reason::none; }
};

struct JobEnd {
  bool started = false;              // its program was executed, or may have been
  std::optional<ExitStatus> status;  // none: the job never ran, or its status could not be had
  Stop stop;
  int exec_errno = 0;                    // the program could not be executed after all
  int fork_errno = 0;                    // the guardian could make no process for it
  bool tree_dead = false;                // every descendant is gone (or was left behind on purpose)
  std::vector<std::string> left_behind;  // "name (pid)" of daemons that --leftovers left
};

}  // namespace dblock::process
