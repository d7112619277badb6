#include "cli/options/help.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>

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

std::string option_groups(Scope scope, const char* before_group) {
  std::string text;
  std::string_view group;
  for (const auto& spec : option_specs()) {
    if ((spec.scope & scope) == 0) continue;
    if (spec.group != group) {
      group = spec.group;
      text += before_group + std::string(group) + ":\n";
    }
    text += option_line(spec);
  }
  return text;
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
  text += option_groups(k_global, "\n");
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
  const auto page = [&](const char* before_group) {
    return "Usage: dblock " + std::string(spec.name) + " " + std::string(spec.synopsis) + "\n" + summary +
           ".\n" + std::string(spec.note) + option_groups(scope_of(*command), before_group) +
           "Global options: see dblock --help.\nExamples:\n" + std::string(spec.examples);
  };
  std::string text = page("\n");
  // A page too long for a screen loses its empty lines.
  return std::ranges::count(text, '\n') > k_screen_lines ? page("") : text;
}

std::string version_text() {
  const auto library = store::client_library_in_use();
  return "dblock " DBLOCK_VERSION "\nMariaDB's client library: " +
         (library ? escape_untrusted(*library)
                  : "none, which only the embedded store can do without; " + library.error().message) +
         "\n";
}

}  // namespace dblock::cli
