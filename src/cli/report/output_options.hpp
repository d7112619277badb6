// How the user wants results to be shown.
#pragma once

namespace dblock::cli {

enum class Color { automatic, always, never };

// The formats of inspect and history other than JSON.
enum class Shape { table, csv, prometheus, html };

// How results are shown.
struct OutputOptions {
  bool json = false;
  Shape shape = Shape::table;  // counts only if `json` is false
  bool shell = false;          // acquire --format shell; after an error, a guess from the typed words
  Color color = Color::automatic;
};

}  // namespace dblock::cli
