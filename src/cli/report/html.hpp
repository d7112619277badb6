// Pages of HTML: the template, text and tables in it (private to the report files).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/report/table.hpp"

namespace dblock::cli {

// Rows of a page's table, at most: a browser lays out more of them too slowly.
inline constexpr std::size_t k_page_rows = 5000;

// page.html with its fields, such as {{title}}, replaced. REQUIRES: `fields` has all of them.
[[nodiscard]] std::string fill_page(const std::map<std::string_view, std::string>& fields);

// As content of an element or of a quoted attribute. Text from rows must have gone through escape_untrusted()
// before.
[[nodiscard]] std::string html_text(std::string_view text);

// A table of `rows`, of which the first is the header; the n-th row after it has the id "r<n>", from r0 on,
// and the class `classes[n]`. Leaves out rows beyond k_page_rows, and says so.
[[nodiscard]] std::string html_table(const std::vector<TableRow>& rows,
                                     const std::vector<std::string_view>& classes);

}  // namespace dblock::cli
