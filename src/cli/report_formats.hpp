// The formats of inspect that other programs read (private to the report files).
#pragma once

#include <string>
#include <vector>

#include "lease/store.hpp"

namespace dblock::cli {

// The line of column names, and a line for each holder or free lock.
[[nodiscard]] std::string csv_header();
[[nodiscard]] std::string csv_rows(const lease::Listing& listing);

// The text format for node_exporter's textfile collector. Each of `named` has its series even when the store
// knows nothing of it: a job that never ran has not succeeded lately.
[[nodiscard]] std::string prometheus_text(const lease::Listing& listing,
                                          const std::vector<lease::Key>& named);

}  // namespace dblock::cli
