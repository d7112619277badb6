// The kinds and bounds of option values, for the option table.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

namespace dblock::cli {

enum class Kind {
  flag,    // no value
  text,    // any text
  name,    // of a key, a file or an account; `--key -x` is refused, because -x is more likely an option
  choice,  // one of a few words
  duration,
  limit,     // a duration, or `forever` for no limit
  interval,  // a duration, or no; yes or no value at all means the duration in the option's default_note
  count,     // a whole number
  factor,    // a number
  signal,    // a name or a number
};

// Smallest and largest value: a number, a duration in microseconds, or a name's length in bytes.
struct Bounds {
  std::string_view refusal{};  // the message for a value out of bounds; a count above `most` has its own
  std::uint64_t least = 0;
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
};

struct ValueSpec {
  Kind kind = Kind::flag;
  std::string_view shown{};  // the placeholder in --help, such as KEY
  Bounds bounds{};
  std::string_view choices{};  // the allowed values, blank-separated; an enumeration's in its order
};

// The values that options take.
namespace takes {

inline constexpr std::uint64_t k_second = 1'000'000;
inline constexpr std::uint64_t k_day = 86'400 * k_second;

inline constexpr ValueSpec nothing{};
inline constexpr ValueSpec key{Kind::name, "KEY"};
inline constexpr ValueSpec prefix{Kind::name, "P"};
inline constexpr ValueSpec file{Kind::name, "FILE"};
inline constexpr ValueSpec output_file{
    Kind::name, "FILE", {"the file name is empty; name a file, or leave the option out", 1}};
inline constexpr ValueSpec user{
    Kind::name, "USER", {"the user's name is empty; write for example 'jobs@%'", 1}};
inline constexpr ValueSpec duration{Kind::duration, "D"};
inline constexpr ValueSpec period{Kind::duration, "D", {"must be more than 0", 1}};
// The bound of a lease: people take a lock that is held for longer to be stuck.
inline constexpr ValueSpec hold{
    Kind::duration, "D", {"must be at most 30d, the longest lease", 0, 30 * k_day}};
// A run that is started once a day must not meet the next one.
inline constexpr ValueSpec splay{
    Kind::duration, "D", {"must be at most 1d, so that a daily run has begun before the next", 0, k_day}};
// A blocked statement keeps its old clock for hours (I2).
inline constexpr std::string_view k_too_short =
    "rows must be idle for at least 1d before they are deleted, so that tokens stay increasing";
inline constexpr ValueSpec idle{Kind::duration, "D", {k_too_short, k_day}};
// More is a mistake in the unit, and the sum with the clock must be a date.
inline constexpr ValueSpec pause{
    Kind::duration, "D", {"must be more than 0 and at most 3650d", 1, 3650 * k_day}};
inline constexpr ValueSpec time{Kind::text, "TIME"};
inline constexpr ValueSpec wait{Kind::limit, "D|forever"};
inline constexpr ValueSpec limit{Kind::limit, "D"};
inline constexpr ValueSpec interval{
    Kind::interval, "[D]", {"must be at least 100ms, which is faster than anybody reads", k_second / 10}};
inline constexpr ValueSpec pid{
    Kind::count,
    "PID",
    {"0 is not a process; give the pid of the process to hold the lock for, such as $$", 1, 2'147'483'647}};
inline constexpr ValueSpec factor{
    Kind::factor, "X", {"must be at least 1, so that pauses do not shrink to nothing", 1}};

constexpr ValueSpec text(std::string_view shown) {
  return {Kind::text, shown};
}
constexpr ValueSpec signal(std::string_view shown) {
  return {Kind::signal, shown};
}
constexpr ValueSpec count(std::string_view shown, std::uint64_t least = 0,
                          std::uint64_t most = Bounds{}.most) {
  return {Kind::count, shown, {{}, least, most}};
}
constexpr ValueSpec choice(std::string_view shown, std::string_view choices) {
  return {Kind::choice, shown, {}, choices};
}

}  // namespace takes
}  // namespace dblock::cli
