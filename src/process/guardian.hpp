// The guardian: a small process between dblock and the job that is the job's parent. It does all signalling
// and waiting for the job's tree, watches the lease's deadline by itself, and outlives dblock's death long
// enough to stop the tree and give the lock back.
#pragma once

#include <sys/types.h>

#include <functional>

#include "base/unique_fd.hpp"
#include "process/channel.hpp"
#include "process/signals.hpp"
#include "process/supervisor.hpp"

namespace dblock::process {

struct GuardianSetup {
  const JobSpec& spec;
  const Signals& signals;
  SharedState& shared;
  Channel channel;  // the guardian's end
  UniqueFd dblock;  // pidfd of dblock
  UniqueFd gate;    // the job's end of the gate
  bool has_terminal = false;
  AfterDeath after_death;
};

// Runs in the forked guardian and never returns.
[[noreturn]] void run_guardian(GuardianSetup setup);

}  // namespace dblock::process
