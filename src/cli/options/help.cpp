#include "cli/options/help.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "store/open.hpp"

namespace dblock::cli {
namespace {

constexpr std::size_t k_text_column = 30;
constexpr std::ptrdiff_t k_screen_lines = 40;

std::string pad(std::string text, std::size_t width) {
  text.append(text.size() < width ? width - text.size() : 1, ' ');
  return text;
}

std::string default_of(const OptionSpec& spec) {
  if (spec.default_note == "required") return " (required)";
  const auto value = spec.default_value.empty() ? spec.default_note : spec.default_value;
  return value.empty() ? std::string() : " (default " + std::string(value) + ")";
}

std::string option_line(const OptionSpec& spec) {
  std::string head = spec.letter == 0 ? "      " : std::string("  -") + spec.letter + ", ";
  head += "--" + std::string(spec.name);
  if (!spec.is_flag()) head += " " + std::string(spec.value.shown);
  std::string line = pad(head, k_text_column);
  for (const char c : spec.help) {
    line += c;
    if (c == '\n') line.append(k_text_column, ' ');
  }
  return line + default_of(spec) + "\n";
}

std::vector<OptionSpec> options_of(Scope scope) {
  std::vector<OptionSpec> options;
  std::ranges::copy_if(option_specs(), std::back_inserter(options),
                       [&](const OptionSpec& spec) { return (spec.scope & scope) != 0; });
  return options;
}

std::string in_groups(std::span<const OptionSpec> options) {
  std::string text;
  std::string_view group;
  for (const auto& spec : options) {
    if (spec.group != group) {
      group = spec.group;
      text += "\n" + std::string(group) + ":\n";
    }
    text += option_line(spec);
  }
  return text;
}

// What most people need leads.
std::string long_list(std::vector<OptionSpec> options) {
  const auto leading =
      std::ranges::stable_partition(options, [](const auto& spec) { return spec.leading_place != 0; });
  const auto count = static_cast<std::size_t>(leading.begin() - options.begin());
  std::ranges::sort(options.begin(), leading.begin(), {}, &OptionSpec::leading_place);
  std::string text = "\n";
  for (const auto& spec : std::span(options).first(count)) text += option_line(spec);
  return text + "\nAdvanced:\n" + in_groups(std::span(options).subspan(count));
}

std::string general_help() {
  std::string text =
      "Usage: dblock [GLOBAL OPTIONS] SUBCOMMAND [OPTIONS] [--] [COMMAND [ARG...]]\n"
      "Run jobs under locks that a whole fleet respects: rows in MySQL or MariaDB;\n"
      "with --local, under locks that guard one user's jobs on this host only.\n"
      "\nSubcommands:\n";
  for (const auto& spec : subcommand_specs()) {
    if (spec.hidden || spec.prints_text) continue;
    text += pad("  " + std::string(spec.name), 12) + std::string(spec.summary) + "\n";
  }
  text += "Also: help [SUBCOMMAND], version, completion bash|zsh|fish.\n";
  text += "\nGlobal options, before or after the subcommand:\n";
  text += in_groups(options_of(k_global));
  return text +
         "\nA duration D carries its unit: 250ms, 30s, 5m, 2h, 1d, 1h30m.\n"
         "\nExamples:\n"
         "  dblock run --key nightly-etl -- /opt/etl/nightly.sh\n"
         "  dblock inspect --all\n";
}

}  // namespace

std::string help_text(std::optional<Subcommand> command) {
  if (!command || spec_of(*command).prints_text) return general_help();
  const auto& spec = spec_of(*command);
  std::string summary(spec.summary);
  summary[0] = static_cast<char>(summary[0] - 'a' + 'A');
  const auto page = [&](const std::string& options) {
    return "Usage: dblock " + std::string(spec.name) + " " + std::string(spec.synopsis) + "\n" + summary +
           ".\n" + std::string(spec.note) + options + "\nGlobal options: see dblock --help.\nExamples:\n" +
           std::string(spec.examples);
  };
  const auto options = options_of(scope_of(*command));
  const auto text = page(in_groups(options));
  return std::ranges::count(text, '\n') > k_screen_lines ? page(long_list(options)) : text;
}

std::string version_text() {
  const auto library = store::client_library_in_use();
  return "dblock " DBLOCK_VERSION "\nMariaDB's client library: " +
         (library ? escape_untrusted(*library)
                  : "none, which only the embedded store can do without; " + library.error().message) +
         "\n";
}

}  // namespace dblock::cli
