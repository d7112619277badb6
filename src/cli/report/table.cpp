#include "cli/report/table.hpp"

#include <algorithm>
#include <utility>

#include "base/width.hpp"

namespace dblock::cli {
namespace {

constexpr std::size_t k_gap = 2;
constexpr std::size_t k_least = 8;  // no cell is cut to fewer columns
constexpr std::size_t k_roomy =
    32;  // while the shortened columns cannot have this width, `dropped_first` are left out

struct Column {
  std::size_t index = 0;
  std::size_t width = 0;
  bool may_shorten = false;
};
using Columns = std::vector<Column>;

bool is_in(const Layout::Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

Columns natural_columns(const std::vector<TableRow>& rows, const Layout& layout) {
  Columns columns(rows.front().size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    columns[i] = {i, 0, is_in(layout.shortened, rows.front()[i].text)};
    for (const auto& row : rows) columns[i].width = std::max(columns[i].width, display_width(row[i].text));
  }
  return columns;
}

// The line's width if the columns that may be shortened are cut to `room`.
std::size_t total(const Columns& columns, std::size_t room) {
  std::size_t sum = k_gap * (columns.size() - 1);
  for (const auto& column : columns) sum += column.may_shorten ? std::min(column.width, room) : column.width;
  return sum;
}

void leave_out(Columns& columns, const TableRow& header, const Layout::Names& names, std::size_t room,
               std::size_t limit) {
  for (const auto name : names) {
    if (total(columns, room) <= limit) return;
    std::erase_if(columns, [&](const Column& column) { return header[column.index].text == name; });
  }
}

// Narrows the widest of the columns that may be shortened, one by one, until the lines fit or all of them are
// at k_least.
void shrink(Columns& columns, std::size_t limit) {
  const auto width_to_cut = [](const Column& column) { return column.may_shorten ? column.width : 0; };
  while (!columns.empty() && total(columns, std::string::npos) > limit) {
    const auto widest = std::ranges::max_element(columns, {}, width_to_cut);
    if (width_to_cut(*widest) <= k_least) return;
    --widest->width;
  }
}

void fit(Columns& columns, const TableRow& header, const Layout& layout) {
  if (layout.columns == 0) return;
  leave_out(columns, header, layout.dropped_first, k_roomy, layout.columns);
  leave_out(columns, header, layout.dropped_next, k_least, layout.columns);
  shrink(columns, layout.columns);
  for (auto& column : columns) column.may_shorten = header[column.index].text == layout.shortened_last;
  shrink(columns, layout.columns);
}

std::string line_of(const TableRow& row, const Columns& columns, const Layout& layout) {
  std::string line;
  std::size_t at = 0;     // the line's width so far
  std::size_t start = 0;  // the next cell's first column
  for (const auto& column : columns) {
    const Cell& cell = row[column.index];
    std::string text = cut_middle(cell.text, column.width);
    if (layout.columns > 0) {
      if (start >= layout.columns) break;
      text = cut_to_columns(text, layout.columns - start);
    }
    if (!text.empty()) {
      line.append(start - at, ' ');
      at = start + display_width(text);
      line += painted(text, cell.color, layout.color);
    }
    start += column.width + k_gap;
  }
  return line;
}

}  // namespace

std::string dash_if_empty(std::string text) {
  return text.empty() ? "-" : std::move(text);
}

std::string painted(const std::string& text, std::string_view color, bool wanted) {
  if (!wanted || color.empty()) return text;
  return std::string(color) + text + std::string(k_plain);
}

std::vector<std::string> lay_out(const std::vector<TableRow>& rows, const Layout& layout) {
  auto columns = natural_columns(rows, layout);
  fit(columns, rows.front(), layout);
  std::vector<std::string> lines;
  lines.reserve(rows.size());
  for (const auto& row : rows) lines.push_back(line_of(row, columns, layout));
  return lines;
}

}  // namespace dblock::cli
