// The table of inspect, shared by its report, its page and --watch (private to these).
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "app/use_cases.hpp"
#include "cli/report/table.hpp"

namespace dblock::cli {

struct TableStyle {
  bool all = false;  // adds the columns STATE and LAST RUN, which matter for free locks
  bool color = false;
  std::size_t columns = 0;  // width of the terminal; 0: no limit
  // Returns the character to put before a row. Without a function there is no such column.
  std::function<char(const lease::LockStatus&)> mark = {};
};

// The header, then a row for each holder or free lock.
[[nodiscard]] std::vector<TableRow> inspect_rows(const lease::Listing& listing, const TableStyle& style);

// The header, then a line for each holder or free lock.
[[nodiscard]] std::vector<std::string> table_lines(const lease::Listing& listing, const TableStyle& style);

// The lines above the table: "locks of this user on this host only (sqlite:/…)" for an embedded store, which
// only the file's owner can use; and a line for each pause.
[[nodiscard]] std::vector<std::string> heading_lines(const app::InspectReport& report);

}  // namespace dblock::cli
