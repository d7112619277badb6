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
  std::optional<pid_t> group{};  // the process group to join; 0: a new one; none: stay in the present one
};

// Runs in the forked child and never returns. Reads the environment's changes from the gate, restores the
// caller's signal dispositions and mask, and executes the job. Exits with 126 when the gate is closed
// unopened (ECANCELED), the exec fails, or the deadline is too near (k_deadline_too_near), with the reason in
// `exec_error`: the job has not started.
[[noreturn]] void become_job(GateChild child);

// Opens the gate, in dblock. `environment`: NAME=VALUE entries that replace or complete the inherited ones.
// False when the message could not be written.
bool open_gate(const UniqueFd& gate, const std::vector<std::string>& environment);

}  // namespace dblock::process
