// Reports of inspect and history as comma-separated values (RFC 4180): the fields of the JSON documents,
// flattened.
#include <algorithm>
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

// A spreadsheet takes a field with such a first character for a formula, and would run a stranger's text.
bool starts_formula(std::string_view text) {
  return !text.empty() && std::string_view("=+-@").find(text.front()) != std::string_view::npos;
}

std::string hex_of_first(std::string_view text) {
  constexpr std::string_view k_digits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(text.front());
  return {'\\', 'x', k_digits[byte >> 4U], k_digits[byte & 15U]};
}

// Text of a row as one CSV field: escaped as in the table, then quoted where RFC 4180 demands quotes.
std::string csv_text(std::string_view untrusted) {
  std::string text = escape_untrusted(untrusted);
  if (starts_formula(text)) text = hex_of_first(text) + text.substr(1);
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
  for (auto rest = columns; !rest.empty();) {
    const auto end = std::min(rest.find(','), rest.size());
    line += (line.empty() ? "" : ",") + csv_field(flattened(object, rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
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
