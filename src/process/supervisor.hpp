// Supervision of one job: dblock -> guardian -> job (DESIGN section 5). Knows nothing of leases: it is told a
// deadline, extends it when told to, and guarantees that the job's tree is dead before it.
#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "process/exit_status.hpp"
#include "process/signals.hpp"

namespace dblock::process {

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

struct JobEnd {
  bool started = false;              // its program was executed, or may have been
  std::optional<ExitStatus> status;  // none: the job never ran, or its status could not be had
  StopRequest stop;
  bool killed = false;     // the job itself, by SIGKILL, because it did not end in its grace
  Nanos stop_took{0};      // from the first signal to the job's end
  int exec_errno = 0;      // the program could not be executed after all
  int fork_errno = 0;      // the guardian could make no process for it
  bool tree_dead = false;  // every descendant is known to be gone (or was left behind on purpose)
  std::vector<std::string> left_behind;  // "name (pid)" of daemons that --leftovers left
  bool stop_came_late = false;           // the job had ended by itself: the stop was for its leftovers
};

// What ended a wait for something to be decided before the job starts, or after its end.
enum class Awaited { woken, signalled, guardian_died };

// Who must hear how long what runs under a lease may go on. Thread-safe: told by the lease's own thread.
class Fence {
 public:
  Fence() = default;
  Fence(const Fence&) = delete;
  Fence& operator=(const Fence&) = delete;
  virtual ~Fence() = default;

  // From now on dblock's death leaves something to release. Before: it releases nothing.
  virtual void arm_release() = 0;
  // The lease is proved until `deadline`. Never moves it backwards.
  virtual void set_deadline(BootTime deadline) = 0;
  // The lease is lost for certain: stop now.
  virtual void stop_revoked() = 0;
};

// What the guardian does for a dblock that has died. `some_left`: daemons of the job were left to go on.
using AfterDeath = std::function<void(bool some_left)>;

// One job's processes. Made before any thread or connection exists, because it forks.
class Supervisor : public Fence {
 public:
  // Blocks the signals that dblock handles (signals.hpp), becomes child subreaper and forks the guardian,
  // which forks the job behind a closed gate. `after_death` runs in the guardian once dblock has died (not
  // merely frozen) and the job's tree is confirmed dead, if the release was armed by then. `with_parent`:
  // treat the end of the process that started dblock as SIGTERM.
  [[nodiscard]] static Result<std::unique_ptr<Supervisor>> start(const JobSpec& spec, bool with_parent,
                                                                 AfterDeath after_death);

  // Waits until `wake` is raised, a signal that ends a wait has come (stop_request() then says which) or the
  // guardian is gone. Signals that were ignored when dblock started stay ignored.
  [[nodiscard]] virtual Awaited await(const WakeEvent& wake) = 0;
  [[nodiscard]] virtual StopRequest stop_request() const = 0;

  // run_job() calls `told` once, as soon as it stops the job because the lease is lost. It must not block.
  virtual void on_loss(std::function<void()> told) = 0;

  // Opens the gate - unless the deadline leaves no room for the job at all - with `environment` (NAME=VALUE)
  // put after the inherited one, and supervises until the job and its leftovers are dealt with. `max_runtime`
  // counts from here.
  [[nodiscard]] virtual JobEnd run_job(const std::vector<std::string>& environment,
                                       std::optional<Nanos> max_runtime) = 0;

  // Dismisses the guardian: the lock is released or was never ours, nothing is left to do if dblock dies.
  // Does not wait; the destructor does, so that a run leaves no process behind.
  virtual void finish() = 0;
};

// Ends this process as if killed by `signal`, without a core dump; _exit(128 + signal) where that fails (PID
// 1).
[[noreturn]] void die_of_signal(int signal);

}  // namespace dblock::process
