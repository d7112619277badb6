// Report of inspect.
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "cli/report.hpp"
#include "cli/report_formats.hpp"
#include "cli/report_json.hpp"

namespace dblock::cli {
namespace {

struct Cell {
  std::string text;
  std::string_view color = {};  // an escape sequence, or nothing
};
using Row = std::vector<Cell>;

constexpr std::string_view k_bold = "\x1b[1m";
constexpr std::string_view k_dim = "\x1b[2m";
constexpr std::string_view k_red = "\x1b[31m";
constexpr std::string_view k_green = "\x1b[32m";
constexpr std::string_view k_yellow = "\x1b[33m";
constexpr std::string_view k_plain = "\x1b[0m";

std::string_view color_of(lease::State state) {
  switch (state) {
    case lease::State::held:
      return k_green;
    case lease::State::expired:
      return k_red;
    case lease::State::cooldown:
      return k_yellow;
    case lease::State::free:
    case lease::State::unknown:
      break;
  }
  return k_dim;
}

// Columns of a terminal, taking every code point for one; wide characters are rare in the names of locks.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string lay_out(const std::vector<Row>& rows, bool color) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i].text));
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool painted = color && !row[i].color.empty();
      if (painted) line += row[i].color;
      line += row[i].text;
      if (painted) line += k_plain;
      if (i + 1 < row.size()) line.append(widths[i] - width_of(row[i].text) + 2, ' ');
    }
    while (line.ends_with(' ')) line.pop_back();
    out += line + "\n";
  }
  return out;
}

std::string dash_if_empty(const std::string& text) {
  return text.empty() ? "-" : text;
}

std::string span_between(const std::optional<lease::ServerTime>& from,
                         const std::optional<lease::ServerTime>& to) {
  if (!from || !to) return "-";
  return format_age(to->since_epoch - from->since_epoch);
}

std::string expiry_of(const lease::LockStatus& status) {
  if (status.owner.empty() || !status.expires_at) return "-";
  if (status.state == lease::State::expired) return "expired";
  return span_between(status.server_time, status.expires_at) + (status.revoked_at ? " (revoked)" : "");
}

std::string last_run_of(const lease::LockStatus& status) {
  if (!status.last) return "-";
  const auto& last = *status.last;
  std::string text = last.outcome ? std::string(lease::to_string(*last.outcome)) : "unknown";
  if (last.exit_code && *last.exit_code != 0) text += " (" + std::to_string(*last.exit_code) + ")";
  const auto when = last.released_at ? last.released_at : last.acquired_at;
  return when ? text + ", " + span_between(when, status.server_time) + " ago" : text;
}

// Beside whom the holder has the lock.
std::string holder_of(const lease::LockStatus& status) {
  std::string holder = lease::display_holder(status);
  if (status.sharing.mode == lease::Mode::shared) return holder + " (reader)";
  if (status.sharing.mode == lease::Mode::exclusive) return holder;
  return holder + " (slot " + std::to_string(status.slot) + " of " + std::to_string(status.sharing.slots) +
         ")";
}

Row header(bool all) {
  Row row{{"KEY", k_bold}};
  if (all) row.push_back({"STATE", k_bold});
  for (const auto* const name : {"HOLDER", "HELD FOR", "EXPIRES IN", "TOKEN", "WAITERS"}) {
    row.push_back({name, k_bold});
  }
  if (all) row.push_back({"LAST RUN", k_bold});
  row.push_back({"NOTE", k_bold});
  return row;
}

Row row_of(const lease::LockStatus& status, bool all) {
  const bool taken = !status.owner.empty();
  Row row{{escape_untrusted(status.key)}};
  if (all) row.push_back({std::string(lease::to_string(status.state)), color_of(status.state)});
  row.push_back({taken ? holder_of(status) : "-"});
  row.push_back({taken ? span_between(status.acquired_at, status.server_time) : "-"});
  row.push_back({expiry_of(status)});
  row.push_back({status.token.value == 0 ? "-" : std::to_string(status.token.value)});
  row.push_back({status.waiters ? std::to_string(status.waiters->size()) : "-"});
  if (all) row.push_back({last_run_of(status)});
  row.push_back({taken ? dash_if_empty(escape_untrusted(status.holder.note)) : "-"});
  return row;
}

std::string report_json(const app::InspectReport& report) {
  auto document = json_document();
  document["server_time"] = json_time(report.listing.server_time);
  document["locks"] = Json::array();
  for (const auto& status : report.listing.locks) document["locks"].push_back(json_lock(status));
  return to_line(document);
}

}  // namespace

std::string report_inspected(const app::InspectReport& report, const app::InspectRequest& request,
                             const OutputOptions& output, bool color) {
  if (output.json) return report_json(report);
  if (output.shape == Shape::csv) return csv_header() + csv_rows(report.listing);
  if (output.shape == Shape::prometheus) return prometheus_text(report.listing, request.keys);
  if (request.max_age) {
    std::string text;
    for (const auto& sentence : report.stale) text += sentence + "\n";
    return text;
  }
  std::vector<Row> rows{header(request.all)};
  for (const auto& status : report.listing.locks) rows.push_back(row_of(status, request.all));
  std::string text;
  if (report.local_store) text = "locks of this host only (" + escape_untrusted(*report.local_store) + ")\n";
  return text + lay_out(rows, color);
}

}  // namespace dblock::cli
