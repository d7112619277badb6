// argv and environment -> what is to be done, as plain values.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "app/requests.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "cli/option_spec.hpp"
#include "cli/values.hpp"

namespace dblock::cli {

struct ShowHelp {
  std::optional<Subcommand> about;
};
struct ShowVersion {};
using Request = std::variant<std::monostate, ShowHelp, ShowVersion, app::RunRequest, app::AcquireRequest,
                             app::RenewRequest, app::ReleaseRequest, app::InspectRequest, app::ReapRequest,
                             app::MigrateRequest, app::DoctorRequest, app::HistoryRequest, app::KeysRequest>;

enum class Color { automatic, always, never };

// inspect --format, for what is no JSON.
enum class Shape { table, csv, prometheus };

// How results are shown.
struct OutputOptions {
  bool json = false;
  Shape shape = Shape::table;  // unless json
  bool shell = false;          // acquire --format shell; also set, as far as can be told, when `error` is
  Color color = Color::automatic;
};

struct CommandLine {
  log::Options log;
  OutputOptions output;
  Request request;             // std::monostate when there is an error
  std::optional<Error> error;  // usage or config; log and output are as good as could be made out
};

// Never fails as a whole: a faulty line still says how its own error should be shown.
[[nodiscard]] CommandLine read_command_line(const ParsedWords& parsed, const Surroundings& surroundings);

}  // namespace dblock::cli
