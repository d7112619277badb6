#include "cli/command_line.hpp"

#include <algorithm>
#include <utility>

#include "cli/options/requests.hpp"

namespace dblock::cli {
namespace {

// Of --quiet and --verbose the one of higher rank wins: DBLOCK_QUIET must not silence a -v that was typed.
Result<void> read_verbosity(const Values& options, log::Options& log) {
  DBLOCK_CHECK(options.read("quiet", log.quiet));
  DBLOCK_CHECK(options.read("verbose", log.verbose));
  if (!log.quiet || !log.verbose) return {};
  const auto quiet = options.find("quiet")->rank;
  const auto verbose = options.find("verbose")->rank;
  if (quiet == verbose) return fail(Errc::usage, "choose one of --quiet and --verbose");
  (quiet < verbose ? log.quiet : log.verbose) = false;
  return {};
}

// --json and --format both choose the format; the one of higher rank wins.
Result<void> read_format(const Values& options, CommandLine& line) {
  const auto subcommand = options.parsed().subcommand;
  if (subcommand != Subcommand::acquire && subcommand != Subcommand::inspect) return {};
  DBLOCK_TRY(const auto format, options.get<std::string>("format"));
  const auto format_rank = options.find("format")->rank;
  const auto json = options.find("json");
  if (line.output.json && format != "json" && json->rank <= format_rank) {
    if (json->rank == format_rank) return fail(Errc::usage, "choose one of --json and --format " + format);
    line.output.json = false;
  }
  if (format == "json") line.output.json = true;
  line.output.shell = format == "shell" && !line.output.json;
  if (format == "csv" && !line.output.json) line.output.shape = Shape::csv;
  if (format == "prometheus" && !line.output.json) line.output.shape = Shape::prometheus;
  return {};
}

Result<void> read_presentation(const Values& options, CommandLine& line) {
  DBLOCK_CHECK(options.read("json", line.output.json));
  DBLOCK_CHECK(options.read("color", line.output.color));
  DBLOCK_CHECK(options.read("log-format", line.log.format));
  DBLOCK_CHECK(read_format(options, line));
  return read_verbosity(options, line.log);
}

Result<Request> make_request(Subcommand command, const Values& options) {
  switch (command) {
    case Subcommand::run:
      return run_request(options);
    case Subcommand::acquire:
      return acquire_request(options);
    case Subcommand::renew:
      return renew_request(options);
    case Subcommand::release:
      return release_request(options);
    case Subcommand::inspect:
      return inspect_request(options);
    case Subcommand::reap:
      return reap_request(options);
    case Subcommand::history:
      return history_request(options);
    case Subcommand::migrate:
      return migrate_request(options);
    case Subcommand::doctor:
      return doctor_request(options);
    case Subcommand::keys:
      return keys_request(options);
  }
  return fail(Errc::internal, "a subcommand has no reader");
}

Result<Request> read_request(const Values& options, const OutputOptions& output) {
  DBLOCK_TRY(auto request, make_request(*options.parsed().subcommand, options));
  auto* const inspect = std::get_if<app::InspectRequest>(&request);
  if (inspect == nullptr || output.shape != Shape::prometheus) return request;
  // Free locks too: a free lock's series must go on, to show how long ago its job last succeeded.
  inspect->all = true;
  if (!inspect->watch) return request;
  return fail(Errc::usage,
              "inspect: --format prometheus is one document a file; run it from a timer instead of --watch");
}

// True if the words hold --format shell. For usage errors, after which the rest of the line was not parsed:
// a script that evaluates acquire's output must see this failure, too.
bool mentions_shell_format(const std::vector<std::string>& words) {
  const auto spelled = std::ranges::find(words, "--format");
  const bool apart = spelled != words.end() && spelled + 1 != words.end() && *(spelled + 1) == "shell";
  return apart || std::ranges::find(words, "--format=shell") != words.end();
}

// Keeps the first error.
template <typename T>
void take_error(CommandLine& line, const Result<T>& result) {
  if (!result && !line.error) line.error = result.error();
}

}  // namespace

CommandLine read_command_line(const ParsedWords& parsed, const Environment& environment) {
  CommandLine line;
  line.error = parsed.error;
  if (parsed.version) line.request = ShowVersion{};
  if (parsed.help) line.request = ShowHelp{parsed.subcommand};
  if (parsed.help || parsed.version) return line;

  Values options(parsed, environment);
  if (parsed.subcommand) take_error(line, options.add_config_files(*parsed.subcommand));
  take_error(line, read_presentation(options, line));
  if (line.error) {
    if (parsed.subcommand == Subcommand::acquire && mentions_shell_format(parsed.words))
      line.output.shell = true;
    return line;
  }
  auto request = read_request(options, line.output);
  take_error(line, request);
  if (request) line.request = std::move(*request);
  return line;
}

}  // namespace dblock::cli
