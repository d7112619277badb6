// The timeline of a page of HTML: a row for each key, a bar for each run, on an axis of time (private to the
// report files).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lease/server_time.hpp"

namespace dblock::cli {

// What a bar stands for. The page shows it by colour, pattern and letter.
struct BarStyle {
  std::string_view css;     // a class of page.html
  std::string_view letter;  // empty for what is usual
  std::string_view word;
  bool trouble = false;
  bool counts = true;  // a run of its own; false: the continuation of another bar
};

struct Bar {
  std::string key;  // raw bytes
  lease::ServerTime from;
  lease::ServerTime to;  // not before `from`
  BarStyle style;
  std::string words;         // what the bar says when pointed at; several lines, no control characters
  std::size_t row = 0;       // of the table
  bool handed_over = false;  // began at once after the run before it
};

// The styles that the bars have, each with the number of its bars.
[[nodiscard]] std::string html_legend(const std::vector<Bar>& bars);

// Draws the bars, with the time `now` marked. Short bars that are too near to each other for the eye become
// one bar with the style of the worst; so a page has a limited number of bars, however many runs there are.
// Overlapping runs lie below each other. The axis shows the time `asked` before `now`; nullopt: all bars.
[[nodiscard]] std::string html_timeline(std::vector<Bar> bars, lease::ServerTime now,
                                        std::optional<Micros> asked = {});

// "2026-11-21 12:41:03", UTC.
[[nodiscard]] std::string time_for_people(lease::ServerTime time);
// "12 runs", "1 run".
[[nodiscard]] std::string how_many(std::size_t count, std::string_view what);

}  // namespace dblock::cli
