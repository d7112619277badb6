// What a terminal shows after all that dblock has written to it.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "support/catch.hpp"
#include "support/dblock.hpp"

namespace dblock::test {

// It knows the sequences that dblock may use, and fails the case at any other.
struct Shown {
  Words rows{""};
  bool other_screen = false;
  bool cursor = true;

  explicit Shown(const std::string& written) {
    Words before;
    std::size_t row = 0;
    std::size_t column = 0;
    for (std::size_t i = 0; i < written.size();) {
      const auto takes = [&](const std::string& sequence) {
        if (written.compare(i, sequence.size(), sequence) != 0) return false;
        i += sequence.size();
        return true;
      };
      if (takes("\x1b[?1049h")) {
        before = std::exchange(rows, {""});
        other_screen = true, row = column = 0;
      } else if (takes("\x1b[?1049l")) {
        rows = before;
        other_screen = false, row = rows.size() - 1, column = rows.back().size();
      } else if (takes("\x1b[?25l")) {
        cursor = false;
      } else if (takes("\x1b[?25h")) {
        cursor = true;
      } else if (takes("\x1b[H")) {
        row = column = 0;
      } else if (takes("\x1b[K")) {
        rows[row].resize(std::min(rows[row].size(), column));
      } else if (takes("\x1b[J")) {
        rows[row].resize(std::min(rows[row].size(), column));
        rows.resize(row + 1);
      } else if (takes("\r")) {
        column = 0;
      } else if (takes("\n")) {
        if (++row == rows.size()) rows.emplace_back();
      } else {
        if (written[i] == '\x1b') FAIL("unknown sequence: " << written.substr(i + 1, 8));
        if (rows[row].size() <= column) rows[row].resize(column + 1, ' ');
        rows[row][column++] = written[i++];
      }
    }
  }

  [[nodiscard]] bool has(const std::string& part) const {
    return std::ranges::any_of(rows, [&](const auto& row) { return says(row, part); });
  }
};

}  // namespace dblock::test
