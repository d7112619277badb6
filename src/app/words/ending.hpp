// How a subcommand ended, above all `run`: one type, one table of what is told of it to the caller, the
// status file, --on-end and the row, and the sentences about it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "lease/past_run.hpp"
#include "process/job.hpp"

namespace dblock::app {

struct Ending {
  enum class How {
    success,
    job_exited,     // `number`: the job's own code
    job_signalled,  // the job was killed by signal `number`; dblock dies of it too
    interrupted,    // dblock itself was told to end by signal `number` before a job ran
    skipped,        // --once-per found the job done; no job ran
    held,           // the lock is held; `number`: the exit code to use, 75 unless -E changed it
    unguarded,      // the guardian died or did not answer, so dblock stopped the job
    lost,
    timed_out,
    stale,    // inspect --max-age
    overdue,  // inspect --max-held
    failing,  // inspect --max-failures
    not_yet,  // wait --timeout
    refused,  // nothing was changed; the message says how to go on
    unfit,    // doctor found something bad
    failed,   // `error` says why, and decides the exit status
  };
  How how = How::success;
  int number = 0;
  Errc error = Errc::internal;
  // A thread is still inside a call that did not end in time: leave by _Exit(), which waits for no thread.
  bool thread_left_behind = false;
  process::Stop stop{};  // why a run was stopped, if it was
  std::string message;   // for the status file; also for the exit line where the exit code is dblock's own

  [[nodiscard]] static Ending held(std::string message) {
    return {.how = How::held, .number = 75, .message = std::move(message)};
  }
  [[nodiscard]] static Ending failed(const Error& error) {
    return {.how = How::failed, .error = error.code, .message = error.message};
  }
};

struct Exit {
  int code = 0;
  std::string_view reason = {};  // the word in brackets of the exit line
  bool announced = false;        // show an exit line, because the code is dblock's own and not the job's
  int signal = 0;                // not 0: end as if killed by this signal; code is 128 + signal
};

struct Outcome {
  Exit exit;
  std::string_view word = "error";                     // in the status file, and for --on-end
  lease::RunOutcome row = lease::RunOutcome::not_run;  // where the ending is that of a run
};

// The only map from endings and errors to exit statuses, which dblock(1) lists under EXIT STATUS.
[[nodiscard]] Outcome outcome_of(const Ending& ending);

// "stopped by SIGTERM from pid 12 (user alice) while waiting …": the ending of a run without a job, or of
// another subcommand that was broken off.
[[nodiscard]] Ending interrupted_by(const process::Stop& stop, const std::string& doing);

struct RunRequest;

// The ending of a run whose job ended so. Where the job was stopped since its lease was lost, the ending has
// no message: lost_ending() has.
[[nodiscard]] Ending ending_of(const process::JobEnd& end, const RunRequest& request);
// The ending of a run whose lease was lost. `loss`: the sentence about it.
[[nodiscard]] Ending lost_ending(const process::JobEnd& end, const std::string& loss);
// What the row records of a run that ended so. A failed run keeps the lock for `keep_on_failure`.
[[nodiscard]] lease::RunEnd row_end(const Ending& ending, Micros keep_on_failure = Micros{0});

// The sentence about a run that has ended, also where `ending` has no message. `locks`: as lock_names() names
// them.
[[nodiscard]] std::string describe_end(const Ending& ending, const std::string& locks);

// "asked to stop by TERM from pid 12 (user alice): the job got TERM, had not ended 4s later, and was killed;
// …". Empty where neither a signal nor the parent's end asked for the stop, or where no job ran.
[[nodiscard]] std::string describe_stop(const process::JobEnd& end);

// " (it had not ended 4s after TERM and was killed)", or nothing where the job ended within its grace.
[[nodiscard]] std::string describe_kill(const process::Stop& stop);

// For the status file: "parent-ended", "max-runtime", …; "TERM".
[[nodiscard]] std::string_view reason_word(process::Stop::Reason reason);
[[nodiscard]] std::string signal_name(int signal);

}  // namespace dblock::app
