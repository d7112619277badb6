#include "pictures/screen.hpp"

#include <algorithm>
#include <map>
#include <sstream>

namespace dblock::test {
namespace {

constexpr int k_cell_width = 8;
constexpr int k_line_height = 18;
constexpr int k_margin = 16;
constexpr int k_title_height = 34;

const std::map<int, const char*> k_colors{{31, "#ff7b72"}, {32, "#7ee787"}, {33, "#e3b341"}, {34, "#79c0ff"},
                                          {35, "#d2a8ff"}, {36, "#76e3ea"}, {37, "#c9d1d9"}, {90, "#8b949e"},
                                          {91, "#ffa198"}, {92, "#aff5b4"}, {93, "#f2cc60"}, {94, "#a5d6ff"},
                                          {95, "#e2c5ff"}, {96, "#b3f0ff"}, {97, "#ffffff"}};

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else {
      result += c;
    }
  }
  return result;
}

std::size_t used_columns(const std::vector<Cell>& row) {
  std::size_t used = row.size();
  while (used > 0 && row[used - 1].text == " ") --used;
  return used;
}

// The cells of one style in a row. Their width is fixed, whatever font the reader has.
std::string span(const std::vector<Cell>& row, std::size_t begin, std::size_t end, std::size_t y) {
  std::string text;
  for (std::size_t i = begin; i < end; ++i) text += row[i].text;
  if (text.find_first_not_of(' ') == std::string::npos) return {};
  const Style& style = row[begin].style;
  std::ostringstream out;
  out << "<text x=\"" << k_margin + static_cast<int>(begin) * k_cell_width << "\" y=\"" << y
      << "\" textLength=\"" << static_cast<int>(end - begin) * k_cell_width << "\"";
  if (const auto color = k_colors.find(style.color); color != k_colors.end())
    out << " fill=\"" << color->second << "\"";
  if (style.bold) out << " font-weight=\"bold\"";
  if (style.dim) out << " opacity=\"0.6\"";
  out << ">" << escaped(text) << "</text>\n";
  return out.str();
}

}  // namespace

Screen::Screen(std::size_t rows, std::size_t columns)
    : columns_(columns), rows_(rows, std::vector<Cell>(columns)) {}

void Screen::write(const std::string& output) {
  for (std::size_t i = 0; i < output.size();) {
    const auto c = static_cast<unsigned char>(output[i]);
    if (c == 0x1b) {
      i = escape(output, i + 1);
      continue;
    }
    std::size_t length = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    length = std::min(length, output.size() - i);
    if (c == '\r') {
      column_ = 0;
    } else if (c == '\n') {
      line_feed();
    } else if (c == '\b') {
      column_ -= column_ > 0 ? 1 : 0;
    } else if (c >= 0x20) {
      put(output.substr(i, length));
    }
    i += length;
  }
}

// `at` is behind the escape character; returns where the sequence has ended.
std::size_t Screen::escape(const std::string& output, std::size_t at) {
  if (at >= output.size() || output[at] != '[') return std::min(at + 1, output.size());
  ++at;
  const bool is_private = at < output.size() && (output[at] == '?' || output[at] == '>');
  if (is_private) ++at;
  std::vector<int> numbers(1, 0);
  for (; at < output.size(); ++at) {
    const char c = output[at];
    if (c >= '0' && c <= '9') {
      numbers.back() = numbers.back() * 10 + (c - '0');
    } else if (c == ';') {
      numbers.push_back(0);
    } else {
      break;
    }
  }
  if (at >= output.size()) return at;
  if (!is_private) {
    if (output[at] == 'm') {
      select_style(numbers);
    } else {
      move(output[at], numbers);
    }
  }
  return at + 1;
}

void Screen::select_style(const std::vector<int>& numbers) {
  for (const int n : numbers) {
    if (n == 0) style_ = {};
    if (n == 1) style_.bold = true;
    if (n == 2) style_.dim = true;
    if (n == 22) style_.bold = style_.dim = false;
    if ((n >= 31 && n <= 37) || (n >= 90 && n <= 97)) style_.color = n;
    if (n == 39) style_.color = 0;
  }
}

void Screen::move(char command, const std::vector<int>& numbers) {
  const auto count = static_cast<std::size_t>(std::max(numbers[0], 1));
  switch (command) {
    case 'A':
      row_ -= std::min(row_, count);
      break;
    case 'B':
      row_ = std::min(row_ + count, rows_.size() - 1);
      break;
    case 'C':
      column_ = std::min(column_ + count, columns_ - 1);
      break;
    case 'D':
      column_ -= std::min(column_, count);
      break;
    case 'G':
      column_ = std::min(count, columns_) - 1;
      break;
    case 'H':
      row_ = std::min(count, rows_.size()) - 1;
      column_ = numbers.size() > 1 ? static_cast<std::size_t>(std::max(numbers[1], 1)) - 1 : 0;
      break;
    case 'J':
      erase_screen(numbers[0]);
      break;
    case 'K':
      erase_line(numbers[0]);
      break;
    default:
      break;
  }
}

void Screen::erase_line(int part) {
  auto& row = rows_[row_];
  const auto here = row.begin() + static_cast<std::ptrdiff_t>(std::min(column_, columns_));
  std::fill(part == 0 ? here : row.begin(), part == 1 ? here : row.end(), Cell{});
}

void Screen::erase_screen(int part) {
  if (part == 0) erase_line(0);
  for (std::size_t i = part == 0 ? row_ + 1 : 0; i < rows_.size(); ++i) rows_[i].assign(columns_, Cell{});
}

void Screen::put(const std::string& character) {
  if (column_ >= columns_) {
    column_ = 0;
    line_feed();
  }
  rows_[row_][column_++] = {character, style_};
}

void Screen::line_feed() {
  if (row_ + 1 < rows_.size()) {
    ++row_;
    return;
  }
  rows_.erase(rows_.begin());
  rows_.emplace_back(columns_);
}

std::string to_svg(const Screen& screen, const std::string& title) {
  std::size_t columns = 0;
  std::size_t used = 0;
  for (std::size_t i = 0; i < screen.rows().size(); ++i) {
    const std::size_t here = used_columns(screen.rows()[i]);
    columns = std::max(columns, here);
    if (here > 0) used = i + 1;
  }
  const int width = static_cast<int>(columns) * k_cell_width + 2 * k_margin;
  const int height = static_cast<int>(used) * k_line_height + k_title_height + k_margin;
  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << height
      << "\" viewBox=\"0 0 " << width << " " << height << "\" role=\"img\">\n<title>" << escaped(title)
      << "</title>\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#0d1117\"/>\n"
      << "<text x=\"50%\" y=\"21\" text-anchor=\"middle\" font-family=\"sans-serif\" font-size=\"12\" "
         "fill=\"#8b949e\">"
      << escaped(title)
      << "</text>\n<g font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"13\" "
         "fill=\"#c9d1d9\" xml:space=\"preserve\">\n";
  for (std::size_t i = 0; i < used; ++i) {
    const auto& row = screen.rows()[i];
    const std::size_t y = k_title_height + (i + 1) * k_line_height - 4;
    for (std::size_t begin = 0, end = 0; begin < used_columns(row); begin = end) {
      for (end = begin; end < used_columns(row) && row[end].style == row[begin].style;) ++end;
      out << span(row, begin, end, y);
    }
  }
  out << "</g>\n</svg>\n";
  return out.str();
}

}  // namespace dblock::test
