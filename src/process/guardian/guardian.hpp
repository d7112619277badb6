// The guardian: a small process between dblock and the job that is the job's parent. It signals the job's
// tree and waits for it, watches the lease's deadline by itself, and outlives dblock's death long enough to
// stop the tree and release the lock. guardian_rules.hpp makes the decisions; the loop here carries them
// out.
#pragma once

#include <sys/types.h>

#include <functional>

#include "base/unique_fd.hpp"
#include "process/job.hpp"
#include "process/messages.hpp"
#include "process/signals.hpp"

namespace dblock::process {

// Releases the lock for a dblock that has died, in the guardian.
using AfterDeath = std::function<void(const JobAtDeath& job)>;

struct GuardianSetup {
  const JobSpec& spec;
  const Signals& signals;
  SharedState& shared;
  UniqueFd socket;            // to dblock: the guardian's end
  UniqueFd dblock;            // pidfd of dblock's process
  UniqueFd gate;              // the job's end of the gate
  bool has_terminal = false;  // dblock has a controlling terminal
  AfterDeath after_death;
};

// Runs in the forked guardian and never returns.
[[noreturn]] void run_guardian(GuardianSetup setup);

}  // namespace dblock::process
