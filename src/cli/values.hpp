// Values of options from every source, laid over each other: flag, environment, configuration file, default.
// Typed ones are made of them, within the bounds of the option table.
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
#include "cli/option_spec.hpp"
#include "cli/parse.hpp"

namespace dblock::cli {

// What of the process the reader looks at; tests replace it.
struct Surroundings {
  std::function<std::optional<std::string>(const std::string& name)> variable;
  std::string system_config = "/etc/dblock.conf";
  bool root = false;  // the effective user is root

  // The variable's value; nullopt when it is unset or empty.
  [[nodiscard]] std::optional<std::string> get(const std::string& name) const;
};

enum class Rank { fallback, system_config, user_config, environment, flag };

// One value and who said so: "--ttl", "DBLOCK_TTL" or "/etc/dblock.conf: ttl".
struct Sourced {
  std::string text;
  std::string label;
  Rank rank = Rank::fallback;

  // The configuration file that says so; empty where none does.
  [[nodiscard]] std::string file() const;

  // The error of a bad value: Errc::config from a file, else Errc::usage; the message starts with the label.
  [[nodiscard]] std::unexpected<Error> refuse(const std::string& why) const;
};

// Signal number for NAME with or without SIG, in any case, or for a number. nullopt when there is none.
[[nodiscard]] std::optional<int> parse_signal(std::string_view text);

// The place of `value` among the option's choices.
[[nodiscard]] Result<std::size_t> choice_index(const Sourced& value, const OptionSpec& spec);

// Each reads `value` as the option's kind says. The kind allows these types: bool for a flag, a string for a
// text, a name or a choice, an enumeration for a choice, an integer that holds the bounds for a count or a
// signal, double for a factor, Micros for a duration.
[[nodiscard]] Result<void> convert(const Sourced& value, const OptionSpec& spec, bool& into);
[[nodiscard]] Result<void> convert(const Sourced& value, const OptionSpec& spec, std::string& into);
[[nodiscard]] Result<void> convert(const Sourced& value, const OptionSpec& spec, std::uint64_t& into);
[[nodiscard]] Result<void> convert(const Sourced& value, const OptionSpec& spec, double& into);
[[nodiscard]] Result<void> convert(const Sourced& value, const OptionSpec& spec, Micros& into);
// For a limit or an interval as well: nullopt is none.
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
  // What was typed, and what variables say; then configuration files: --config FILE (must exist), else the
  // system's and the user's (may be missing). Keeps references to both.
  Values(const ParsedWords& parsed, const Surroundings& surroundings);
  [[nodiscard]] Result<void> add_config_files(Subcommand command);

  [[nodiscard]] const ParsedWords& parsed() const { return parsed_; }
  [[nodiscard]] const Surroundings& surroundings() const { return surroundings_; }

  // The winner: highest rank, the last one within it. Falls back on the option table.
  [[nodiscard]] std::optional<Sourced> find(std::string_view name) const;
  // Every value of the highest rank that has any.
  [[nodiscard]] std::vector<Sourced> all(std::string_view name) const;
  [[nodiscard]] bool typed(std::string_view name) const;  // on the command line

  // The winner as convert() reads it. An option that nobody set and that has no default leaves `into` alone.
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
  [[nodiscard]] Result<bool> add_config_file(Rank rank, const std::string& path, Subcommand command);

  const ParsedWords& parsed_;
  const Surroundings& surroundings_;
  Scope scope_;
  std::vector<Entry> entries_;
};

}  // namespace dblock::cli
