#include "base/log.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <string>

#include "base/stderr_writer.hpp"
#include "base/text.hpp"
#include "base/width.hpp"

namespace dblock::log {
namespace {

// Up to this a write to a pipe is all or nothing, so that lines of several processes do not mix.
constexpr std::size_t k_max_line = PIPE_BUF;

constexpr std::string_view k_clear_line = "\r\x1b[K";

struct Settings {
  Options options;
  bool informative = false;  // a person is likely to read stderr
};

Settings& settings() {
  static Settings current;
  return current;
}

// Writes lines and the live line, one at a time.
class Screen {
 public:
  void put(const std::string& line) {
    const std::lock_guard lock(mutex_);
    if ((drawn_ || !live_.empty()) && !writer_.commands_terminal()) forget();
    if (writer_.put(clearing() + line + live_)) drawn_ = !live_.empty();
  }

  // Without the mutex: the writer changes only in a forked process, which has one thread.
  [[nodiscard]] bool can_show() const { return writer_.commands_terminal(); }

  void show(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (!writer_.commands_terminal()) return forget();
    // The last column stays free, since a cursor beyond it may be in the next row. The cursor waits in the
    // first column, so that the ^C which the terminal shows at Ctrl-C is erased with the line.
    live_ = cut_to_columns(text, writer_.columns() - 1) + "\r";
    if (writer_.put(std::string(k_clear_line) + live_)) drawn_ = true;
  }

  void clear() {
    const std::lock_guard lock(mutex_);
    live_.clear();
    if (!drawn_) return;
    // On a stopped terminal the next line that gets through erases the live line.
    if (!writer_.commands_terminal() || writer_.put(std::string(k_clear_line))) drawn_ = false;
  }

 private:
  [[nodiscard]] std::string clearing() const { return std::string(drawn_ ? k_clear_line : ""); }

  // Forgets the live line without erasing it: in the background the screen belongs to the foreground process.
  void forget() {
    live_.clear();
    drawn_ = false;
  }

  StderrWriter writer_;
  std::mutex mutex_;
  std::string live_;    // the live line, then a return to the first column
  bool drawn_ = false;  // the live line may be on the screen
};

Screen& screen() {
  static Screen the_screen;
  return the_screen;
}

void put(const std::string& line) {
  const int saved = errno;
  screen().put(line);
  errno = saved;
}

// Terminals that cannot move their cursor, like those of an editor, are called dumb.
bool moves_cursor() {
  const char* term = std::getenv("TERM");
  return term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : clean_utf8(text, k_max_line)) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      std::array<char, 8> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\u%04x", static_cast<unsigned>(c));
      out += escaped.data();
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// For the reader of a log only: no decision uses it.
std::string wall_clock() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  std::tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  std::array<char, 48> text{};
  const auto n = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text.data() + n, text.size() - n, ".%06ldZ", now.tv_nsec / 1000);
  return text.data();
}

std::string_view name_of(Level level) {
  switch (level) {
    case Level::error:
      return "error";
    case Level::warning:
      return "warning";
    case Level::info:
      return "info";
    case Level::debug:
      break;
  }
  return "debug";
}

struct Line {
  Level level = Level::error;
  std::string_view message;
  bool is_exit = false;
  int code = 0;
  std::string_view reason;
};

std::string compose(const Line& line, std::string_view message) {
  if (settings().options.format == Format::json) {
    std::string out = R"({"time":")" + wall_clock() + R"(","level":")" + std::string(name_of(line.level)) +
                      R"(","message":)" + json_string(escape_message(message));
    if (line.is_exit) {
      out += ",\"exit\":" + std::to_string(line.code) + ",\"reason\":" + json_string(line.reason);
    }
    return out + "}\n";
  }
  std::string out = "dblock: ";
  if (line.is_exit) {
    out += "exit " + std::to_string(line.code) + " (" + std::string(line.reason) + ")";
    if (!message.empty()) out += ": ";
  } else if (line.level == Level::warning) {
    out += "warning: ";
  }
  return out + escape_message(message) + "\n";
}

void emit(const Line& line) {
  auto text = compose(line, line.message);
  for (auto room = k_max_line; text.size() > k_max_line && room > 0; room = room * 3 / 4) {
    text = compose(line, clean_utf8(line.message, room) + "…");
  }
  put(text);
}

}  // namespace

void configure(const Options& options) {
  const char* ci = std::getenv("CI");
  settings().options = options;
  settings().informative = (ci != nullptr && *ci != '\0') || ::isatty(STDERR_FILENO) == 1;
}

bool shows(Level level) {
  const auto& [options, informative] = settings();
  switch (level) {
    case Level::error:
      return true;
    case Level::warning:
      return !options.quiet;
    case Level::info:
      return options.verbose || (informative && !options.quiet);
    case Level::debug:
      break;
  }
  return options.verbose;
}

void write(Level level, std::string_view message) {
  if (shows(level)) emit({level, message, false, 0, {}});
}

bool can_show_live() {
  return settings().options.format == Format::text && shows(Level::info) && moves_cursor() &&
         screen().can_show();
}

void show_live(std::string_view message) {
  if (can_show_live()) {
    screen().show("dblock: " + escape_message(message));
  } else {
    clear_live();
  }
}

void clear_live() {
  screen().clear();
}

void exit_line(int code, std::string_view reason, std::string_view message) {
  emit({Level::error, message, true, code, reason});
}

}  // namespace dblock::log
