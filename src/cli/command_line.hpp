// Turns the parsed command line, environment and configuration files into one plain request.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "app/requests.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "cli/options/option_spec.hpp"
#include "cli/options/values.hpp"
#include "cli/report/output_options.hpp"

namespace dblock::cli {

struct ShowHelp {
  std::optional<Subcommand> about;
};
struct ShowVersion {};
struct ShowCompletion {
  std::string_view script;
};
using Request = std::variant<std::monostate, ShowHelp, ShowVersion, ShowCompletion, app::RunRequest,
                             app::AcquireRequest, app::RenewRequest, app::ReleaseRequest, app::PauseRequest,
                             app::ResumeRequest, app::InspectRequest, app::WaitRequest, app::ReapRequest,
                             app::MigrateRequest, app::DoctorRequest, app::HistoryRequest, app::KeysRequest>;

struct CommandLine {
  log::Options log;
  OutputOptions output;
  Request request;             // std::monostate if `error` is set
  std::optional<Error> error;  // usage or config; `log` and `output` hold what was read before the error
};

// Never fails: CommandLine::error holds the first error, and the other members say how to show it.
[[nodiscard]] CommandLine read_command_line(const ParsedWords& parsed, const Environment& environment);

}  // namespace dblock::cli
