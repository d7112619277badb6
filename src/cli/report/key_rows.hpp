// The rows of one key, and what Prometheus is told of them (private to the report files). Holders get no
// series of their own: that would need the owner id as a label, which makes a new series with every run.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "lease/lock_status.hpp"

namespace dblock::cli {

struct KeyRows {
  std::string labels;
  std::span<const lease::LockStatus> rows{};
  bool named = false;  // --key asked for it
};

// Microseconds as seconds with six decimals.
[[nodiscard]] std::string in_seconds(Micros time);

// The value that a metric has for a key; nullopt: none.
using Sample = std::optional<std::string>;

[[nodiscard]] Sample count_in_state(const KeyRows& key, lease::State state);
[[nodiscard]] Sample count_waiters(const KeyRows& key);
// How long ago `time` was, for the holder for whom that is longest.
[[nodiscard]] Sample longest_since(const KeyRows& key,
                                   std::optional<lease::ServerTime> lease::LockStatus::*time);
// Until the lease ends that ends first; below zero once it has ended.
[[nodiscard]] Sample until_first_end(const KeyRows& key);
// Of the run that ended last.
[[nodiscard]] Sample last_end(const KeyRows& key);
[[nodiscard]] Sample last_duration(const KeyRows& key);
[[nodiscard]] Sample last_outcome(const KeyRows& key);
[[nodiscard]] Sample last_exit_code(const KeyRows& key);
// When the last success ended; "0" for a named key that has had none.
[[nodiscard]] Sample last_success_end(const KeyRows& key);

}  // namespace dblock::cli
