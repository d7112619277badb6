// The table of inspect, for the report and for --watch (private to them).
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "lease/store.hpp"

namespace dblock::cli {

struct TableStyle {
  bool all = false;  // with the columns of locks that nobody holds
  bool color = false;
  std::size_t columns = 0;  // of the terminal; 0: no limit
  // One character that stands before a row; where there is such a function.
  std::function<char(const lease::LockStatus&)> mark = {};
};

// The header and a line for each lock or holder.
[[nodiscard]] std::vector<std::string> table_lines(const lease::Listing& listing, const TableStyle& style);

// "locks of this user on this host only (sqlite:/…)": nobody but its owner may use the file.
[[nodiscard]] std::string local_store_line(const std::string& url);

}  // namespace dblock::cli
