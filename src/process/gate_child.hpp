// The job before its exec: a process that waits behind a gate until dblock holds the lock.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "process/job.hpp"
#include "process/messages.hpp"
#include "process/signals.hpp"

namespace dblock::process {

struct GateChild {
  const JobSpec& spec;
  const Signals& signals;
  const SharedState& shared;
  UniqueFd gate;                 // end of file means: do not run
  UniqueFd exec_error;           // close-on-exec; receives errno when exec fails
  std::optional<pid_t> group{};  // to move to; 0: one of its own
};

// Runs in the forked child and never returns: reads the environment from the gate, gives the process back the
// caller's signals, and becomes the job.
[[noreturn]] void become_job(GateChild child);

// Opens the gate from the other side: `environment` entries (NAME=VALUE) go after the inherited ones.
bool open_gate(const UniqueFd& gate, const std::vector<std::string>& environment);

}  // namespace dblock::process
