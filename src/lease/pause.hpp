// Pauses: times in which no new lease is granted.
#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "lease/server_time.hpp"

namespace dblock::lease {

// The locks that a pause covers: lock `text`, or every lock whose key starts with `text`.
struct PauseScope {
  std::string text;
  bool is_prefix = false;

  [[nodiscard]] bool covers(std::string_view key) const;
  // Some key may be covered by both.
  [[nodiscard]] bool meets(const PauseScope& other) const;
  auto operator<=>(const PauseScope&) const = default;
};

// Until `until` no new lease of the covered locks is granted. Text is untrusted.
struct Pause {
  PauseScope scope;
  ServerTime until;
  std::string by;  // user@host
  std::string note;
  ServerTime since;
};

// lock "k"; locks whose keys start with "etl-"; all locks. Untrusted text escaped.
[[nodiscard]] std::string display_scope(const PauseScope& scope);
// paused until 2026-11-25T06:00:00Z by user@host: note. Untrusted text escaped.
[[nodiscard]] std::string display_pause(const Pause& pause);

}  // namespace dblock::lease
