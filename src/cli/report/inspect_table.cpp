// The report of inspect, and its table.
#include <algorithm>
#include <string_view>
#include <vector>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "cli/report/inspect_table.hpp"
#include "cli/report/json.hpp"
#include "cli/report/report.hpp"
#include "cli/report/table.hpp"

namespace dblock::cli {
namespace {

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

// The holder, and whether it is a reader or has a slot.
std::string holder_of(const lease::LockStatus& status) {
  std::string holder = lease::display_holder(status);
  if (status.sharing.mode == lease::Mode::shared) return holder + " (reader)";
  if (status.sharing.mode == lease::Mode::exclusive) return holder;
  return holder + " (slot " + std::to_string(status.slot) + " of " + std::to_string(status.sharing.slots) +
         ")";
}

// When the lease ends. Red if it has expired or is revoked; yellow if the holder's last renewal is more than
// two heartbeats old.
Cell expiry_cell(const lease::LockStatus& status) {
  Cell cell{expiry_of(status)};
  if (status.owner.empty()) return cell;
  if (status.state == lease::State::expired || status.revoked_at) {
    cell.color = k_red;
  } else if (status.heartbeat && status.renewed_at &&
             status.server_time.since_epoch - status.renewed_at->since_epoch > 2 * *status.heartbeat) {
    cell.color = k_yellow;
  }
  return cell;
}

// The columns that give way where the terminal is too narrow.
constexpr const char* k_key = "KEY";
constexpr const char* k_holder = "HOLDER";
constexpr const char* k_held_for = "HELD FOR";
constexpr const char* k_expires_in = "EXPIRES IN";
constexpr const char* k_token = "TOKEN";
constexpr const char* k_waiters = "WAITERS";
constexpr const char* k_last_run = "LAST RUN";
constexpr const char* k_command = "COMMAND";
constexpr const char* k_note = "NOTE";

TableRow header(const TableStyle& style) {
  TableRow row;
  if (style.mark) row.push_back({" "});
  row.push_back({k_key, k_bold});
  if (style.all) row.push_back({"STATE", k_bold});
  for (const auto* const name : {k_holder, k_held_for, k_expires_in, k_token, k_waiters}) {
    row.push_back({name, k_bold});
  }
  if (style.all) row.push_back({k_last_run, k_bold});
  row.push_back({k_command, k_bold});
  row.push_back({k_note, k_bold});
  return row;
}

TableRow row_of(const lease::LockStatus& status, const TableStyle& style) {
  const bool taken = !status.owner.empty();
  TableRow row;
  if (style.mark) row.push_back({std::string(1, style.mark(status)), k_bold});
  row.push_back({escape_untrusted(status.key), color_of(status.state)});
  if (style.all) row.push_back({std::string(lease::to_string(status.state)), color_of(status.state)});
  row.push_back({taken ? holder_of(status) : "-"});
  row.push_back({taken ? span_between(status.acquired_at, status.server_time) : "-"});
  row.push_back(expiry_cell(status));
  row.push_back({status.token.value == 0 ? "-" : std::to_string(status.token.value)});
  row.push_back({status.waiters ? std::to_string(status.waiters->size()) : "-"});
  if (style.all) row.push_back({last_run_of(status)});
  row.push_back({taken ? dash_if_empty(escape_untrusted(status.holder.command)) : "-"});
  row.push_back({taken ? dash_if_empty(escape_untrusted(status.holder.note)) : "-"});
  return row;
}

std::string report_json(const app::InspectReport& report) {
  auto document = json_document();
  document["server_time"] = json_time(report.listing.server_time);
  document["locks"] = Json::array();
  for (const auto& status : report.listing.locks) document["locks"].push_back(json_lock(status));
  document["pauses"] = Json::array();
  for (const auto& pause : report.listing.pauses) document["pauses"].push_back(json_pause(pause));
  return to_line(document);
}

}  // namespace

std::string report_inspected(const app::InspectReport& report, const app::InspectRequest& request,
                             const OutputOptions& output, bool color, std::size_t columns) {
  if (output.json) return report_json(report);
  if (output.shape == Shape::csv) return csv_header() + csv_rows(report.listing);
  if (output.shape == Shape::prometheus) return prometheus_text(report.listing, request.keys);
  if (output.shape == Shape::html) return inspect_page(report, request.all);
  if (request.max_age || request.max_held) {
    std::string text;
    for (const auto& sentence : report.complaints) text += sentence + "\n";
    return text;
  }
  std::string text;
  for (const auto& line : heading_lines(report)) text += line + "\n";
  for (const auto& line : table_lines(report.listing, {request.all, color, columns})) text += line + "\n";
  return text;
}

std::vector<TableRow> inspect_rows(const lease::Listing& listing, const TableStyle& style) {
  std::vector<TableRow> rows{header(style)};
  for (const auto& status : listing.locks) rows.push_back(row_of(status, style));
  return rows;
}

std::vector<std::string> table_lines(const lease::Listing& listing, const TableStyle& style) {
  return lay_out(inspect_rows(listing, style),
                 {.color = style.color,
                  .columns = style.columns,
                  .shortened = {k_holder, k_last_run, k_command, k_note},
                  .dropped_first = {k_token, k_command, k_waiters},
                  .dropped_next = {k_held_for, k_note, k_last_run, k_expires_in},
                  .shortened_last = k_key});
}

std::vector<std::string> heading_lines(const app::InspectReport& report) {
  std::vector<std::string> lines;
  if (report.local_store)
    lines.push_back("locks of this user on this host only (" + escape_untrusted(*report.local_store) + ")");
  for (const auto& pause : report.listing.pauses)
    lines.push_back(lease::display_scope(pause.scope) + ": " + lease::display_pause(pause));
  return lines;
}

}  // namespace dblock::cli
