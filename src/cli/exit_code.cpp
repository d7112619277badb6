#include "cli/exit_code.hpp"

#include <csignal>
#include <cstdlib>

#include "base/log.hpp"
#include "process/signals.hpp"

namespace dblock::cli {
namespace {

Exit own(int code, std::string_view reason) {
  return {.code = code, .reason = reason, .announced = true};
}

Exit by_signal(int signal, bool announced) {
  return {.code = 128 + signal, .reason = "signal", .announced = announced, .signal = signal};
}

Exit exit_at(Errc code) {
  switch (code) {
    case Errc::usage:
      return own(64, "usage");
    case Errc::config:
      return own(78, "configuration");
    case Errc::schema:
      return own(78, "schema");
    case Errc::unreachable:
    case Errc::indeterminate:
      return own(69, "unreachable");
    case Errc::denied:
      return own(77, "denied");
    case Errc::held:
      return own(75, "held");
    case Errc::lost:
      return own(76, "lost");
    case Errc::not_found:
      return own(127, "command not found");
    case Errc::cannot_run:
      return own(126, "cannot run");
    case Errc::internal:
      break;
  }
  return own(70, "internal");
}

Exit exit_for_how(const app::Ending& ending) {
  using How = app::Ending::How;
  switch (ending.how) {
    case How::success:
    case How::skipped:
      return {};
    case How::job_exited:
      return {.code = ending.number};
    case How::job_signalled:
      return by_signal(ending.number, false);
    case How::interrupted:
      return by_signal(ending.number, true);
    case How::held:
      // `-E 0` asks that a conflict look like success, so there is no exit line.
      return ending.number == 0 ? Exit{} : own(ending.number, "held");
    case How::not_yet:
      return own(75, "not yet");
    case How::lost:
      return exit_at(Errc::lost);
    case How::timed_out:
      return own(124, "max-runtime");
    case How::stale:
      return own(1, "stale");
    case How::overdue:
      return own(1, "overdue");
    case How::refused:
      return exit_at(Errc::usage);
    case How::unfit:
      return exit_at(Errc::config);
    case How::failed:
      return exit_at(ending.error);
  }
  return exit_at(Errc::internal);
}

}  // namespace

Exit exit_for(const app::Ending& ending) {
  auto exit = exit_for_how(ending);
  exit.abrupt = ending.thread_left_behind;
  exit.message = ending.message;
  return exit;
}

Exit exit_for(const Error& error) {
  return exit_for(app::Ending::failed(error));
}

Exit exit_by_closed_pipe() {
  return by_signal(SIGPIPE, false);
}

int leave_with(const Exit& exit) {
  if (exit.announced) log::exit_line(exit.code, exit.reason, exit.message);
  if (exit.signal != 0) process::die_of_signal(exit.signal);
#ifdef __SANITIZE_ADDRESS__
  const bool at_once = exit.abrupt;  // the leak check runs only when main() returns
#else
  // No output is buffered, and the libraries' destructors would take longer than the lock's release.
  const bool at_once = true;
#endif
  if (at_once) std::_Exit(exit.code);
  return exit.code;
}

}  // namespace dblock::cli
