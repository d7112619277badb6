#include "app/words/ending.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "app/identity.hpp"
#include "app/requests.hpp"
#include "base/duration.hpp"
#include "base/text.hpp"

namespace dblock::app {
namespace {

using process::JobEnd;
using process::Stop;
using How = Ending::How;

std::string sender_of(const Stop& stop) {
  if (stop.from_terminal) return "from the terminal";
  // The kernel shows no pid for a sender outside of dblock's PID namespace.
  if (stop.pid == 0) return "from a process outside of this PID namespace";
  return "from pid " + std::to_string(stop.pid) + " (user " + account_name(stop.uid) + ")";
}

std::string parent_of(const Stop& stop) {
  return "the process that started dblock (pid " + std::to_string(stop.pid) + ") has ended";
}

std::string words_of(Nanos length) {
  return format_age(std::chrono::duration_cast<Micros>(length));
}

std::string duration_of(const Stop& stop) {
  return words_of(stop.took);
}

// What became of the processes that the job has left, where that took long.
std::string fate_of_leftovers(const JobEnd& end) {
  return end.leftovers_killed ? "went on for " + words_of(end.leftovers_took) + " and was killed"
                              : "ended " + words_of(end.leftovers_took) + " later";
}

std::string describe_leftovers(const JobEnd& end) {
  return end.leftovers_took == Nanos{0} ? "" : "; what it left running " + fate_of_leftovers(end);
}

// A shell's loop around dblock stops at Ctrl-C only when it sees dblock die of SIGINT. So a Ctrl-C counts as
// the job's end also when the job had to be killed.
Ending own_ending(const JobEnd& end) {
  // A guardian that died between the job's end and its report leaves the exit status unknown.
  const auto status = end.status.value_or(process::ExitStatus{true, SIGKILL});
  if (end.ctrl_c && status == process::ExitStatus{true, SIGKILL})
    return {.how = How::job_signalled, .number = SIGINT};
  if (status.signalled) return {.how = How::job_signalled, .number = status.number};
  return {.how = status.number == 0 ? How::success : How::job_exited, .number = status.number};
}

Ending not_started(const JobEnd& end, const RunRequest& request) {
  if (end.fork_errno != 0) {
    return Ending::failed(
        {Errc::internal, with_errno("the guardian process cannot start the job", end.fork_errno) +
                             "; too many processes or open files (ulimit -u, ulimit -n)?"});
  }
  // The program itself was found before the wait, so ENOENT now means that the interpreter it names is
  // missing.
  const std::string program = request.shell_command ? "/bin/sh" : request.command.front();
  const std::string hint =
      end.exec_errno == ENOENT ? "; is the interpreter in its first line installed?" : "";
  return Ending::failed(
      {Errc::cannot_run, with_errno("cannot run " + quote_untrusted(program), end.exec_errno) + hint});
}

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

}  // namespace

Outcome outcome_of(const Ending& ending) {
  using Row = lease::RunOutcome;
  const int number = ending.number;
  switch (ending.how) {
    case How::success:
      return {{}, "succeeded", Row::succeeded};
    case How::job_exited:
      return {{.code = number}, "failed", Row::failed};
    case How::job_signalled:
      return {by_signal(number, false), "signalled", Row::signalled};
    case How::unguarded:
      return {exit_at(Errc::internal), "error", Row::signalled};
    case How::timed_out:
      return {own(124, "max-runtime"), "timed_out", Row::timed_out};
    case How::lost:
      return {exit_at(Errc::lost), "lost", Row::lost};
    case How::interrupted:
      return {by_signal(number, true), "interrupted"};
    case How::skipped:
      return {{}, "skipped"};
    case How::held:
      // `-E 0` asks that a conflict look like success, so there is no exit line.
      return {number == 0 ? Exit{} : own(number, "held"), "held"};
    case How::not_yet:
      return {own(75, "not yet")};
    case How::stale:
      return {own(1, "stale")};
    case How::overdue:
      return {own(1, "overdue")};
    case How::failing:
      return {own(1, "failing")};
    case How::refused:
      return {exit_at(Errc::usage)};
    case How::unfit:
      return {exit_at(Errc::config)};
    case How::failed:
      return {exit_at(ending.error)};
  }
  return {exit_at(Errc::internal)};
}

Ending interrupted_by(const Stop& stop, const std::string& doing) {
  const std::string why = stop.reason == Stop::Reason::parent
                              ? "stopped since " + parent_of(stop) + ","
                              : "stopped by SIG" + signal_name(stop.signal) + " " + sender_of(stop);
  return {.how = How::interrupted, .number = stop.signal, .stop = stop, .message = why + " " + doing};
}

Ending ending_of(const JobEnd& end, const RunRequest& request) {
  using enum Stop::Reason;
  if (end.stop.reason == self_fence || end.stop.reason == lost || end.stop.reason == revoked)
    return {.how = How::lost};
  if (end.fork_errno != 0 || end.exec_errno != 0) return not_started(end, request);
  if (end.stop.reason == Stop::Reason::max_runtime && end.stopped_between) {
    return {.how = How::timed_out,
            .message = "the attempts of the job took longer than --max-runtime " +
                       format_duration(*request.max_runtime) +
                       ", with the pauses between them; raise the limit, or find out why the job fails"};
  }
  if (end.stop.reason == Stop::Reason::max_runtime) {
    return {.how = How::timed_out,
            .message = "the job ran longer than --max-runtime " + format_duration(*request.max_runtime) +
                       " and was stopped" + describe_kill(end.stop) + describe_leftovers(end) +
                       "; raise the limit, or find out why the job took so long"};
  }
  if (end.stop.reason == Stop::Reason::guardian) {
    return {
        .how = end.started ? How::unguarded : How::failed,
        .message =
            "the guardian process died or stopped answering, so the job was stopped; was it killed by hand?"};
  }
  if (!end.started) {
    Stop stop = end.stop;
    if (stop.signal == 0) stop.signal = SIGKILL;
    return interrupted_by(stop, "before the job began");
  }
  Ending ending =
      end.stopped_between ? Ending{.how = How::job_signalled, .number = end.stop.signal} : own_ending(end);
  ending.message = describe_stop(end);
  return ending;
}

Ending lost_ending(const JobEnd& end, const std::string& loss) {
  std::string message = loss;
  if (!end.stop || end.stopped_between) {
    message +=
        end.stop ? "; the job had failed by then, and was not started again" : "; the job had ended by then";
  } else {
    message += end.started ? "; the job was stopped" + describe_kill(end.stop) + describe_leftovers(end)
                           : "; the job was not started";
  }
  if (!end.tree_dead) message += ", but some of its processes could not be killed";
  message += "; see `dblock inspect` for who holds it now";
  return {.how = How::lost, .message = message};
}

lease::RunEnd row_end(const Ending& ending, Micros keep_on_failure) {
  const Outcome outcome = outcome_of(ending);
  if (outcome.row == lease::RunOutcome::not_run) return {outcome.row, std::nullopt};
  return {outcome.row, outcome.exit.code, lease::is_failure(outcome.row) ? keep_on_failure : Micros{0}};
}

std::string describe_end(const Ending& ending, const std::string& locks) {
  if (!ending.message.empty()) return ending.message;
  const std::string job = "the job under " + locks;
  if (ending.how == How::job_exited) return job + " failed with exit status " + std::to_string(ending.number);
  if (ending.how == How::job_signalled) return job + " was killed by SIG" + signal_name(ending.number);
  return job + " has succeeded";
}

// With the job's own exit code there is no exit line to say who had the job stopped; this sentence does.
std::string describe_stop(const JobEnd& end) {
  const Stop& stop = end.stop;
  const bool asked = stop.reason == Stop::Reason::signal || stop.reason == Stop::Reason::parent;
  if (!asked || !end.status || end.exec_errno != 0) return "";
  const std::string signal = signal_name(stop.signal);
  const std::string by = stop.reason == Stop::Reason::parent
                             ? "asked to stop since " + parent_of(stop)
                             : "asked to stop by " + signal + " " + sender_of(stop);
  if (end.stopped_between) return by + ": the job had failed by then, and was not started again";
  if (stop.late)
    return by + ": the job had ended by then, and what it left running " +
           (end.leftovers_killed ? fate_of_leftovers(end) : "was stopped");
  return by + ": the job got " + signal +
         (stop.killed ? ", had not ended " + duration_of(stop) +
                            " later, and was killed; --stop-grace gives it longer"
                      : " and ended " + duration_of(stop) + " later") +
         describe_leftovers(end);
}

std::string describe_kill(const Stop& stop) {
  if (!stop.killed || stop.signal == SIGKILL) return "";
  const char* const longer = Stop::keeps_lease(stop.reason) ? "; --stop-grace gives it longer" : "";
  return " (it had not ended " + duration_of(stop) + " after " + signal_name(stop.signal) +
         " and was killed" + longer + ")";
}

std::string_view reason_word(Stop::Reason reason) {
  switch (reason) {
    case Stop::Reason::none:
      break;
    case Stop::Reason::signal:
      return "signal";
    case Stop::Reason::parent:
      return "parent-ended";
    case Stop::Reason::self_fence:
      return "deadline";
    case Stop::Reason::lost:
      return "lost";
    case Stop::Reason::revoked:
      return "revoked";
    case Stop::Reason::max_runtime:
      return "max-runtime";
    case Stop::Reason::guardian:
      return "guardian";
  }
  return "none";
}

std::string signal_name(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return name != nullptr ? name : std::to_string(signal);
}

}  // namespace dblock::app
