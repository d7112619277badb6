#include "cli/report/timeline.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "cli/report/html.hpp"

namespace dblock::cli {
namespace {

using lease::ServerTime;
using namespace std::chrono_literals;

constexpr std::size_t k_keys = 500;          // rows of a timeline, at most
constexpr std::size_t k_lanes = 12;          // runs of a key beside each other, at most
constexpr std::size_t k_bars = 20'000;       // about as many bars for a page, at most
constexpr Micros::rep k_most_columns = 240;  // short runs in one column of a lane become one bar
constexpr Micros::rep k_least_columns = 40;
constexpr Micros::rep k_ticks = 12;

struct Axis {
  Micros from{0};
  Micros to{0};

  // In thousandths of a percent.
  [[nodiscard]] long position(Micros time) const {
    const auto part = static_cast<double>((std::clamp(time, from, to) - from).count());
    return static_cast<long>(part * 100'000 / static_cast<double>((to - from).count()));
  }
};

// "12.345%" of 12345.
std::string percent(long thousandths) {
  const std::string digits = std::to_string(1000 + thousandths % 1000);
  return std::to_string(thousandths / 1000) + "." + digits.substr(1) + "%";
}

// From the first begin to the last end, with room at both sides. Far outliers are cut, so that one of them
// does not press all other bars together: leases of many weeks, and times from when a clock was wrong.
Axis axis_of(const std::vector<Bar>& bars, ServerTime now, std::optional<Micros> asked) {
  if (asked) return {now.since_epoch - *asked, now.since_epoch};
  if (bars.empty()) return {now.since_epoch - 1h, now.since_epoch};
  const auto by_end = std::ranges::minmax(bars, {}, &Bar::to);
  Axis axis{std::ranges::min(bars, {}, &Bar::from).from.since_epoch, by_end.max.to.since_epoch};
  const Micros first_end = std::min(by_end.min.to, now).since_epoch;
  const Micros span = std::max(std::min(axis.to, now.since_epoch) - first_end, Micros{24h});
  axis.from = std::max(axis.from, first_end - span);
  axis.to = std::min(axis.to, now.since_epoch + std::max((now.since_epoch - axis.from) / 4, Micros{1min}));
  axis.to = std::max(axis.to, axis.from);
  const Micros room = std::max((axis.to - axis.from) / 100, Micros{5s});
  return {axis.from - room, axis.to + room};
}

Micros tick_of(Micros span) {
  constexpr std::array<Micros, 18> k_steps{1s,    2s,    5s,    10s, 15s, 30s, 1min, 2min, 5min,
                                           10min, 15min, 30min, 1h,  2h,  3h,  6h,   12h,  24h};
  for (const Micros step : k_steps)
    if (span / step <= k_ticks) return step;
  Micros step = 48h;
  while (span / step > k_ticks) step *= 2;
  return step;
}

// Labels and lines of the axis. A label has the date where the day changes.
std::string html_axis(const Axis& axis, ServerTime now) {
  constexpr long k_last_label = 97'000;
  const Micros step = tick_of(axis.to - axis.from);
  std::string labels;
  std::string lines;
  std::string day;
  Micros tick = axis.from / step * step;
  if (tick < axis.from) tick += step;
  for (; tick <= axis.to; tick += step) {
    const std::string time = time_for_people({tick});
    const std::string date = time.substr(0, time.find(' '));
    const std::string at = "style=\"left:" + percent(axis.position(tick)) + "\"";
    lines += "<i " + at + "></i>";
    if (axis.position(tick) > k_last_label) continue;
    labels += "<span " + at + ">" + (std::exchange(day, date) == date ? "" : "<b>" + date + "</b>");
    if (step < 24h) labels += time.substr(date.size() + 1, step < 1min ? 8 : 5);
    labels += "</span>";
  }
  if (now.since_epoch <= axis.to)
    lines += "<i class=\"now\" style=\"left:" + percent(axis.position(now.since_epoch)) + "\"></i>";
  return "<div class=\"axis\" aria-hidden=\"true\">" + labels +
         "</div>\n<div class=\"ticks\" aria-hidden=\"true\">" + lines + "</div>\n";
}

// A bar as it is drawn: one run, or several that are too short and too near for bars of their own.
struct Drawn {
  Bar bar;
  std::map<std::string_view, std::size_t> styles;  // of several: how many have each style
  std::size_t runs = 1;

  void add(Bar more) {
    if (runs++ == 1) ++styles[bar.style.word];
    ++styles[more.style.word];
    const auto from = std::min(bar.from, more.from);
    const auto to = std::max(bar.to, more.to);
    if (more.style.trouble && !bar.style.trouble) bar = std::move(more);
    bar.from = from;
    bar.to = to;
  }
};
using Lane = std::vector<Drawn>;

// Places the bars of one key, in the order of their begins.
class Lanes {
 public:
  Lanes(const Axis& axis, Micros column) : axis_(axis), column_(column) {}

  void place(Bar bar) {
    const auto free =
        std::ranges::find_if(lanes_, [&](const Lane& lane) { return lane.back().bar.to <= bar.from; });
    if (free != lanes_.end()) return place_in(*free, std::move(bar));
    if (lanes_.size() < k_lanes) return lanes_.push_back({Drawn{std::move(bar), {}}});
    lanes_.back().back().add(std::move(bar));
  }
  [[nodiscard]] const std::vector<Lane>& lanes() const { return lanes_; }

 private:
  [[nodiscard]] Micros::rep column_of(ServerTime time) const {
    return (time.since_epoch - axis_.from) / column_;
  }
  [[nodiscard]] bool is_short(const Bar& bar) const {
    return bar.to.since_epoch - bar.from.since_epoch < column_;
  }
  void place_in(Lane& lane, Bar bar) const {
    Drawn& last = lane.back();
    if (is_short(bar) && is_short(last.bar) && column_of(bar.from) == column_of(last.bar.from))
      return last.add(std::move(bar));
    lane.push_back({std::move(bar), {}});
  }

