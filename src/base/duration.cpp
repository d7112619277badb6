#include "base/duration.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>

#include "base/text.hpp"

namespace dblock {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t micros;
};

// Longest first: a duration names its units in this order, each at most once.
constexpr std::array<Unit, 6> k_units{{
    {"d", 86'400'000'000},
    {"h", 3'600'000'000},
    {"m", 60'000'000},
    {"s", 1'000'000},
    {"ms", 1'000},
    {"us", 1},
}};
constexpr std::int64_t k_longest = 36'500 * k_units[0].micros;  // 100 years: far from any overflow

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view take_while(std::string_view& text, bool (*belongs)(char)) {
  std::size_t n = 0;
  while (n < text.size() && belongs(text[n])) ++n;
  const auto taken = text.substr(0, n);
  text.remove_prefix(n);
  return taken;
}

std::unexpected<Error> refuse(std::string_view text, std::string_view why) {
  return fail(Errc::usage, quote_untrusted(text) + " " + std::string(why));
}

// digits x unit, or nothing when that is beyond the longest duration.
std::optional<std::int64_t> whole_micros(std::string_view digits, std::int64_t unit) {
  std::int64_t value = 0;
  for (const char c : digits) {
    value = value * 10 + (c - '0');
    if (value > k_longest / unit) return std::nullopt;
  }
  return value * unit;
}

// .digits x unit, or nothing when that is not a whole number of microseconds.
std::optional<std::int64_t> fraction_micros(std::string_view digits, std::int64_t unit) {
  while (digits.ends_with('0')) digits.remove_suffix(1);
  if (digits.size() > 8) return std::nullopt;  // 8 digits of a day still fit into 64 bits
  std::int64_t value = 0;
  std::int64_t scale = 1;
  for (const char c : digits) {
    value = value * 10 + (c - '0');
    scale *= 10;
  }
  if (value * unit % scale != 0) return std::nullopt;
  return value * unit / scale;
}

bool is_unit_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::unexpected<Error> no_unit(std::string_view text, bool bare_number) {
  if (bare_number) return refuse(text, "has no unit; write " + std::string(text) + "s");
  return refuse(text, "ends in a number without a unit (ms, s, m, h or d)");
}

std::string decimal(std::int64_t value, std::int64_t unit, int digits) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%lld.%0*lld", static_cast<long long>(value / unit), digits,
                static_cast<long long>(value % unit));
  std::string out = text.data();
  while (out.back() == '0') out.pop_back();
  if (out.back() == '.') out.pop_back();
  return out;
}

}  // namespace

Result<Micros> parse_duration(std::string_view text) {
  if (text.empty()) return fail(Errc::usage, "a duration is missing; write for example 30s or 1h30m");
  if (text == "0") return Micros{0};
  if (text[0] == '-') return refuse(text, "is negative; a duration counts forward");
  std::int64_t total = 0;
  std::size_t next_unit = 0;
  for (auto rest = text; !rest.empty();) {
    const auto whole = take_while(rest, is_digit);
    std::string_view fraction;
    if (!whole.empty() && rest.starts_with('.')) {
      rest.remove_prefix(1);
      fraction = take_while(rest, is_digit);
      if (fraction.empty()) return refuse(text, "is not a duration; write for example 30s or 1h30m");
    }
    if (whole.empty()) return refuse(text, "is not a duration; write for example 30s or 1h30m");
    if (rest.empty()) return no_unit(text, whole.size() == text.size());
    const auto name = take_while(rest, is_unit_letter);
    std::size_t i = 0;
    while (i < k_units.size() && k_units[i].name != name) ++i;
    if (i == k_units.size()) return refuse(text, "has an unknown unit; the units are ms, s, m, h and d");
    if (i < next_unit) return refuse(text, "must name each unit once, the longest first, as in 1h30m");
    next_unit = i + 1;
    const auto large = whole_micros(whole, k_units[i].micros);
    const auto small = fraction_micros(fraction, k_units[i].micros);
    if (!small) return refuse(text, "is finer than a microsecond; round it");
    if (!large || total + *large + *small > k_longest)
      return refuse(text, "is longer than 100 years; write a shorter one");
    total += *large + *small;
  }
  return Micros{total};
}

std::string format_duration(Micros value) {
  std::int64_t rest = value.count();
  if (rest == 0) return "0";
  if (rest < 0) return "-" + format_duration(-std::max(value, -Micros::max()));
  std::string out;
  for (const auto& unit : {k_units[0], k_units[1], k_units[2]}) {
    if (rest < unit.micros) continue;
    out += std::to_string(rest / unit.micros) + std::string(unit.name);
    rest %= unit.micros;
  }
  if (rest >= 1'000'000) return out + decimal(rest, 1'000'000, 6) + "s";
  if (rest >= 1'000) return out + decimal(rest, 1'000, 3) + "ms";
  if (rest > 0) return out + std::to_string(rest) + "us";
  return out;
}

std::string format_age(Micros value) {
  const std::int64_t micros = value.count();
  if (micros < 0) return "0s";
  if (micros < 1'000'000) return std::to_string(micros / 1'000) + "ms";
  if (micros < 10'000'000) return decimal(micros / 100'000, 10, 1) + "s";  // tenths matter only when short
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& unit = k_units[i];
    if (micros < unit.micros) continue;
    const auto& finer = k_units[i + 1];
    const auto second = micros % unit.micros / finer.micros;
    auto out = std::to_string(micros / unit.micros) + std::string(unit.name);
    if (second != 0) out += std::to_string(second) + std::string(finer.name);
    return out;
  }
  return std::to_string(micros / 1'000'000) + "s";
}

}  // namespace dblock
