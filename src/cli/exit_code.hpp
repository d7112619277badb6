// How the process ends.
#pragma once

#include "app/words/ending.hpp"

namespace dblock::cli {

// Shows the exit line if the exit status is dblock's own. Then ends the process, by a signal or at once with
// the status; only builds with AddressSanitizer return the status for main() instead (unless a thread was
// left behind).
[[nodiscard]] int leave_with(const app::Ending& ending);

}  // namespace dblock::cli
