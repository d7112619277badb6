// Collects the values of options from the command line, the environment, configuration files and the option
// table, ranks them, and converts the winner to the caller's type within the bounds of the option table.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/small_file.hpp"
#include "cli/options/option_spec.hpp"
#include "cli/options/parse.hpp"

namespace dblock::cli {

// The process's environment, as far as the option reader uses it. Tests replace it.
struct Environment {
  std::function<std::optional<std::string>(const std::string& name)> variable;
  std::vector<std::string> own_names{};  // of the variables that begin with DBLOCK_
  std::string system_config = "/etc/dblock.conf";
  bool root = false;  // the effective user is root

  // The variable's value; nullopt when it is unset or empty.
  [[nodiscard]] std::optional<std::string> get(const std::string& name) const;
};

// Where a value comes from, weakest first. A value of higher rank wins.
enum class Rank { default_value, system_config, user_config, environment, flag };

// One value and its source. `label` names the source: "--ttl", "DBLOCK_TTL" or "/etc/dblock.conf: ttl".
struct Sourced {
  std::string text;
  std::string label;
  Rank rank = Rank::default_value;

  // Path of the configuration file that holds the value; empty when the value has another source.
  [[nodiscard]] std::string file() const;

  // The error for a bad value: Errc::config if a file holds it, else Errc::usage. The message starts with the
  // label.
  [[nodiscard]] std::unexpected<Error> refuse(const std::string& why) const;
};

// Signal number for a name (with or without SIG, in any case) or a number. nullopt if there is no such
// signal.
[[nodiscard]] std::optional<int> parse_signal(std::string_view text);

// Index of `value` in the option's choices; else an error that lists the choices.
[[nodiscard]] Result<std::size_t> choice_index(const Sourced& value, const OptionSpec& spec);

// Each converts `value` to `into` as the option's kind demands, or fails as value.refuse() does. Types
// allowed for each kind: flag: bool; text and name: string; choice: string, or an enumeration with its values
// in the order of the choices; count and signal: an integer that can hold the bounds; factor: double;
// duration: Micros.
[[nodiscard]] Result<void> convert(const Sourced& value, const OptionSpec& spec, bool& into);
[[nodiscard]] Result<void> convert(const Sourced& value, const OptionSpec& spec, std::string& into);
[[nodiscard]] Result<void> convert(const Sourced& value, const OptionSpec& spec, std::uint64_t& into);
[[nodiscard]] Result<void> convert(const Sourced& value, const OptionSpec& spec, double& into);
[[nodiscard]] Result<void> convert(const Sourced& value, const OptionSpec& spec, Micros& into);
// Also for kind limit (nullopt: `forever`) and kind interval (nullopt: switched off).
[[nodiscard]] Result<void> convert(const Sourced& value, const OptionSpec& spec, std::optional<Micros>& into);

template <typename T>
requires std::is_enum_v<T>
[[nodiscard]] Result<void> convert(const Sourced& value, const OptionSpec& spec, T& into) {
  DBLOCK_TRY(const auto index, choice_index(value, spec));
  into = static_cast<T>(index);
  return {};
}

template <std::integral T>
[[nodiscard]] Result<void> convert(const Sourced& value, const OptionSpec& spec, T& into) {
  std::uint64_t number = 0;
  DBLOCK_CHECK(convert(value, spec, number));
  into = static_cast<T>(number);
  return {};
}

template <typename T>
[[nodiscard]] Result<void> convert(const Sourced& value, const OptionSpec& spec, std::optional<T>& into) {
  return convert(value, spec, into.emplace());
}

class Values {
 public:
  // Takes the values that were typed and those of environment variables. Keeps references to both arguments.
  Values(const ParsedWords& parsed, const Environment& environment);
  // Adds the values of --config FILE, which must exist, else of the system's and the user's configuration
  // files, which may be missing. Errc::config for an unreadable or faulty file.
  [[nodiscard]] Result<void> add_config_files(Subcommand command);

  [[nodiscard]] const ParsedWords& parsed() const { return parsed_; }
  [[nodiscard]] const Environment& environment() const { return environment_; }

  // Sentences about the user's files that were not read because they are another user's.
  [[nodiscard]] const std::vector<std::string>& passed_over() const { return passed_over_; }

  // The winner: the last value of the highest rank, else the default of the option table, else nullopt.
  [[nodiscard]] std::optional<Sourced> find(std::string_view name) const;
  // All values of the highest rank that has any, in their order; for options that repeat.
  [[nodiscard]] std::vector<Sourced> all(std::string_view name) const;
  // True if the winner was typed on the command line.
  [[nodiscard]] bool typed(std::string_view name) const;

  // Converts the winner. `into` stays as it is if the option was not set and has no default.
  template <typename T>
  [[nodiscard]] Result<void> read(std::string_view name, T& into) const {
    const auto value = find(name);
    return value ? convert(*value, *find_option(name, scope_), into) : Result<void>();
  }
  template <typename T>
  [[nodiscard]] Result<T> get(std::string_view name) const {
    T value{};
    DBLOCK_CHECK(read(name, value));
    return value;
  }

 private:
  struct Entry {
    std::string_view name;
    Sourced value;
  };

  void add(Rank rank, std::string_view name, std::string text, std::string label);
  [[nodiscard]] Result<bool> add_config_file(Rank rank, const std::string& path, Subcommand command,
                                             Found found);

  const ParsedWords& parsed_;
  const Environment& environment_;
  Scope scope_;
  std::vector<Entry> entries_;
  std::vector<std::string> passed_over_;
};

}  // namespace dblock::cli
