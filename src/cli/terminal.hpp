// The terminal as a canvas: another screen, without cursor and echo, that is gone without a trace in the end.
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

  // The terminal that stdout is. Nothing is done to it yet.
  Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() { leave(); }

  // Takes the screen and the keys, when that has not happened. False while another job is in the foreground.
  [[nodiscard]] bool enter();
  // Gives both back, as they were.
  void leave() noexcept;

  // Replaces what is on the screen, in one write and without clearing it first. Lines that do not fit are
  // left out. A terminal that takes nothing for a while loses the picture.
  [[nodiscard]] Result<void> draw(const std::vector<std::string>& lines) const;

  [[nodiscard]] Size size() const;
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] std::string read_keys() const;  // those that were pressed; after enter()

 private:
  [[nodiscard]] bool in_foreground() const;
  [[nodiscard]] Result<void> put(std::string_view text) const;

  UniqueFd fd_;
  std::optional<termios> before_;  // while the screen is ours
};

}  // namespace dblock::cli
