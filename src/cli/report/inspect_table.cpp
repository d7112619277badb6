// The report of inspect, and its table.
#include <vector>

#include "base/text.hpp"
#include "cli/report/inspect_table.hpp"
#include "cli/report/lock_fields.hpp"
#include "cli/report/report.hpp"
#include "cli/report/table.hpp"

namespace dblock::cli {
namespace {

std::vector<const LockField*> shown_fields(bool all) {
  auto fields = ranked_fields([](const LockField& field) { return field.column.place; });
  if (!all) std::erase_if(fields, [](const LockField* field) { return field->column.only_with_all; });
  return fields;
}

Layout::Names titles(LockRank rank) {
  Layout::Names names;
  for (const auto* field : ranked_fields(rank)) names.push_back(field->column.title);
  return names;
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
  if (request.max_age || request.max_held || request.max_failures) {
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
  const auto fields = shown_fields(style.all);
  std::vector<TableRow> rows(1 + listing.locks.size());
  if (style.mark) rows.front().push_back({" "});
  for (const auto* field : fields) rows.front().push_back({std::string(field->column.title), k_bold});
  for (std::size_t i = 0; i < listing.locks.size(); ++i) {
    const auto& lock = listing.locks[i];
    if (style.mark) rows[i + 1].push_back({std::string(1, style.mark(lock)), k_bold});
    for (const auto* field : fields) rows[i + 1].push_back(cell_of(*field, lock));
  }
  return rows;
}

std::vector<std::string> table_lines(const lease::Listing& listing, const TableStyle& style) {
  return lay_out(
      inspect_rows(listing, style),
      {.color = style.color,
       .columns = style.columns,
       .shortened = titles([](const LockField& field) -> std::size_t { return field.column.shortened; }),
       .dropped_first = titles([](const LockField& field) { return field.column.dropped_first; }),
       .dropped_next = titles([](const LockField& field) { return field.column.dropped_next; }),
       .shortened_last = lock_fields().front().column.title});
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
