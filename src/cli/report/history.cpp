// Report of history.
#include <algorithm>
#include <vector>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "cli/report/history_rows.hpp"
#include "cli/report/json.hpp"
#include "cli/report/report.hpp"
#include "cli/report/table.hpp"

namespace dblock::cli {
namespace {

// The start time to the second, which is enough for people; --json has microseconds.
std::string started(const lease::RecordedRun& run) {
  if (!run.acquired_at) return "-";
  const std::string time = lease::format_time(*run.acquired_at);
  return time.substr(0, time.find('.')) + "Z";
}

}  // namespace

std::string duration_of(const lease::RecordedRun& run) {
  if (!run.acquired_at || !run.released_at) return "-";
  return format_age(std::max(run.released_at->since_epoch - run.acquired_at->since_epoch, Micros{0}));
}

std::string outcome_of(const lease::RecordedRun& run) {
  std::string text = run.outcome ? std::string(lease::to_string(*run.outcome)) : "unknown";
  if (run.attempts.value_or(0) > 1) text += " (" + std::to_string(*run.attempts) + " attempts)";
  return text;
}

std::string holder_of(const lease::RecordedRun& run) {
  if (run.holder.host.empty() && run.holder.user.empty()) return "-";
  std::string text = lease::display_holder(run.holder);
  if (!run.holder.command.empty()) text += " (" + escape_untrusted(run.holder.command) + ")";
  return text;
}

namespace {

TableRow row_of(const lease::RecordedRun& run) {
  return {{escape_untrusted(run.key)},
          {started(run)},
          {duration_of(run)},
          {outcome_of(run)},
          {run.exit_code ? std::to_string(*run.exit_code) : "-"},
          {holder_of(run)},
          {dash_if_empty(escape_untrusted(run.holder.note))}};
}

}  // namespace

std::vector<TableRow> history_rows(const lease::History& history) {
  std::vector<TableRow> rows(1);
  for (const auto* const name : {"KEY", "STARTED", "DURATION", "OUTCOME", "EXIT", "HOLDER", "NOTE"})
    rows.front().push_back({name, k_bold});
  for (const auto& run : history.runs) rows.push_back(row_of(run));
  return rows;
}

std::string report_history(const lease::History& history, const OutputOptions& output, bool color,
                           std::size_t columns) {
  if (output.json) {
    auto document = json_document();
    document["server_time"] = json_time(history.server_time);
    document["kept"] = history.kept;
    document["more"] = history.cut;
    document["runs"] = Json::array();
    for (const auto& run : history.runs) document["runs"].push_back(json_run(run));
    return to_line(document);
  }
  if (output.shape == Shape::csv) return csv_runs(history);
  if (output.shape == Shape::html) return history_page(history);
  const Layout layout{.color = color,
                      .columns = columns,
                      .shortened = {"HOLDER", "NOTE"},
                      .dropped_first = {},
                      .dropped_next = {"NOTE", "EXIT", "DURATION", "HOLDER"},
                      .shortened_last = "KEY"};
  std::string text;
  for (const auto& line : lay_out(history_rows(history), layout)) text += line + "\n";
  if (history.cut) text += "there are more; --limit N shows more of them, --since D fewer\n";
  return text;
}

}  // namespace dblock::cli
