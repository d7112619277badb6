// The one table of subcommands and options. The parser and --help read it; tests check man page and
// completions against --help. An option's help text stands only here.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options/value_spec.hpp"

namespace dblock::cli {

enum class Subcommand {
  run,
  acquire,
  renew,
  release,
  pause,
  resume,
  inspect,
  wait,
  history,
  reap,
  migrate,
  doctor,
  help,
  version,
  completion,
  keys
};

// A set of subcommands. k_global stands for options of all subcommands, typed before or after the subcommand.
using Scope = unsigned;
constexpr Scope scope_of(Subcommand command) {
  return 2U << static_cast<unsigned>(command);
}
inline constexpr Scope k_global = 1U;
inline constexpr Scope k_any = ~Scope{0};
// The options allowed with `command`; without a command, only the global ones.
constexpr Scope scope_with(std::optional<Subcommand> command) {
  return k_global | (command ? scope_of(*command) : Scope{0});
}

struct OptionSpec {
  std::string_view name;  // without its dashes
  char letter = 0;        // 0: no short form
  ValueSpec value;
  std::string_view default_value;  // written as a user would type it; empty: none
  std::string_view default_note;   // --help's words for a default that is no fixed value; see Kind::interval
  std::string_view help;
  std::string_view group;
  Scope scope = 0;
  bool repeats = false;  // may be given several times, and every value counts; else the last one wins
  // Its place among the options that lead a help too long for a screen. 0: below the heading "Advanced".
  unsigned leading_place = 0;

  [[nodiscard]] bool is_flag() const { return value.kind == Kind::flag; }
  [[nodiscard]] bool may_lack_value() const { return value.kind == Kind::interval; }
};

struct SubcommandSpec {
  Subcommand id;
  std::string_view name;
  std::string_view summary;
  std::string_view synopsis;   // the words after "dblock NAME "
  std::string_view examples;   // two lines
  std::string_view note = {};  // a sentence after the summary
  // Prints a text of its own. It has no options, no --help and no manual page, and reads no configuration.
  bool prints_text = false;
  bool hidden = false;  // only the shell completions call it; --help does not list it
};

[[nodiscard]] std::span<const OptionSpec> option_specs();
[[nodiscard]] std::span<const SubcommandSpec> subcommand_specs();
[[nodiscard]] const SubcommandSpec& spec_of(Subcommand command);
[[nodiscard]] std::optional<Subcommand> find_subcommand(std::string_view name);
// True if the subcommand takes words that are no options: the job's, or what it prints a text about.
[[nodiscard]] bool takes_words(Subcommand command);

// The option with this name (or letter) in `scope`; null if there is none.
[[nodiscard]] const OptionSpec* find_option(std::string_view name, Scope scope);
[[nodiscard]] const OptionSpec* find_option(char letter, Scope scope);

// dblock's word ("--wait", "inspect") for an option or subcommand of another tool; empty if none is known.
[[nodiscard]] std::string_view option_meant(std::string_view typed, Scope scope);
[[nodiscard]] std::string_view subcommand_meant(std::string_view typed);

// The values that the option allows; empty: any value.
[[nodiscard]] std::vector<std::string_view> choices_of(const OptionSpec& spec);

// "DBLOCK_KILL_GRACE"; empty for options that no environment variable sets.
[[nodiscard]] std::string environment_name(const OptionSpec& spec);
// The names, without DBLOCK_, of all variables that dblock reads, or sets for jobs and hooks.
[[nodiscard]] std::vector<std::string> variable_names();
// False for the options that make no sense in a configuration file: --config, --help, --version.
[[nodiscard]] bool allowed_in_config(const OptionSpec& spec);

// "run, acquire": the subcommands of `scope`, for messages.
[[nodiscard]] std::string names_of(Scope scope);

}  // namespace dblock::cli
