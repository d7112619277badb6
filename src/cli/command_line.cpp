#include "cli/command_line.hpp"

#include <algorithm>
#include <utility>

#include "cli/embedded_file.hpp"
#include "cli/options/requests.hpp"

namespace dblock::cli {
namespace {

// What a timeline shows when --limit does not say.
constexpr std::size_t k_runs_of_a_page = 5000;

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

Shape shape_named(std::string_view format) {
  if (format == "csv") return Shape::csv;
  if (format == "prometheus") return Shape::prometheus;
  return format == "html" ? Shape::html : Shape::table;
}

// --json and --format both choose the format; the one of higher rank wins.
Result<void> read_format(const Values& options, CommandLine& line) {
  const auto subcommand = options.parsed().subcommand;
  if (!subcommand || find_option("format", scope_of(*subcommand)) == nullptr) return {};
  DBLOCK_TRY(const auto format, options.get<std::string>("format"));
  const auto format_rank = options.find("format")->rank;
  const auto json = options.find("json");
  if (line.output.json && format != "json" && json->rank <= format_rank) {
    if (json->rank == format_rank) return fail(Errc::usage, "choose one of --json and --format " + format);
    line.output.json = false;
  }
  if (format == "json") line.output.json = true;
  line.output.shell = format == "shell" && !line.output.json;
  if (!line.output.json) line.output.shape = shape_named(format);
  return {};
}

Result<void> read_presentation(const Values& options, CommandLine& line) {
  DBLOCK_CHECK(options.read("json", line.output.json));
  DBLOCK_CHECK(options.read("color", line.output.color));
  DBLOCK_CHECK(options.read("log-format", line.log.format));
  DBLOCK_CHECK(read_format(options, line));
  return read_verbosity(options, line.log);
}

Result<Request> help_request(const std::vector<std::string>& words) {
  if (words.empty()) return ShowHelp{};
  if (words.size() > 1) return fail(Errc::usage, "help takes one subcommand; dblock --help lists them");
  const auto command = find_subcommand(words.front());
  if (!command) return fail(Errc::usage, "help: " + unknown_subcommand(words.front()));
  return ShowHelp{command};
}

Result<Request> completion_request(const std::vector<std::string>& words) {
  const std::string shell = words.size() == 1 ? words.front() : "";
  if (shell == "zsh") return ShowCompletion{embedded_file("_dblock")};
  if (shell == "bash" || shell == "fish") return ShowCompletion{embedded_file("dblock." + shell)};
  return fail(Errc::usage, "completion needs one shell: bash, zsh or fish");
}

// The request of a subcommand that prints a text; std::monostate for all others.
Result<Request> text_request(const ParsedWords& parsed) {
  if (parsed.version) return ShowVersion{};
  if (parsed.help) return ShowHelp{parsed.subcommand};
  if (parsed.error) return std::unexpected(*parsed.error);
  if (parsed.subcommand == Subcommand::version) return ShowVersion{};
  if (parsed.subcommand == Subcommand::help) return help_request(parsed.job);
  if (parsed.subcommand == Subcommand::completion) return completion_request(parsed.job);
  return std::monostate{};
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
    case Subcommand::pause:
      return pause_request(options);
    case Subcommand::resume:
      return resume_request(options);
    case Subcommand::inspect:
      return inspect_request(options);
    case Subcommand::wait:
      return wait_request(options);
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
    case Subcommand::help:
    case Subcommand::version:
    case Subcommand::completion:
      break;
  }
  std::unreachable();  // text_request() has answered the last three
}

Result<Request> read_request(const Values& options, const OutputOptions& output) {
  DBLOCK_TRY(auto request, make_request(*options.parsed().subcommand, options));
  auto* const history = std::get_if<app::HistoryRequest>(&request);
  if (history != nullptr && output.shape == Shape::html && !options.find("limit"))
    history->query.limit = k_runs_of_a_page;
  auto* const inspect = std::get_if<app::InspectRequest>(&request);
  if (inspect == nullptr || output.shape == Shape::table || output.shape == Shape::csv) return request;
  // Free locks too: a free lock's series must go on, to show how long ago its job last succeeded.
  if (output.shape == Shape::prometheus) inspect->all = true;
  if (!inspect->watch) return request;
  return fail(Errc::usage,
              "inspect: --format prometheus and html are one document a file; run them from a "
              "timer instead of --watch");
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
  auto text = text_request(parsed);
  take_error(line, text);
  if (text && !std::holds_alternative<std::monostate>(*text)) {
    line.request = std::move(*text);
    return line;
  }
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
