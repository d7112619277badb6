// JSON pieces that several reports share (private to the report files).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "lease/lock_status.hpp"

namespace dblock::cli {

using Json = nlohmann::ordered_json;

// A new document, {"format":1}; the caller adds the fields.
[[nodiscard]] Json json_document();
// The document as one line. Escapes everything but ASCII, so that no C1 control or bidirectional character of
// a row reaches a terminal; malformed UTF-8 becomes U+FFFD.
[[nodiscard]] std::string to_line(const Json& document);

[[nodiscard]] Json text_or_null(const std::string& text);
[[nodiscard]] Json number_or_null(std::uint64_t number);  // null for 0
// A value on one line: untrusted text escaped, an array as its length, null as nothing.
[[nodiscard]] std::string text_of(const Json& value);
[[nodiscard]] Json json_time(const std::optional<lease::ServerTime>& time);
[[nodiscard]] Json json_millis(Micros length);
[[nodiscard]] Json json_outcome(const std::optional<lease::RunOutcome>& outcome);
[[nodiscard]] Json json_exit_code(const std::optional<int>& code);
// One element of "pauses": {"key" or "prefix","until","by","note","since"}.
[[nodiscard]] Json json_pause(const lease::Pause& pause);
// One element of "locks", with the fields that dblock-inspect(1) lists. Names carry their unit (_ms, _at).
[[nodiscard]] Json json_lock(const lease::LockStatus& status);
// One element of "runs", with the fields that dblock-history(1) lists, in the order of CSV's columns: new
// fields go to the end.
[[nodiscard]] Json json_run(const lease::RecordedRun& run);

}  // namespace dblock::cli
