// The only map from how things ended to exit statuses (DESIGN section 2, "Exit codes").
#pragma once

#include <string>
#include <string_view>

#include "app/ending.hpp"
#include "base/error.hpp"

namespace dblock::cli {

struct Exit {
  int code = 0;
  std::string_view reason = {};  // the word in brackets of the exit line
  bool announced = false;        // an exit line is shown: the code is dblock's own
  int signal = 0;                // not 0: end as if killed by it; code is 128 + signal
  bool abrupt = false;           // leave by _Exit(): a thread is stuck and must not be waited for
  std::string message = {};      // of the exit line
};

[[nodiscard]] Exit exit_for(const app::Ending& ending);
[[nodiscard]] Exit exit_for(const Error& error);

// Shows the exit line, if there is one, and returns the status for main, or ends the process by
// `exit.signal`.
[[nodiscard]] int leave_with(const Exit& exit);

}  // namespace dblock::cli
