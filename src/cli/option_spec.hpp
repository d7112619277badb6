// The one table of subcommands and options. It feeds the parser and --help; man page and completion are
// checked against --help. An option's text lives here and nowhere else.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/value_spec.hpp"

namespace dblock::cli {

enum class Subcommand { run, acquire, renew, release, inspect, history, reap, migrate, doctor, keys };

// A set of subcommands; k_global stands for options that work with all of them, before and after the name.
using Scope = unsigned;
constexpr Scope scope_of(Subcommand command) {
  return 2U << static_cast<unsigned>(command);
}
inline constexpr Scope k_global = 1U;
inline constexpr Scope k_any = ~Scope{0};
// The options that may be typed once `command` has been named, or before.
constexpr Scope scope_with(std::optional<Subcommand> command) {
  return k_global | (command ? scope_of(*command) : Scope{0});
}

struct OptionSpec {
  std::string_view name;  // without its dashes
  char letter = 0;        // 0: no short form
  ValueSpec value;
  std::string_view fallback;  // the value when none is given; read like one that was typed
  std::string_view remark;    // what --help says of a default that is no fixed value
  std::string_view help;
  std::string_view group;
  Scope scope = 0;
  bool repeats = false;  // each one counts, not the last alone

  [[nodiscard]] bool is_flag() const { return value.kind == Kind::flag; }
  [[nodiscard]] bool may_lack_value() const { return value.kind == Kind::interval; }
};

struct SubcommandSpec {
  Subcommand id;
  std::string_view name;
  std::string_view summary;
  std::string_view synopsis;     // what follows "dblock NAME "
  std::string_view examples;     // two lines
  std::string_view remark = {};  // a sentence after the summary
  bool hidden = false;           // for the completions, not for people
};

[[nodiscard]] std::span<const OptionSpec> option_specs();
[[nodiscard]] std::span<const SubcommandSpec> subcommand_specs();
[[nodiscard]] const SubcommandSpec& spec_of(Subcommand command);
[[nodiscard]] std::optional<Subcommand> find_subcommand(std::string_view name);

// The option called `name` (or `letter`) within `scope`; null when there is none.
[[nodiscard]] const OptionSpec* find_option(std::string_view name, Scope scope);
[[nodiscard]] const OptionSpec* find_option(char letter, Scope scope);

// What a word from the habit of another tool means here: "--wait", "inspect". Empty when nothing is known.
[[nodiscard]] std::string_view option_meant(std::string_view typed, Scope scope);
[[nodiscard]] std::string_view subcommand_meant(std::string_view typed);

// The only values there are; none: any.
[[nodiscard]] std::vector<std::string_view> choices_of(const OptionSpec& spec);

// "DBLOCK_KILL_GRACE"; empty for options that no variable sets.
[[nodiscard]] std::string environment_name(const OptionSpec& spec);
// False for what makes no sense in a file: --config itself, --help, --version.
[[nodiscard]] bool allowed_in_config(const OptionSpec& spec);

// "run, acquire": the subcommands of `scope`, for messages.
[[nodiscard]] std::string names_of(Scope scope);

}  // namespace dblock::cli
