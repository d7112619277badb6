// The guardian: a small process between dblock and the job that is the job's parent. It does all signalling
// and waiting for the job's tree, watches the lease's deadline by itself, and outlives dblock's death long
// enough to stop the tree and give the lock back. Its loop decides nothing: guardian_rules.hpp does.
#pragma once

#include <sys/types.h>

#include <functional>

#include "base/unique_fd.hpp"
#include "process/job.hpp"
#include "process/messages.hpp"
#include "process/signals.hpp"

namespace dblock::process {

// What the guardian does for a dblock that has died. `some_left`: daemons of the job were left to go on.
using AfterDeath = std::function<void(bool some_left)>;

struct GuardianSetup {
  const JobSpec& spec;
  const Signals& signals;
  SharedState& shared;
  UniqueFd socket;  // to dblock: the guardian's end
  UniqueFd dblock;  // its pidfd
  UniqueFd gate;    // the job's end of the gate
  bool has_terminal = false;
  AfterDeath after_death;
};

// Runs in the forked guardian and never returns.
[[noreturn]] void run_guardian(GuardianSetup setup);

}  // namespace dblock::process
