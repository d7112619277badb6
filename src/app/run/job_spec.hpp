// What a run's options ask of the job.
#pragma once

#include <string>

#include "app/requests.hpp"
#include "process/job.hpp"

namespace dblock::app {

// Looks the program up along PATH. Errors: not_found and not_executable.
[[nodiscard]] Result<process::JobSpec> make_spec(const RunRequest& request);

// As it was typed; "sh" for --command.
[[nodiscard]] std::string program_name(const RunRequest& request);

// The command as the row shows it: without its arguments, which may hold secrets, unless --record-args.
[[nodiscard]] std::string describe_command(const RunRequest& request);

}  // namespace dblock::app
