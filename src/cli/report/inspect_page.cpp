// The report of inspect as a page of HTML.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "cli/report/html.hpp"
#include "cli/report/inspect_table.hpp"
#include "cli/report/report.hpp"
#include "cli/report/timeline.hpp"

namespace dblock::cli {
namespace {

using lease::ServerTime;

BarStyle style_of(lease::State state) {
  const auto word = lease::to_string(state);
  switch (state) {
    case lease::State::held:
      return {"ok", "", word};
    case lease::State::expired:
      return {"X", "X", word, true};
    case lease::State::cooldown:
      return {"C", "C", word};
    case lease::State::free:
      return {"N", "", word};
    case lease::State::unknown:
      break;
  }
  return {"U", "?", word};
}

constexpr BarStyle k_rest{"M", "", "the rest of a lease", false, false};
constexpr BarStyle k_waiting{"W", "W", "waiting", false, true};

std::string holder_words(const lease::LockStatus& status) {
  std::string words = lease::display_holder(status);
  if (!status.holder.command.empty()) words += " (" + escape_untrusted(status.holder.command) + ")";
  if (status.acquired_at) words += "\nsince " + time_for_people(*status.acquired_at) + " UTC";
  if (!status.holder.note.empty()) words += "\nnote: " + escape_untrusted(status.holder.note);
  return words + "\ntoken " + std::to_string(status.token.value);
}

void add_bar(std::vector<Bar>& bars, const lease::LockStatus& status, std::optional<ServerTime> from,
             std::optional<ServerTime> to, const BarStyle& style, std::string_view words, std::size_t row) {
  if (!from || !to) return;
  bars.push_back({status.key, *from, std::max(*from, *to), style,
                  escape_untrusted(status.key) + ": " + std::string(style.word) + "\n" + std::string(words),
                  row});
}

// What is known of one holder or free lock: the lease up to now and its rest, the waiters; else the last run.
void add_bars(std::vector<Bar>& bars, const lease::LockStatus& status, std::size_t row) {
  const ServerTime now = status.server_time;
  const BarStyle style = style_of(status.state);
  if (!status.owner.empty()) {
    add_bar(bars, status, status.acquired_at, now, style, holder_words(status), row);
    if (status.expires_at && *status.expires_at > now)
      add_bar(bars, status, now, status.expires_at, k_rest,
              "ends in " + format_age(status.expires_at->since_epoch - now.since_epoch) + " unless renewed",
              row);
  } else if (status.last) {
    const auto& last = *status.last;
    const std::string outcome = last.outcome ? std::string(lease::to_string(*last.outcome)) : "unknown";
    add_bar(bars, status, last.acquired_at ? last.acquired_at : last.released_at,
            last.released_at ? last.released_at : last.acquired_at, style, "its last run: " + outcome, row);
  }
  for (const auto& waiter : status.waiters.value_or(std::vector<lease::Waiter>{}))
    add_bar(bars, status, waiter.since, now, k_waiting,
            lease::display_holder({waiter.host, waiter.pid, waiter.user, {}, {}}) + "\nsince " +
                time_for_people(waiter.since) + " UTC",
            row);
}

}  // namespace

std::string inspect_page(const app::InspectReport& report, bool all) {
  const auto& listing = report.listing;
  std::vector<Bar> bars;
  std::vector<std::string_view> classes;
  for (const auto& status : listing.locks) {
    add_bars(bars, status, classes.size());
    classes.push_back(style_of(status.state).css);
  }
  const auto held = std::ranges::count(listing.locks, lease::State::held, &lease::LockStatus::state);
  std::string summary = how_many(static_cast<std::size_t>(held), "holder") + " at " +
                        time_for_people(listing.server_time) + " UTC";
  for (const auto& line : heading_lines(report)) summary += "; " + line;
  return fill_page({{"title", "dblock inspect"},
                    {"summary", html_text(summary + ".")},
                    {"legend", html_legend(bars)},
                    {"table", html_table(inspect_rows(listing, {.all = all}), classes)},
                    {"footer", "Times are by the database\u2019s clock."},
                    {"timeline", html_timeline(std::move(bars), listing.server_time)}});
}

}  // namespace dblock::cli
