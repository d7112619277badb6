// What a terminal shows after a program has written to it: as much of ECMA-48 as dblock and bash write.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace dblock::test {

struct Style {
  int color = 0;  // 31 to 33; 0: the terminal's own
  bool bold = false;
  bool dim = false;
  bool operator==(const Style&) const = default;
};

struct Cell {
  std::string text = " ";  // one character, UTF-8
  Style style;
};

class Screen {
 public:
  Screen(std::size_t rows, std::size_t columns);
  void write(const std::string& output);
  [[nodiscard]] const std::vector<std::vector<Cell>>& rows() const { return rows_; }

 private:
  std::size_t escape(const std::string& output, std::size_t at);
  void select_style(const std::vector<int>& numbers);
  void move(char command, const std::vector<int>& numbers);
  void erase_line(int part);
  void erase_screen(int part);
  void put(const std::string& character);
  void line_feed();

  std::size_t columns_;
  std::vector<std::vector<Cell>> rows_;
  std::size_t row_ = 0, column_ = 0;
  Style style_;
};

// What a terminal showed at one moment of a session.
struct Moment {
  Screen screen;
  std::string title;
};

// The moments as an SVG document, one below the other: the rows in use, each under its title.
[[nodiscard]] std::string to_svg(const std::vector<Moment>& moments);

}  // namespace dblock::test