  const Axis& axis_;
  Micros column_;
  std::vector<Lane> lanes_;
};

std::string words_of(const Drawn& drawn) {
  if (drawn.runs == 1) return drawn.bar.words;
  std::string words = how_many(drawn.runs, "run") + ", " + time_for_people(drawn.bar.from) + " to " +
                      time_for_people(drawn.bar.to) + " UTC\n";
  for (const auto& [word, count] : drawn.styles)
    words +=
        (word == drawn.styles.begin()->first ? "" : ", ") + std::to_string(count) + " " + std::string(word);
  return words + (drawn.bar.style.trouble ? "\n\nOne of them:\n" : "\n\nThe first:\n") + drawn.bar.words;
}

std::string html_bar(const Drawn& drawn, const Axis& axis) {
  constexpr long k_room_for_letter = 1200;
  const Bar& bar = drawn.bar;
  const long left = axis.position(bar.from.since_epoch);
  const long width = axis.position(bar.to.since_epoch) - left;
  std::string html = "<a class=\"bar " + std::string(bar.style.css);
  if (bar.handed_over && drawn.runs == 1) html += " handed";
  if (bar.from.since_epoch < axis.from) html += " early";
  if (bar.to.since_epoch > axis.to) html += " late";
  if (left > 60'000) html += " end";
  html += "\" href=\"#" + (bar.row < k_page_rows ? "r" + std::to_string(bar.row) : "table") +
          "\" style=\"left:" + percent(left) + ";width:" + percent(width) + "\" aria-label=\"" +
          html_text(words_of(drawn)) + "\">";
  if (width >= k_room_for_letter) html += bar.style.letter;
  return html += "</a>";
}

// The key, and how many runs it has had.
std::string html_name(const std::string& key, const std::vector<Bar>& bars) {
  const auto trouble = std::ranges::count_if(bars, [](const Bar& bar) { return bar.style.trouble; });
  const auto runs = std::ranges::count_if(bars, [](const Bar& bar) { return bar.style.counts; });
  const std::string name = html_text(escape_untrusted(key));
  std::string html = "<div class=\"name\" title=\"" + name + "\">" + name + "<small>" + std::to_string(runs);
  if (trouble > 0) html += ", <em>" + std::to_string(trouble) + " in trouble</em>";
  return html + "</small></div>";
}

std::string html_row(const std::string& key, std::vector<Bar> bars, const Axis& axis, Micros column) {
  std::string html = html_name(key, bars);
  std::ranges::sort(bars, {}, [](const Bar& bar) { return std::pair(bar.from, bar.row); });
  Lanes placed(axis, column);
  for (auto& bar : bars) placed.place(std::move(bar));
  html += "<div>";
  for (const auto& lane : placed.lanes()) {
    html += "<div class=\"lane\">";
    for (const auto& drawn : lane) html += html_bar(drawn, axis);
    html += "</div>";
  }
  return (placed.lanes().size() > 1 ? "<li class=\"row many\">" : "<li class=\"row\">") + html +
         "</div></li>\n";
}

}  // namespace

std::string html_legend(const std::vector<Bar>& bars) {
  std::map<std::string_view, std::pair<BarStyle, std::size_t>> styles;
  for (const auto& bar : bars) {
    auto& [style, count] = styles[bar.style.word];
    style = bar.style;
    ++count;
  }
  std::string html;
  for (const auto& [word, entry] : styles)
    html += "<li><i class=\"bar " + std::string(entry.first.css) + "\" aria-hidden=\"true\">" +
            std::string(entry.first.letter) + "</i>" +
            (entry.first.counts ? std::to_string(entry.second) + " " : "") + std::string(word) + "</li>";
  if (std::ranges::any_of(bars, &Bar::handed_over))
    html +=
        "<li><i class=\"bar ok handed\" aria-hidden=\"true\"></i>handed over: began within 1s of the end of "
        "the run before</li>";
  return html;
}

std::string html_timeline(std::vector<Bar> bars, ServerTime now, std::optional<Micros> asked) {
  const Axis axis = axis_of(bars, now, asked);
  std::map<std::string, std::vector<Bar>> keys;
  std::size_t left_out = 0;
  for (auto& bar : bars) {
    if (keys.size() >= k_keys && !keys.contains(bar.key)) {
      ++left_out;
      continue;
    }
    keys[bar.key].push_back(std::move(bar));
  }
  const auto columns = std::clamp(static_cast<Micros::rep>(k_bars / std::max<std::size_t>(keys.size(), 1)),
                                  k_least_columns, k_most_columns);
  const Micros column = std::max((axis.to - axis.from) / columns, Micros{1});
  std::string html = "<section class=\"timeline\" aria-label=\"Timeline, times in UTC\">\n" +
                     html_axis(axis, now) + "<ul>\n";
  for (auto& [key, of_key] : keys) html += html_row(key, std::move(of_key), axis, column);
  html += "</ul>\n";
  if (left_out > 0)
    html += "<p>" + how_many(left_out, "run") + " of further keys are not drawn: there are more than " +
            std::to_string(k_keys) + " keys.</p>\n";
  return html + "</section>";
}

std::string time_for_people(ServerTime time) {
  std::string text = lease::format_time(time);
  text.resize(std::min(text.find('.'), text.size()));
  std::ranges::replace(text, 'T', ' ');
  return text;
}

std::string how_many(std::size_t count, std::string_view what) {
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

}  // namespace dblock::cli
