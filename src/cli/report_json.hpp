// JSON pieces that several reports share (private to the report files).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "lease/types.hpp"

namespace dblock::cli {

using Json = nlohmann::ordered_json;

// {"format":1} to be filled in.
[[nodiscard]] Json json_document();
// One line. All but ASCII is escaped, so that neither C1 controls nor bidirectional characters of a row reach
// a terminal; malformed UTF-8 becomes U+FFFD.
[[nodiscard]] std::string to_line(const Json& document);

[[nodiscard]] Json text_or_null(const std::string& text);
[[nodiscard]] Json json_time(const std::optional<lease::ServerTime>& time);
[[nodiscard]] Json json_millis(Micros length);
// One element of "locks" (DESIGN section 2, inspect).
[[nodiscard]] Json json_lock(const lease::LockStatus& status);

}  // namespace dblock::cli
