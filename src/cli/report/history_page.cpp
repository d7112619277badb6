// The report of history as a page of HTML.
#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "cli/report/history_rows.hpp"
#include "cli/report/html.hpp"
#include "cli/report/report.hpp"
#include "cli/report/timeline.hpp"

namespace dblock::cli {
namespace {

using namespace std::chrono_literals;

BarStyle style_of(const lease::RecordedRun& run) {
  using lease::RunOutcome;
  if (!run.outcome) return {"U", "?", "unknown"};
  const auto word = lease::to_string(*run.outcome);
  switch (*run.outcome) {
    case RunOutcome::succeeded:
      return {"ok", "", word};
    case RunOutcome::failed:
      return {"F", "F", word, true};
    case RunOutcome::signalled:
      return {"S", "S", word, true};
    case RunOutcome::timed_out:
      return {"T", "T", word, true};
    case RunOutcome::lost:
      return {"L", "L", word, true};
    case RunOutcome::released:
      return {"R", "", word};
    case RunOutcome::not_run:
      return {"N", "N", word};
    case RunOutcome::abandoned:
      return {"A", "A", word, true};
  }
  return {"U", "?", "unknown"};
}

std::string times_of(const lease::RecordedRun& run) {
  const auto end = run.released_at.value_or(run.recorded_at);
  const std::string to = time_for_people(end) + " UTC";
  if (!run.acquired_at) return "ended by " + to;
  const std::string from = time_for_people(*run.acquired_at);
  if (end < *run.acquired_at) return "from " + from + " to " + to + ": a clock was set back meanwhile";
  if (!run.released_at) return "from " + from + ", never released; recorded at " + to;
  return from + " to " + to + ", " + duration_of(run);
}

std::string words_of(const lease::RecordedRun& run) {
  std::string words = escape_untrusted(run.key) + ": " + outcome_of(run);
  if (run.exit_code) words += ", exit code " + std::to_string(*run.exit_code);
  words += "\n" + times_of(run);
  if (const auto holder = holder_of(run); holder != "-") words += "\n" + holder;
  if (!run.holder.note.empty()) words += "\nnote: " + escape_untrusted(run.holder.note);
  return words + "\ntoken " + std::to_string(run.token.value);
}

Bar bar_of(const lease::RecordedRun& run, std::size_t row) {
  const BarStyle style = style_of(run);
  const auto end = run.released_at.value_or(run.recorded_at);
  const auto begin = run.acquired_at.value_or(end);
  return {run.key, begin, std::max(begin, end), style, words_of(run), row};
}

// Marks a run that began within a second of the end of the run before it, as a run does that has waited. (A
// history does not say how long a run waited.)
void mark_handoff(Bar& bar, const Bar& before) {
  const Micros gap = bar.from.since_epoch - before.to.since_epoch;
  if (gap < 0us || gap > 1s) return;
  bar.handed_over = true;
  bar.words += "\nbegan " + format_age(gap) + " after the end of the run before";
}

void mark_handoffs(std::vector<Bar>& bars, const std::vector<lease::RecordedRun>& runs) {
  std::vector<std::size_t> order(bars.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return bars[i].from; });
  std::map<std::string_view, std::size_t> last;  // the latest run of each key
  for (const auto i : order) {
    const auto before = last.find(runs[i].key);
    if (runs[i].mode == lease::Mode::exclusive && before != last.end())
      mark_handoff(bars[i], bars[before->second]);
    last[runs[i].key] = i;
  }
}

std::string summary_of(const lease::History& history, const std::vector<Bar>& bars) {
  std::map<std::string_view, std::size_t> keys;
  for (const auto& run : history.runs) ++keys[run.key];
  std::string text = how_many(bars.size(), "run") + " of " + how_many(keys.size(), "key");
  if (!bars.empty())
    text += ", " + time_for_people(std::ranges::min(bars, {}, &Bar::from).from) + " to " +
            time_for_people(std::ranges::max(bars, {}, &Bar::to).to) + " UTC";
  if (history.cut) text += "; there are more: --limit N shows more of them, --since D fewer";
  if (!history.kept) text += "; runs that end now are not recorded (dblock migrate --history on)";
  return text + ".";
}

// A long table is closed at first: a browser lays it out only once it is opened.
std::string html_details(std::size_t runs, const std::string& table) {
  constexpr std::size_t k_long = 500;
  return std::string("<details") + (runs > k_long ? "" : " open=\"\"") +
         "><summary>All runs, the last first</summary>\n" + table + "</details>";
}

}  // namespace

std::string history_page(const lease::History& history) {
  std::vector<Bar> bars;
  std::vector<std::string_view> classes;
  for (const auto& run : history.runs) {
    bars.push_back(bar_of(run, bars.size()));
    classes.push_back(bars.back().style.css);
  }
  mark_handoffs(bars, history.runs);
  const std::string table = html_table(history_rows(history), classes);
  return fill_page(
      {{"title", "dblock history"},
       {"summary", html_text(summary_of(history, bars))},
       {"legend", html_legend(bars)},
       {"table", html_details(history.runs.size(), table)},
       {"footer", "Made at " + time_for_people(history.server_time) + " UTC by the database\u2019s clock."},
       {"timeline",
        html_timeline(std::move(bars), history.server_time, history.cut ? std::nullopt : history.since)}});
}

}  // namespace dblock::cli
