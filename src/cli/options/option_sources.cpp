// Where an option may be set other than on the command line.
#include "cli/options/option_spec.hpp"

namespace dblock::cli {
namespace {

constexpr std::string_view k_prefix = "DBLOCK_";

}  // namespace

bool allowed_in_config(const OptionSpec& spec) {
  return spec.name != "config" && spec.name != "help" && spec.name != "version";
}

std::string environment_name(const OptionSpec& spec) {
  // The job inherits the variables, and with them each dblock within the job: an option whose effect adds up
  // must see to that, as hook() in requests.cpp does. dblock sets DBLOCK_KEY for the job. If --key read it, a
  // nested dblock would use its parent's lock; and --any names locks as well.
  const bool wanted =
      (spec.scope & (k_global | scope_of(Subcommand::run) | scope_of(Subcommand::acquire))) != 0;
  if (!wanted || spec.name == "key" || spec.name == "any" || spec.name == "help" || spec.name == "version")
    return {};
  std::string name(k_prefix);
  for (const char c : spec.name) {
    name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return name;
}

std::vector<std::string> variable_names() {
  std::vector<std::string> names{"PASSWORD",        "PASSWORD_FILE", "HOLDER",       "KEY",     "OWNER",
                                 "TOKEN",           "SLOT",          "HELD",         "EVENT",   "MESSAGE",
                                 "OUTCOME",         "EXIT_CODE",     "CONFLICT_KEY", "ATTEMPT", "FAILURES",
                                 "CONFLICT_HOLDER", "CONFLICT_NOTE"};
  for (const auto& spec : option_specs()) {
    if (const auto name = environment_name(spec); !name.empty())
      names.push_back(name.substr(k_prefix.size()));
  }
  return names;
}

}  // namespace dblock::cli
