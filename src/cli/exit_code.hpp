// The only map from endings and errors to exit statuses, which dblock(1) lists under EXIT STATUS.
#pragma once

#include <string>
#include <string_view>

#include "app/words/ending.hpp"
#include "base/error.hpp"

namespace dblock::cli {

struct Exit {
  int code = 0;
  std::string_view reason = {};  // the word in brackets of the exit line
  bool announced = false;        // show an exit line, because the code is dblock's own and not the job's
  int signal = 0;                // not 0: end as if killed by this signal; code is 128 + signal
  bool abrupt = false;           // leave by _Exit(): a thread is stuck and must not be waited for
  std::string message = {};      // the exit line's text
};

[[nodiscard]] Exit exit_for(const app::Ending& ending);
[[nodiscard]] Exit exit_for(const Error& error);
// Ends as other tools do when nobody reads their output any more (`| head`): silently, by SIGPIPE.
[[nodiscard]] Exit exit_by_closed_pipe();

// Shows the exit line if exit.announced. Then ends the process, by exit.signal or at once with exit.code;
// only builds with AddressSanitizer return the status for main() instead (unless exit.abrupt).
[[nodiscard]] int leave_with(const Exit& exit);

}  // namespace dblock::cli
