// Durations as people write them: 250ms, 30s, 5m, 2h, 1d, 1h30m. A unit is required; a bare 0 is fine.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace dblock {

// Errc::usage with a sentence that names the fault and, for a bare number, the spelling that was meant
// ("write 10s"). Negative values and values beyond 100 years are refused.
[[nodiscard]] Result<Micros> parse_duration(std::string_view text);

// The shortest exact spelling parse_duration() reads back: 90000ms -> "1m30s".
[[nodiscard]] std::string format_duration(Micros value);

// For people: at most two units, rounded down: "3d4h", "2m5s", "1.5s", "250ms".
[[nodiscard]] std::string format_age(Micros value);

}  // namespace dblock
