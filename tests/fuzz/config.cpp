// dblock.conf, for each subcommand: what is accepted is known, what is refused is named by file and line.
#include <algorithm>
#include <charconv>

#include "cli/options/config_file.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/secret.hpp"

namespace dblock::fuzz {
namespace {

using Values = std::vector<cli::ConfigValue>;

bool same(const Values& a, const Values& b) {
  return std::ranges::equal(
      a, b, [](const auto& x, const auto& y) { return x.name == y.name && x.value == y.value; });
}

void check_entries(const std::string& text, const Values& values) {
  for (const auto& value : values) {
    const bool entry = value.name == cli::k_password_command || value.name == cli::k_password_file;
    const auto* const spec = cli::find_option(value.name, cli::k_any);
    demand(entry || (spec != nullptr && cli::allowed_in_config(*spec)), "an entry is known", text);
    demand(value.value.find('\n') == std::string::npos, "an entry is one line", text);
    demand(text.find(value.value) != std::string::npos, "a value is what stands there", text);
  }
}

void check_refusal(const std::string& text, const Error& error) {
  demand(error.code == Errc::config, "a bad file is bad configuration", text);
  const std::string_view message = error.message;
  constexpr std::string_view k_path = "/etc/x.conf:";
  demand(message.starts_with(k_path), "a refusal names the file", text);
  long line = 0;
  std::from_chars(message.data() + k_path.size(), message.data() + message.size(), line);
  demand(line >= 1 && line <= std::ranges::count(text, '\n') + 1, "a refusal names a line of it", text);
}

std::string_view run_config(Input input) {
  const std::string text = input.rest();
  if (text.size() > 4096) return "too long";
  bool refused = false;
  for (const auto& command : cli::subcommand_specs()) {
    const auto values = cli::parse_config(text, "/etc/x.conf", command.id);
    if (!values) check_refusal(text, values.error());
    // A mistake in a section of another subcommand is found, too: every subcommand says the same of a file.
    demand(&command == &cli::subcommand_specs().front() || refused == !values,
           "a file is good for all or none", text);
    refused = !values;
    if (!values) continue;
    check_entries(text, *values);
    const auto marked =
        cli::parse_config("\xef\xbb\xbf" + text + "\n# a comment\n", "/etc/x.conf", command.id);
    const bool has_mark = text.starts_with("\xef\xbb\xbf");
    demand(has_mark || (marked && same(*marked, *values)), "a mark and a comment change nothing", text);
  }
  // A value, or a line that is no option, may be a secret.
  std::string planted = text;
  for (std::size_t at = 0; (at = planted.find('\x01', at)) != std::string::npos; at += k_secret.size())
    planted.replace(at, 1, k_secret);
  const auto faulty = cli::parse_config(planted, "/etc/x.conf", cli::Subcommand::run);
  if (!faulty && planted.find("sqlite:") == std::string::npos && planted.find('[') == std::string::npos)
    demand_no_secret(faulty.error().message, planted);
  return refused ? "refused" : "accepted";
}

}  // namespace
}  // namespace dblock::fuzz

DBLOCK_FUZZ_TARGET(config, dblock::fuzz::run_config)
