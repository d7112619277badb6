// Reports of inspect and history as comma-separated values (RFC 4180): the fields of the JSON documents,
// flattened.
#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.hpp"
#include "cli/report/lock_fields.hpp"
#include "cli/report/report.hpp"

namespace dblock::cli {
namespace {

constexpr std::string_view k_line_end = "\r\n";

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

// Text of a row, escaped as in the table, as one CSV field: in quotes where RFC 4180 demands them.
std::string csv_text(std::string_view escaped) {
  std::string text = without_formulas(escaped);
  const bool padded = text.starts_with(' ') || text.ends_with(' ');
  if (!padded && text.find_first_of(",\"") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string csv_field(const Json& value) {
  return value.is_string() ? csv_text(text_of(value)) : text_of(value);
}

std::string csv_names(const Json& row) {
  std::string line;
  for (const auto& [name, value] : row.items()) line += (line.empty() ? "" : ",") + name;
  return line.append(k_line_end);
}

std::string csv_line(const Json& row) {
  std::string line;
  for (const auto& value : row) line += (&value == &row.front() ? "" : ",") + csv_field(value);
  return line.append(k_line_end);
}

// The fields of the JSON without objects: "acquired_at" of the object "last" is "last_acquired_at".
Json csv_row(const lease::LockStatus& lock, lease::ServerTime now) {
  Json row{{"server_time", json_time(now)}};
  for (const auto& field : lock_fields()) {
    const std::string before = field.object == nullptr ? "" : std::string(field.object->name) + "_";
    row[before + std::string(field.name)] = value_of(field, lock);
  }
  return row;
}

}  // namespace

std::string csv_header() {
  return csv_names(csv_row({}, {}));
}

std::string csv_rows(const lease::Listing& listing) {
  std::string text;
  for (const auto& lock : listing.locks) text += csv_line(csv_row(lock, listing.server_time));
  return text;
}

std::string csv_runs(const lease::History& history) {
  std::string text = csv_names(json_run({}));
  for (const auto& run : history.runs) text += csv_line(json_run(run));
  return text;
}

}  // namespace dblock::cli
