#include "pictures/screen.hpp"

#include <algorithm>
#include <sstream>

namespace dblock::test {
namespace {

constexpr std::size_t k_cell_width = 8;
constexpr std::size_t k_line_height = 18;
constexpr std::size_t k_margin = 16;
constexpr std::size_t k_title_height = 34;

// A reader whose system is set to light colours gets those; a program without style sheets shows the dark
// ones.
constexpr const char* k_colors =
    "<style>.back{fill:#0d1117}text{fill:#c9d1d9}.title{fill:#8b949e}.c31{fill:#ff7b72}.c32{fill:#7ee787}"
    ".c33{fill:#e3b341}\n@media (prefers-color-scheme: light) {.back{fill:#f6f8fa}text{fill:#1f2328}"
    ".title{fill:#59636e}.c31{fill:#cf222e}.c32{fill:#1a7f37}.c33{fill:#9a6700}}</style>\n";

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
  out << "<text x=\"" << k_margin + begin * k_cell_width << "\" y=\"" << y << "\" textLength=\""
      << (end - begin) * k_cell_width << "\"";
  if (style.color != 0) out << " class=\"c" << style.color << "\"";
  if (style.bold) out << " font-weight=\"bold\"";
  if (style.dim) out << " opacity=\"0.6\"";
  out << ">" << escaped(text) << "</text>\n";
  return out.str();
}

std::size_t used_rows(const Screen& screen) {
  std::size_t used = screen.rows().size();
  while (used > 0 && used_columns(screen.rows()[used - 1]) == 0) --used;
  return used;
}

// The title and the rows of `moment`, below `top`.
std::string drawn(const Moment& moment, std::size_t top) {
  std::ostringstream out;
  out << "<text class=\"title\" x=\"50%\" y=\"" << top + 21
      << "\" text-anchor=\"middle\" font-family=\"sans-serif\" font-size=\"12\">" << escaped(moment.title)
      << "</text>\n";
  for (std::size_t i = 0; i < used_rows(moment.screen); ++i) {
    const auto& row = moment.screen.rows()[i];
    const std::size_t y = top + k_title_height + (i + 1) * k_line_height - 4;
    for (std::size_t begin = 0, end = 0; begin < used_columns(row); begin = end) {
      for (end = begin; end < used_columns(row) && row[end].style == row[begin].style;) ++end;
      out << span(row, begin, end, y);
    }
  }
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
    if (n >= 31 && n <= 33) style_.color = n;
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

std::string to_svg(const std::vector<Moment>& moments) {
  std::size_t columns = 0;
  std::size_t height = 0;
  std::string text;
  for (const Moment& moment : moments) {
    for (const auto& row : moment.screen.rows()) columns = std::max(columns, used_columns(row));
    text += drawn(moment, height);
    height += used_rows(moment.screen) * k_line_height + k_title_height;
  }
  height += k_margin;
  const std::size_t width = columns * k_cell_width + 2 * k_margin;
  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << height
      << "\" viewBox=\"0 0 " << width << " " << height << "\" role=\"img\">\n<title>"
      << escaped(moments.front().title) << "</title>\n"
      << k_colors << "<rect class=\"back\" width=\"100%\" height=\"100%\" rx=\"8\"/>\n"
      << "<g font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"13.3\" "
         "xml:space=\"preserve\">\n"
      << text << "</g>\n</svg>\n";
  return out.str();
}

}  // namespace dblock::test
