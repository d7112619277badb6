// Moments by the database server's clock. They have a type of their own on purpose: they must never be
// compared with local times, which come from another clock.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"

namespace dblock::lease {

// A moment by the database server's clock, UTC.
struct ServerTime {
  Micros since_epoch{0};
  auto operator<=>(const ServerTime&) const = default;
};

// RFC 3339, UTC, microseconds: 2026-11-21T12:41:03.000001Z.
[[nodiscard]] std::string format_time(ServerTime time);
// Reads a time of RFC 3339 with any offset: 2026-11-21T13:41:03+01:00. nullopt for another form, and for a
// time that there is not.
[[nodiscard]] std::optional<ServerTime> parse_time(std::string_view text);

}  // namespace dblock::lease
