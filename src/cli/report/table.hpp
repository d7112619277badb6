// Lays cells out in columns.
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
  std::string text;             // well-formed UTF-8 on one line
  std::string_view color = {};  // an escape sequence, or nothing
};
using TableRow = std::vector<Cell>;

// How columns, named by their headers, are shortened or left out when the terminal is too narrow for them.
struct Layout {
  using Names = std::vector<std::string_view>;
  bool color = false;
  std::size_t columns = 0;  // width of the terminal; 0: no limit
  Names shortened{};        // columns whose cells may lose their middle, the widest column first
  Names dropped_first{};    // left out first, in this order, until each of `shortened` can have 32 columns
  Names dropped_next{};     // left out next, in this order, until each of `shortened` can have 8 columns
  std::string_view shortened_last{};  // the column that is cut last
};

[[nodiscard]] std::string dash_if_empty(std::string text);

// `text` in `color`; unchanged if no colour is wanted or `color` is empty.
[[nodiscard]] std::string painted(const std::string& text, std::string_view color, bool wanted);

// A line for each row, no wider than the terminal. The first row is the header; all rows must have as many
// cells as the header.
[[nodiscard]] std::vector<std::string> lay_out(const std::vector<TableRow>& rows, const Layout& layout);

}  // namespace dblock::cli
