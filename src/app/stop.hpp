// Who had a run stopped and what became of the job: in words, and for the status file.
#pragma once

#include <optional>
#include <string>

#include "app/ending.hpp"
#include "app/status_file.hpp"
#include "lease/store.hpp"
#include "process/supervisor.hpp"

namespace dblock::app {

// "stopped by SIGTERM from pid 12 (user alice) while waiting …": the ending of a run without a job, or of
// another subcommand that was broken off.
[[nodiscard]] Ending interrupted_by(const process::StopRequest& request, const std::string& doing);

// "asked to stop by TERM from pid 12 (user alice): the job got TERM, ignored it for 4s, and was killed".
// REQUIRES: the stop was asked for by a signal or by the parent's end, and the job ran.
[[nodiscard]] std::string describe_stop(const process::JobEnd& end);

// " (it ignored TERM for 4s and was killed)", or nothing where the job ended by itself.
[[nodiscard]] std::string describe_kill(const process::JobEnd& end);

// `lost`: what the database said of the lease, if it did. Nothing where nobody stopped the run.
[[nodiscard]] std::optional<StopRecord> record_stop(const process::StopRequest& request, bool killed,
                                                    const std::optional<lease::NotOurs>& lost);

}  // namespace dblock::app
