// Cells laid out in columns.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dblock::cli {

inline constexpr std::string_view k_bold = "\x1b[1m";
inline constexpr std::string_view k_dim = "\x1b[2m";
inline constexpr std::string_view k_red = "\x1b[31m";
inline constexpr std::string_view k_green = "\x1b[32m";
inline constexpr std::string_view k_yellow = "\x1b[33m";
inline constexpr std::string_view k_plain = "\x1b[0m";

struct Cell {
  std::string text;             // well formed, on one line
  std::string_view color = {};  // an escape sequence, or nothing
};
using TableRow = std::vector<Cell>;

// What becomes of columns, named by their headers, where the terminal is too narrow for all of them.
struct Layout {
  using Names = std::vector<std::string_view>;
  bool color = false;
  std::size_t columns = 0;  // of the terminal; 0: as wide as it takes
  Names gives{};            // the middle of their cells may be cut out, from the widest first
  Names extras{};           // left out, in this order, where those that give would get little room otherwise
  Names drops{};            // left out, in this order, where those that give would get next to none
  std::string_view key{};   // its cells are cut last
};

[[nodiscard]] std::string dash_if_empty(std::string text);

// `text` in `color`, or as it is.
[[nodiscard]] std::string painted(const std::string& text, std::string_view color, bool wanted);

// A line for each row, no wider than the terminal. Every row has as many cells as the first.
[[nodiscard]] std::vector<std::string> lay_out(const std::vector<TableRow>& rows, const Layout& layout);

}  // namespace dblock::cli
