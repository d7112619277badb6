// Reports of inspect and history as comma-separated values (RFC 4180): the fields of the JSON documents,
// flattened.
#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.hpp"
#include "cli/report/json.hpp"
#include "cli/report/report.hpp"

namespace dblock::cli {
namespace {

constexpr std::string_view k_line_end = "\r\n";

// New columns go to the end: readers may refer to columns by number.
constexpr std::string_view k_lock_columns =
    "server_time,key,kind,mode,slot,state,owner,token,count,host,pid,user,command,note,acquired_at,"
    "renewed_at,expires_at,ttl_ms,margin_ms,remaining_ms,held_ms,waiters,last_acquired_at,"
    "last_released_at,last_outcome,last_exit_code,last_success_acquired_at,last_success_released_at";

constexpr std::string_view k_run_columns =
    "key,kind,mode,owner,token,host,pid,user,command,note,acquired_at,released_at,recorded_at,held_ms,"
    "outcome,"
    "exit_code";

// The characters that make a formula of a field where a spreadsheet reads them first: it would run a
// stranger's text. The last four are the first four in full width.
constexpr std::array<std::string_view, 8> k_formula_starts{"=",      "+",      "-",      "@",
                                                           "\uff1d", "\uff0b", "\uff0d", "\uff20"};

// Escapes what would start a formula at the start of the text, and after each `;`: that is where a
// spreadsheet in many languages ends a field, and there it heeds no quotes that began before.
std::string without_formulas(std::string_view text) {
  std::string safe;
  for (bool starts = true; !text.empty();) {
    const auto* const found = std::ranges::find_if(
        k_formula_starts, [&](std::string_view start) { return text.starts_with(start); });
    if (starts && found != k_formula_starts.end()) {
      safe += escape_code_point(decode_utf8(*found).value);
      text.remove_prefix(found->size());
      starts = false;
      continue;
    }
    starts = text.front() == ';' || (starts && (text.front() == ' ' || text.front() == '"'));
    safe += text.front();
    text.remove_prefix(1);
  }
  return safe;
}

// Text of a row as one CSV field: escaped as in the table, then quoted where RFC 4180 demands quotes.
std::string csv_text(std::string_view untrusted) {
  std::string text = without_formulas(escape_untrusted(untrusted));
  const bool padded = text.starts_with(' ') || text.ends_with(' ');
  if (!padded && text.find_first_of(",\"") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string csv_field(const Json& value) {
  if (value.is_null()) return {};
  if (value.is_string()) return csv_text(value.get_ref<const std::string&>());
  return value.dump();
}

// A column's value: "last_acquired_at" is "acquired_at" of the object "last"; an array becomes its length.
Json flattened(const Json& lock, std::string_view column) {
  for (const std::string_view parent : {"last_success", "last"}) {
    const std::string prefix = std::string(parent) + "_";
    if (!column.starts_with(prefix)) continue;
    const Json& object = lock.at(std::string(parent));
    return object.is_null() ? Json(nullptr) : object.at(std::string(column.substr(prefix.size())));
  }
  const Json& value = lock.at(std::string(column));
  return value.is_array() ? Json(value.size()) : value;
}

std::string csv_line(const Json& object, std::string_view columns) {
  std::string line;
  for (auto rest = columns;;) {
    const auto end = std::min(rest.find(','), rest.size());
    line += csv_field(flattened(object, rest.substr(0, end)));
    if (end == rest.size()) break;
    line += ',';
    rest.remove_prefix(end + 1);
  }
  return line.append(k_line_end);
}

}  // namespace

std::string csv_header() {
  return std::string(k_lock_columns).append(k_line_end);
}

std::string csv_rows(const lease::Listing& listing) {
  std::string text;
  for (const auto& status : listing.locks) {
    Json lock = json_lock(status);
    lock["server_time"] = json_time(listing.server_time);
    text += csv_line(lock, k_lock_columns);
  }
  return text;
}

std::string csv_runs(const lease::History& history) {
  std::string text = std::string(k_run_columns).append(k_line_end);
  for (const auto& run : history.runs) text += csv_line(json_run(run), k_run_columns);
  return text;
}

}  // namespace dblock::cli
