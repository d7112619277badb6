// argv, the environment and a configuration file together, through the whole reader of options: the request
// keeps the bounds that dblock(1) promises, and the job's words stay as they are. Starts nothing.
#include <algorithm>
#include <map>

#include "cli/command_line.hpp"
#include "cli/options/help.hpp"
#include "cli/options/password.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/secret.hpp"
#include "fuzz/workplace.hpp"
#include "lease/timing.hpp"

namespace dblock::fuzz {
namespace {

using Words = std::vector<std::string>;

struct Typed {
  Words words;
  std::map<std::string, std::string> variables;
  std::string config;
};

// A word a line; $NAME=VALUE is a variable; what follows a line "%" is the configuration file.
Typed typed_in(Input& input) {
  Typed typed;
  while (!input.empty()) {
    std::string line = input.until('\n');
    std::erase(line, '\0');
    if (line == "%") {
      typed.config = input.rest();
    } else if (line.starts_with('$')) {
      const auto equals = std::min(line.find('='), line.size());
      typed.variables[line.substr(1, equals - 1)] = line.substr(std::min(equals + 1, line.size()));
    } else {
      typed.words.push_back(std::move(line));
    }
  }
  return typed;
}

cli::Environment environment_of(const Typed& typed) {
  cli::Environment environment;
  environment.system_config = workplace() + "/dblock.conf";
  for (const auto& variable : typed.variables)
    if (variable.first.starts_with("DBLOCK_")) environment.own_names.push_back(variable.first);
  environment.variable = [&typed](const std::string& name) -> std::optional<std::string> {
    const auto found = typed.variables.find(name);
    // Homes and other configuration are files that are not the input's.
    const bool file = name == "HOME" || name.starts_with("XDG_") || name == "DBLOCK_CONFIG";
    return file || found == typed.variables.end() ? std::nullopt : std::optional(found->second);
  };
  return environment;
}

void check_timing(const lease::Timing& timing, const std::string& shown) {
  using namespace std::chrono_literals;
  demand(timing.ttl >= 1s && timing.ttl <= 720h, "a lease is 1s to 30d long", shown);
  demand(timing.heartbeat > 0s && timing.margin >= 0s && timing.margin <= timing.ttl, "times are in bounds",
         shown);
  demand(2 * timing.heartbeat + timing.kill_grace + timing.slack <= timing.ttl, "one renewal may fail",
         shown);
}

void check_run(const app::RunRequest& request, const std::string& shown) {
  check_timing(request.timing, shown);
  demand(request.conflict_exit_code >= 0 && request.conflict_exit_code <= 255, "an exit code is one", shown);
  demand(request.first_signal >= 1 && request.first_signal <= 64, "a signal is one", shown);
  demand(request.shell_command.has_value() == request.command.empty(), "there is one command", shown);
  const auto keys = lease::keys_of(request.key, request.further_keys);
  demand(std::ranges::adjacent_find(keys, std::greater_equal<>()) == keys.end(),
         "keys are sorted, and each is there once", shown);
  demand(!request.max_runtime || *request.max_runtime >= Micros{0}, "no time is negative", shown);
  demand(request.sharing.slots >= 1, "there is a slot", shown);
  const bool plain =
      request.further_keys.empty() && request.any.empty() && request.sharing.mode == lease::Mode::exclusive;
  demand(!request.promises.once_per || plain, "--once-per is kept for one key alone", shown);
}

// What is the same in two requests of the same words.
std::string gist(const app::RunRequest& request) {
  return request.key.bytes() + std::to_string(request.timing.ttl.count()) + "," +
         std::to_string(request.wait.limit.value_or(Micros{-1}).count()) + "," +
         std::to_string(request.conflict_exit_code) + request.identity.note;
}

// Whatever follows the command belongs to the job, untouched.
void check_job(const Typed& typed, const app::RunRequest& request, const cli::Environment& environment,
               const std::string& shown) {
  if (request.command.empty()) return;
  Words more = typed.words;
  more.insert(more.end(), {"--ttl", "bad", "-k", "--help"});
  const auto line = cli::read_command_line(cli::parse_words(more), environment);
  const auto* const again = std::get_if<app::RunRequest>(&line.request);
  demand(again != nullptr, "the job's words are no options", shown);
  demand(std::ranges::equal(
             again->command,
             Words(more.end() - static_cast<std::ptrdiff_t>(again->command.size()), more.end())) &&
             again->command.size() == request.command.size() + 4,
         "the job's words stay as they are", shown);
  demand(gist(*again) == gist(request), "the job's words change nothing else", shown);
}

void check_request(const Typed& typed, const cli::CommandLine& line, const cli::Environment& environment,
                   const std::string& shown) {
  if (const auto* const run = std::get_if<app::RunRequest>(&line.request)) {
    check_run(*run, shown);
    check_job(typed, *run, environment, shown);
  }
  if (const auto* const acquire = std::get_if<app::AcquireRequest>(&line.request))
    check_timing(acquire->timing, shown);
  if (const auto* const release = std::get_if<app::ReleaseRequest>(&line.request))
    demand(release->force || release->owner, "a release names an owner, or uses force", shown);
  if (const auto* const help = std::get_if<cli::ShowHelp>(&line.request))
    demand(is_harmless(cli::help_text(help->about), "\n"), "help is harmless", shown);
}

// A password that is typed is gone from argv.
void check_hidden(Words words, const cli::ParsedWords& parsed, const std::string& shown) {
  words.insert(words.begin(), "dblock");
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  cli::hide_passwords(argv.data(), parsed);
  for (const auto& option : parsed.options) {
    if (option.name != "db" || option.value.find(":" + std::string(k_secret) + "@") == std::string::npos)
      continue;
    const auto scheme = option.value.find("://");
    if (scheme == std::string::npos || option.value.find(k_secret) < scheme + 3) continue;
    demand_no_secret(words[option.word + 1].c_str(), shown);
  }
}

std::string_view run_command_line(Input input) {
  const Typed typed = typed_in(input);
  std::string shown;
  for (const auto& word : typed.words) shown += word + "\n";
  if (shown.size() > 4096 || typed.config.size() > 4096) return "too long";
  const auto parsed = cli::parse_words(typed.words);
  for (const auto& option : parsed.options)
    if (option.name == "config") return "another file";
  write_here("dblock.conf", typed.config);
  const auto environment = environment_of(typed);
  check_hidden(typed.words, parsed, shown);
  const auto line = cli::read_command_line(parsed, environment);
  const bool empty = std::holds_alternative<std::monostate>(line.request);
  demand(line.error.has_value() == empty, "there is a request or an error", shown);
  if (!line.error) {
    check_request(typed, line, environment, shown);
    return "request";
  }
  const bool known = line.error->code == Errc::usage || line.error->code == Errc::config;
  demand(known && !line.error->message.empty(), "a refusal is of usage or configuration, and says why",
         shown);
  const auto password = typed.variables.find("DBLOCK_PASSWORD");
  if (password != typed.variables.end() && password->second == k_secret &&
      shown.find(k_secret) == std::string::npos && typed.config.find(k_secret) == std::string::npos &&
      typed.variables.size() == 1)
    demand_no_secret(line.error->message, shown);
  return "refused";
}

}  // namespace
}  // namespace dblock::fuzz

DBLOCK_FUZZ_TARGET(command_line, dblock::fuzz::run_command_line)
