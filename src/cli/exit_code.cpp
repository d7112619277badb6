#include "cli/exit_code.hpp"

#include <cstdlib>

#include "base/log.hpp"
#include "process/signals.hpp"

namespace dblock::cli {

int leave_with(const app::Ending& ending) {
  const app::Exit exit = app::outcome_of(ending).exit;
  if (exit.announced) log::exit_line(exit.code, exit.reason, ending.message);
  if (exit.signal != 0) process::die_of_signal(exit.signal);
#ifdef __SANITIZE_ADDRESS__
  const bool at_once = ending.thread_left_behind;  // the leak check runs only when main() returns
#else
  // No output is buffered, and the libraries' destructors would take longer than the lock's release.
  const bool at_once = true;
#endif
  if (at_once) std::_Exit(exit.code);
  return exit.code;
}

}  // namespace dblock::cli
