// dblock's own words on stderr. Writing never blocks (a full pipe or a stopped terminal loses the line) and a
// closed stderr is no error. Every text line starts with "dblock: ". Thread-safe.
#pragma once

#include <string_view>

namespace dblock::log {

enum class Level { error, warning, info, debug };
enum class Format { text, json };

struct Options {
  Format format = Format::text;
  bool quiet = false;    // -q: errors only
  bool verbose = false;  // -v: info and debug, terminal or not
};

// Call it once, before threads start. Decides whether informational lines are shown: stderr is a terminal, CI
// is set, or -v.
void configure(const Options& options);
[[nodiscard]] bool shows(Level level);

// One line. `message` may hold anything: control characters are escaped.
void write(Level level, std::string_view message);
inline void error(std::string_view message) {
  write(Level::error, message);
}
inline void warning(std::string_view message) {
  write(Level::warning, message);
}
inline void info(std::string_view message) {
  write(Level::info, message);
}
inline void debug(std::string_view message) {
  write(Level::debug, message);
}

// The live line: one line below all others, rewritten in place and erased in the end. It is possible in text
// format, on a terminal that moves its cursor (TERM), while this process is in the foreground there and
// informational lines are shown.
[[nodiscard]] bool can_show_live();
// Shows `message` as write() would, cut to the terminal's width. Clears the live line where it is not
// possible.
void show_live(std::string_view message);
void clear_live();

// The last line of a run that ends with dblock's own code: "exit N (reason): …". Shown even with -q.
void exit_line(int code, std::string_view reason, std::string_view message);

}  // namespace dblock::log
