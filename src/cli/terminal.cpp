#include "cli/terminal.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>

#include "base/clock.hpp"
#include "base/open_again.hpp"

namespace dblock::cli {
namespace {

using namespace std::chrono_literals;

// ?1049: the alternate screen, so that the user's screen and scrollback stay as they were. ?25: the cursor.
constexpr std::string_view k_enter = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view k_leave = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view k_home = "\x1b[H";
constexpr std::string_view k_erase_rest_of_line = "\x1b[K";
constexpr std::string_view k_erase_below = "\x1b[J";

constexpr Nanos k_patience = 500ms;  // how long put() waits for a terminal that accepts nothing

}  // namespace

// If the terminal cannot be opened again, a blocking duplicate of descriptor 1 must do.
Terminal::Terminal() : fd_(open_again(STDOUT_FILENO, O_RDWR | O_NONBLOCK)) {
  if (!fd_) fd_.reset(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
}

bool Terminal::in_foreground() const {
  return ::tcgetpgrp(fd_.get()) == ::getpgrp();
}

bool Terminal::enter() {
  if (!in_foreground()) return false;
  if (before_) return true;
  termios mode{};
  if (::tcgetattr(fd_.get(), &mode) != 0) return false;
  before_ = mode;
  // Ctrl-C and Ctrl-Z still send signals. IXON off: Ctrl-S would stop the picture and the output of leave().
  mode.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  mode.c_iflag &= ~static_cast<tcflag_t>(IXON);
  mode.c_cc[VMIN] = 1;
  mode.c_cc[VTIME] = 0;
  ::tcsetattr(fd_.get(), TCSANOW, &mode);
  [[maybe_unused]] const auto written = put(k_enter);
  return true;
}

void Terminal::leave() noexcept {
  if (!before_) return;
  // In the background, screen and mode belong to the foreground process by now.
  if (in_foreground()) {
    [[maybe_unused]] const auto written = put(k_leave);
    ::tcsetattr(fd_.get(), TCSANOW, &*before_);
  }
  before_.reset();
}

Result<void> Terminal::draw(const std::vector<std::string>& lines) const {
  std::string picture(k_home);
  const std::size_t rows = std::min(lines.size(), size().rows);
  for (std::size_t i = 0; i < rows; ++i) {
    if (i > 0) picture += "\r\n";
    picture.append(lines[i]).append(k_erase_rest_of_line);
  }
  return put(picture.append(k_erase_below));
}

Result<void> Terminal::put(std::string_view text) const {
  const BootTime end = BootClock::now() + k_patience;
  while (!text.empty()) {
    const auto n = ::write(fd_.get(), text.data(), text.size());
    if (n > 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
      continue;
    }
    const int fault = errno;
    if (n < 0 && fault == EINTR) continue;
    if (n < 0 && fault != EAGAIN)
      return fail(Errc::internal, with_errno("cannot write to the terminal", fault),
                  static_cast<unsigned>(fault));
    if (BootClock::now() >= end) return {};
    pollfd room{fd_.get(), POLLOUT, 0};
    ::poll(&room, 1, 50);
  }
  return {};
}

Terminal::Size Terminal::size() const {
  Size usual;
  winsize size{};
  if (::ioctl(fd_.get(), TIOCGWINSZ, &size) != 0) return usual;
  if (size.ws_col > 0) usual.columns = size.ws_col;
  if (size.ws_row > 0) usual.rows = size.ws_row;
  return usual;
}

std::string Terminal::read_keys() const {
  std::array<char, 256> keys{};
  const auto n = ::read(fd_.get(), keys.data(), keys.size());
  return n > 0 ? std::string(keys.data(), static_cast<std::size_t>(n)) : std::string();
}

}  // namespace dblock::cli
