// Draws on the terminal's alternate screen, without cursor and echo. leave() restores the terminal.
#pragma once

#include <termios.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/unique_fd.hpp"

namespace dblock::cli {

class Terminal {
 public:
  struct Size {
    std::size_t columns = 80;
    std::size_t rows = 24;
  };

  // Opens the terminal behind stdout; changes nothing on it yet.
  Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() { leave(); }

  // Switches to the alternate screen and reads keys unbuffered; nothing if already entered. False while
  // another process group is in the terminal's foreground.
  [[nodiscard]] bool enter();
  // Restores screen and key mode; nothing without enter().
  void leave() noexcept;

  // Replaces the screen's content in one write, without clearing first, so that nothing flickers. Leaves out
  // lines that do not fit. Drops the rest of the picture if the terminal accepts nothing for 500 ms.
  [[nodiscard]] Result<void> draw(const std::vector<std::string>& lines) const;

  [[nodiscard]] Size size() const;
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] std::string read_keys() const;  // the keys pressed so far; only after enter()

 private:
  [[nodiscard]] bool in_foreground() const;
  [[nodiscard]] Result<void> put(std::string_view text) const;

  UniqueFd fd_;
  std::optional<termios> before_;  // the mode to restore; set between enter() and leave()
};

}  // namespace dblock::cli
