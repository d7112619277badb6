#include "cli/dispatch.hpp"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "app/use_cases.hpp"
#include "base/log.hpp"
#include "cli/command_line.hpp"
#include "cli/options/help.hpp"
#include "cli/options/password.hpp"
#include "cli/output.hpp"
#include "cli/report/report.hpp"
#include "cli/watch_displays.hpp"
#include "process/signals.hpp"

namespace dblock::cli {
namespace {

using app::Ending;

bool ignores_sigpipe() {
  struct sigaction action {};
  return ::sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// Runs the use case of a request and shows its result; one overload for each alternative of Request.
class Runner {
 public:
  Runner(const CommandLine& line, const Environment& environment) : line_(line), environment_(environment) {}

  Ending operator()(std::monostate) const { return Ending::failed(*line_.error); }
  Ending operator()(const ShowHelp& help) const { return show(help_text(help.about), {}); }
  Ending operator()(const ShowVersion&) const { return show(version_text(), {}); }
  Ending operator()(const ShowCompletion& completion) const {
    return show(std::string(completion.script), {});
  }

  Ending operator()(const app::RunRequest& request) const { return app::run(request); }

  Ending operator()(const app::AcquireRequest& request) const {
    const auto result = app::acquire(request);
    if (!result) return Ending::failed(result.error());
    if (const auto* const ending = std::get_if<Ending>(&*result)) return *ending;
    const auto& acquired = std::get<app::Acquired>(*result);
    const auto written = write_result(report_acquired(acquired, line_.output));
    if (written) {
      app::confirm(acquired);
      return {};
    }
    release_unreported(request, acquired);
    return Ending::failed(written.error());
  }

  Ending operator()(const app::RenewRequest& request) const {
    const auto result = app::renew(request);
    if (!result) return Ending::failed(result.error());
    if (const auto* const ending = std::get_if<Ending>(&*result)) return *ending;
    return show(report_renewed(std::get<app::RenewedLease>(*result), line_.output), {});
  }

  Ending operator()(const app::ReleaseRequest& request) const {
    const auto report = app::release(request);
    if (!report) return Ending::failed(report.error());
    // The release failed: there is no holder to show, only the exit line.
    using Action = app::ReleaseReport::Action;
    const bool failed = report->ending.how != Ending::How::success;
    if (failed && report->action != Action::described) return report->ending;
    return show(report_released(*report, line_.output), report->ending);
  }

  Ending operator()(const app::PauseRequest& request) const {
    const auto report = app::pause(request);
    if (!report) return Ending::failed(report.error());
    return show(report_paused(report->paused, line_.output), report->ending);
  }

  Ending operator()(const app::ResumeRequest& request) const {
    const auto resumed = app::resume(request);
    if (!resumed) return Ending::failed(resumed.error());
    return show(report_resumed(*resumed, request.scope, line_.output), {});
  }

  Ending operator()(const app::WaitRequest& request) const {
    const auto ending = app::wait(request);
    return ending ? *ending : Ending::failed(ending.error());
  }

  Ending operator()(const app::InspectRequest& request) const {
    if (request.watch) {
      const auto display = make_watch_display(request, line_.output, environment_);
      const auto ending = app::watch(request, *display);
      return ending ? *ending : ending_unwritten(ending.error());
    }
    const auto report = app::inspect(request);
    if (!report) return Ending::failed(report.error());
    const auto columns = columns_of_stdout(environment_);
    auto end = show(report_inspected(*report, request, line_.output, colored(), columns), report->ending);
    if (!report->notice.empty()) log::info(report->notice);
    return end;
  }

  Ending operator()(const app::HistoryRequest& request) const {
    const auto history = app::history(request);
    if (!history) return Ending::failed(history.error());
    return show(report_history(*history, line_.output, colored(), columns_of_stdout(environment_)), {});
  }

  Ending operator()(const app::ReapRequest& request) const {
    Result<void> written;
    const auto ending = app::reap(request, [&](const lease::ReapReport& report) {
      if (written) written = write_result(report_reaped(report, request, line_.output));
    });
    if (!ending) return Ending::failed(ending.error());
    return written ? *ending : ending_unwritten(written.error());
  }

  Ending operator()(const app::MigrateRequest& request) const {
    const auto report = app::migrate(request);
    if (!report) return Ending::failed(report.error());
    return show(report_migrated(*report, request, line_.output), {});
  }

  Ending operator()(const app::DoctorRequest& request) const {
    const auto report = app::doctor(request);
    return show(report_doctor(report, line_.output, colored()), report.ending);
  }

  Ending operator()(const app::KeysRequest& request) const {
    const auto keys = app::known_keys(request);
    if (!keys) return Ending::failed(keys.error());
    std::string lines;
    for (const auto& key : *keys) lines += key + "\n";
    return show(lines, {});
  }

 private:
  // Shows a result. If it cannot be written, that error decides the exit code, not the use case's ending.
  [[nodiscard]] Ending show(const std::string& text, const Ending& ending) const {
    const auto written = write_result(text);
    return written ? ending : ending_unwritten(written.error());
  }
  // Nobody may read the output any more (`| head`): then dblock ends silently by SIGPIPE, as other tools do.
  [[nodiscard]] Ending ending_unwritten(const Error& error) const {
    return error.native == EPIPE && !sigpipe_ignored_
               ? Ending{.how = Ending::How::job_signalled, .number = SIGPIPE}
               : Ending::failed(error);
  }
  [[nodiscard]] bool colored() const { return wants_color(line_.output.color, environment_); }

  // Releases a lease whose owner id could not be written: no caller knows the id to release it with.
  static void release_unreported(const app::AcquireRequest& request, const app::Acquired& acquired) {
    const app::ReleaseRequest release{.database = request.database,
                                      .identity = request.identity,
                                      .key = acquired.lease.key,
                                      .owner = acquired.lease.owner};
    const auto released = app::release(release);
    if (!released) log::warning("the lease could not be released: " + released.error().message);
  }

  const CommandLine& line_;
  const Environment& environment_;
  const bool sigpipe_ignored_ = ignores_sigpipe();  // by the caller: libmariadb ignores it later
};

void show_short_help() {
  log::error("usage: dblock [GLOBAL OPTIONS] SUBCOMMAND [OPTIONS] [--] [COMMAND [ARG...]]");
  log::error("subcommands: " + names_of(~Scope{0}));
}

// Shows the exit line if the exit status is dblock's own. Then ends the process, by a signal or at once with
// the status; only builds with AddressSanitizer return the status for main() instead (unless a thread was
// left behind).
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

std::vector<std::string> own_variables() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    if (variable.starts_with("DBLOCK_")) names.emplace_back(variable.substr(0, variable.find('=')));
  }
  return names;
}

int run_program(int argc, char** argv) {
  const auto parsed = parse_words({argv + (argc > 0 ? 1 : 0), argv + argc});
  hide_passwords(argv, parsed);
  Environment environment;
  environment.root = ::geteuid() == 0;
  environment.variable = [](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  if (parsed.subcommand == Subcommand::doctor) environment.own_names = own_variables();
  const auto line = read_command_line(parsed, environment);
  log::configure(line.log);
  if (parsed.no_subcommand) show_short_help();
  const auto end = std::visit(Runner(line, environment), line.request);
  const int code = app::outcome_of(end).exit.code;
  if (line.output.shell && code != 0) {
    // If stdout is closed, the exit status alone must tell of the failure.
    [[maybe_unused]] const auto written = write_result(report_shell_failure(code));
  }
  return leave_with(end);
}

}  // namespace

int dispatch(int argc, char** argv) {
  try {
    return run_program(argc, argv);
  } catch (const std::exception& e) {
    return leave_with(Ending::failed(Error{Errc::internal, e.what()}));
  }
}

}  // namespace dblock::cli
