#include "cli/table.hpp"

#include <algorithm>
#include <numeric>

#include "base/width.hpp"

namespace dblock::cli {
namespace {

constexpr std::size_t k_gap = 2;
constexpr std::size_t k_least = 10;  // columns that a shortened cell keeps

std::vector<std::size_t> natural_widths(const std::vector<TableRow>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i].text));
  }
  return widths;
}

std::size_t total(const std::vector<std::size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), k_gap * (widths.size() - 1));
}

// Takes from the widest first, until the lines fit or there is nothing left to take.
void shrink(std::vector<std::size_t>& widths, const Layout& layout) {
  while (layout.columns > 0 && total(widths) > layout.columns) {
    const auto widest = std::ranges::max_element(layout.gives, {}, [&](std::size_t i) { return widths[i]; });
    if (widest == layout.gives.end() || widths[*widest] <= k_least) return;
    --widths[*widest];
  }
}

std::string line_of(const TableRow& row, const std::vector<std::size_t>& widths, const Layout& layout) {
  std::string line;
  std::size_t at = 0;     // where the line ends so far
  std::size_t start = 0;  // where the next cell is to stand
  for (std::size_t i = 0; i < row.size(); ++i) {
    std::string text = cut_middle(row[i].text, widths[i]);
    if (layout.columns > 0) {
      if (start >= layout.columns) break;
      text = cut_to_columns(text, layout.columns - start);
    }
    if (!text.empty()) {
      line.append(start - at, ' ');
      at = start + display_width(text);
      line += painted(text, row[i].color, layout.color);
    }
    start += widths[i] + k_gap;
  }
  return line;
}

}  // namespace

std::string painted(const std::string& text, std::string_view color, bool wanted) {
  if (!wanted || color.empty()) return text;
  return std::string(color) + text + std::string(k_plain);
}

std::vector<std::string> lay_out(const std::vector<TableRow>& rows, const Layout& layout) {
  auto widths = natural_widths(rows);
  shrink(widths, layout);
  std::vector<std::string> lines;
  lines.reserve(rows.size());
  for (const auto& row : rows) lines.push_back(line_of(row, widths, layout));
  return lines;
}

}  // namespace dblock::cli
