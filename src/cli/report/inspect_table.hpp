// The table of inspect, shared by its report and by --watch (private to both).
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "lease/store.hpp"

namespace dblock::cli {

struct TableStyle {
  bool all = false;  // adds the columns STATE and LAST RUN, which matter for free locks
  bool color = false;
  std::size_t columns = 0;  // width of the terminal; 0: no limit
  // Returns the character to put before a row. Without a function there is no such column.
  std::function<char(const lease::LockStatus&)> mark = {};
};

// The header, then a line for each holder or free lock.
[[nodiscard]] std::vector<std::string> table_lines(const lease::Listing& listing, const TableStyle& style);

// "locks of this user on this host only (sqlite:/…)": only the file's owner can use an embedded store.
[[nodiscard]] std::string local_store_line(const std::string& url);

}  // namespace dblock::cli
