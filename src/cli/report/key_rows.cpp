#include "cli/report/key_rows.hpp"

#include <algorithm>
#include <cstdio>

namespace dblock::cli {
namespace {

using lease::LockStatus;
using lease::ServerTime;

Sample seconds_of(const std::optional<Micros>& span) {
  return span ? Sample(in_seconds(*span)) : std::nullopt;
}

Sample seconds_of(const std::optional<ServerTime>& time) {
  return time ? Sample(in_seconds(time->since_epoch)) : std::nullopt;
}

std::optional<ServerTime> end_of(const lease::PastRun& run) {
  return run.released_at ? run.released_at : run.acquired_at;
}

// The last of all rows; a run of which nothing is known if there was none.
lease::PastRun last_run(const KeyRows& key) {
  std::optional<lease::PastRun> last;
  for (const auto& row : key.rows)
    if (row.last && (!last || end_of(*row.last) > end_of(*last))) last = row.last;
  return last.value_or(lease::PastRun{});
}

}  // namespace

// No double: it would round, and a locale might write a comma.
std::string in_seconds(Micros time) {
  const auto micros = time.count();
  const auto positive = micros < 0 ? -micros : micros;
  char text[32];
  std::snprintf(text, sizeof text, "%s%lld.%06lld", micros < 0 ? "-" : "",
                static_cast<long long>(positive / 1'000'000), static_cast<long long>(positive % 1'000'000));
  return text;
}

Sample count_in_state(const KeyRows& key, lease::State state) {
  return std::to_string(std::ranges::count(key.rows, state, &LockStatus::state));
}

Sample count_waiters(const KeyRows& key) {
  Sample count;
  for (const auto& row : key.rows)
    if (row.waiters) count = std::to_string(row.waiters->size());
  return count;
}

Sample longest_since(const KeyRows& key, std::optional<ServerTime> LockStatus::*time) {
  std::optional<Micros> longest;
  for (const auto& row : key.rows) {
    if (row.owner.empty() || !(row.*time)) continue;
    longest = std::max(longest.value_or(Micros{0}), row.server_time.since_epoch - (row.*time)->since_epoch);
  }
  return seconds_of(longest);
}

Sample until_first_end(const KeyRows& key) {
  std::optional<Micros> first;
  for (const auto& row : key.rows) {
    if (row.owner.empty() || !row.expires_at) continue;
    const Micros left = row.expires_at->since_epoch - row.server_time.since_epoch;
    first = std::min(first.value_or(left), left);
  }
  return seconds_of(first);
}

Sample last_end(const KeyRows& key) {
  return seconds_of(last_run(key).released_at);
}

Sample last_duration(const KeyRows& key) {
  const auto run = last_run(key);
  if (!run.acquired_at || !run.released_at) return std::nullopt;
  return in_seconds(run.released_at->since_epoch - run.acquired_at->since_epoch);
}

Sample last_outcome(const KeyRows& key) {
  const auto outcome = last_run(key).outcome;
  return outcome ? Sample(lease::to_string(*outcome)) : std::nullopt;
}

Sample last_exit_code(const KeyRows& key) {
  const auto code = last_run(key).exit_code;
  return code ? Sample(std::to_string(*code)) : std::nullopt;
}

Sample last_success_end(const KeyRows& key) {
  std::optional<ServerTime> end;
  for (const auto& row : key.rows)
    if (row.last_success) end = std::max(end, row.last_success->released_at);
  return !end && key.named ? Sample("0") : seconds_of(end);
}

}  // namespace dblock::cli
