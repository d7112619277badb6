// The whole program behind main(): reads the command line, runs the use case, shows its result.
#pragma once

namespace dblock::cli {

// Returns the exit status for main(), or ends the process: at once with the exit status, or by the signal
// that killed the job or interrupted dblock. Throws nothing.
[[nodiscard]] int dispatch(int argc, char** argv);

}  // namespace dblock::cli
