// The whole program behind main(): read the command line, run the use case, show its result.
#pragma once

namespace dblock::cli {

// Returns the exit status, or ends the process by the signal that is to be passed on. Throws nothing.
[[nodiscard]] int dispatch(int argc, char** argv);

}  // namespace dblock::cli
