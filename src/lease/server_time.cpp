#include "lease/server_time.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <system_error>

namespace dblock::lease {
namespace {

// A number of exactly `digits` digits at the front of `text`, which it takes off; nullopt where there is
// none.
std::optional<int> take_number(std::string_view& text, std::size_t digits) {
  int number = 0;
  const auto* const end = text.data() + std::min(digits, text.size());
  const auto read = std::from_chars(text.data(), end, number);
  if (text.size() < digits || text.front() == '-' || read.ec != std::errc() || read.ptr != end)
    return std::nullopt;
  text.remove_prefix(digits);
  return number;
}

bool take(std::string_view& text, std::string_view one_of) {
  if (text.empty() || one_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

// Two numbers of two digits with a colon between them: hours and minutes.
std::optional<std::chrono::minutes> take_minutes(std::string_view& text) {
  const auto hours = take_number(text, 2);
  if (!hours || !take(text, ":")) return std::nullopt;
  const auto minutes = take_number(text, 2);
  if (!minutes || *hours > 23 || *minutes > 59) return std::nullopt;
  return std::chrono::hours(*hours) + std::chrono::minutes(*minutes);
}

std::optional<Micros> take_date(std::string_view& text) {
  const auto year = take_number(text, 4);
  if (!year || !take(text, "-")) return std::nullopt;
  const auto month = take_number(text, 2);
  if (!month || !take(text, "-")) return std::nullopt;
  const auto day = take_number(text, 2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch();
}

// Seconds, with a fraction whose digits after the sixth do not count.
std::optional<Micros> take_seconds(std::string_view& text) {
  const auto seconds = take_number(text, 2);
  if (!seconds || *seconds > 59) return std::nullopt;
  Micros time = std::chrono::seconds(*seconds);
  if (!take(text, ".")) return time;
  const auto digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0) return std::nullopt;
  auto fraction = std::string(text.substr(0, std::min<std::size_t>(digits, 6)));
  fraction.resize(6, '0');
  text.remove_prefix(digits);
  return time + Micros{std::stoi(fraction)};
}

ServerTime start_of(int year) {
  return {std::chrono::sys_days(std::chrono::year(year) / 1 / 1).time_since_epoch()};
}

std::optional<std::chrono::minutes> take_offset(std::string_view& text) {
  if (take(text, "Zz")) return std::chrono::minutes(0);
  const bool west = text.starts_with('-');
  if (!take(text, "+-")) return std::nullopt;
  const auto offset = take_minutes(text);
  if (!offset) return std::nullopt;
  return west ? -*offset : *offset;
}

}  // namespace

// Not strftime(): it would read the time zone's file at every start.
std::string format_time(ServerTime time) {
  const auto days = std::chrono::floor<std::chrono::days>(time.since_epoch);
  const std::chrono::year_month_day date{std::chrono::sys_days(days)};
  const std::chrono::hh_mm_ss clock(time.since_epoch - days);
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02ld:%02ld:%02ld.%06ldZ",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<long>(clock.hours().count()),
                static_cast<long>(clock.minutes().count()), static_cast<long>(clock.seconds().count()),
                static_cast<long>(clock.subseconds().count()));
  return text.data();
}

std::optional<ServerTime> parse_time(std::string_view text) {
  const auto date = take_date(text);
  if (!date || !take(text, "Tt ")) return std::nullopt;
  const auto minutes = take_minutes(text);
  if (!minutes || !take(text, ":")) return std::nullopt;
  const auto seconds = take_seconds(text);
  if (!seconds) return std::nullopt;
  const auto offset = take_offset(text);
  if (!offset || !text.empty()) return std::nullopt;
  const ServerTime time{*date + *minutes + *seconds - *offset};
  // An offset may lead out of the years that the format can write.
  return time >= start_of(0) && time < start_of(10'000) ? std::optional(time) : std::nullopt;
}

}  // namespace dblock::lease
