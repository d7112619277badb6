// A value as text becomes a typed one, within the bounds of the option table.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "cli/option_spec.hpp"

namespace dblock::cli {

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

}  // namespace dblock::cli
