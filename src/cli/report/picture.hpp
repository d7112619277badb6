// The lines that `inspect --watch` draws on a terminal: title, trouble, table.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/use_cases.hpp"
#include "base/clock.hpp"

namespace dblock::cli {

class Picture {
 public:
  struct Style {
    Micros every{0};
    bool all = false;
    bool color = false;
  };
  explicit Picture(const Style& style) : style_(style) {}

  // Sets the database's newest answer. Marks rows that are new or were renewed since the answer before.
  void set_report(app::InspectReport report);
  // Sets the reason why there is no newer answer; shown until the next answer.
  void set_trouble(std::string why) { trouble_ = std::move(why); }

  // At most `rows` lines of at most `columns` columns. `age`: time since the last answer.
  [[nodiscard]] std::vector<std::string> lines(std::size_t columns, std::size_t rows, Nanos age) const;

 private:
  struct Mark {
    std::optional<lease::ServerTime> renewed_at;
    char sign = ' ';
  };
  [[nodiscard]] std::string title(Nanos age) const;

  Style style_;
  std::optional<app::InspectReport> report_;
  std::map<std::string, Mark> marks_;  // by key, slot and owner
  std::string trouble_;
};

}  // namespace dblock::cli
