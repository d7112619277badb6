// How a subcommand ended, before it becomes an exit status (cli/exit_code).
#pragma once

#include <string>

namespace dblock::app {

struct Ending {
  enum class How {
    success,        // 0
    job_exited,     // the job's own code: `number`
    job_signalled,  // the job was killed by signal `number`; dblock dies of it too
    interrupted,    // dblock itself was told to end by signal `number` before a job ran
    skipped,        // 0: --once-per found the job done; no job ran
    held,           // the lock is held; `number` is the exit code asked for (75)
    lost,           // 76
    timed_out,      // 124
    stale,          // 1: inspect --max-age
    refused,        // 64: nothing was changed; the message says how to go on
    unfit,          // 78: doctor found something bad
  };
  How how = How::success;
  int number = 0;
  // A thread is still inside a call that would not end in time: leave by _Exit(), which waits for nothing.
  bool thread_left_behind = false;
  std::string message;  // for the exit line; empty where the code is the job's own
};

}  // namespace dblock::app
