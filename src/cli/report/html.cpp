#include "cli/report/html.hpp"

#include <algorithm>

#include "cli/embedded_file.hpp"

namespace dblock::cli {
namespace {

void append_row(std::string& html, const TableRow& row, std::string_view start, bool header) {
  html += start;
  for (const auto& cell : row) {
    const bool first = &cell == &row.front();
    html += header ? "<th scope=\"col\">" : first ? "<th scope=\"row\">" : "<td>";
    html += html_text(cell.text);
    html += header || first ? "</th>" : "</td>";
  }
  html += "</tr>\n";
}

}  // namespace

std::string fill_page(const std::map<std::string_view, std::string>& fields) {
  std::string page;
  std::string_view rest = embedded_file("page.html");
  for (auto begin = rest.find("{{"); begin != std::string_view::npos; begin = rest.find("{{")) {
    const auto end = rest.find("}}", begin);
    page += rest.substr(0, begin);
    page += fields.at(rest.substr(begin + 2, end - begin - 2));
    rest.remove_prefix(end + 2);
  }
  return page += rest;
}

std::string html_text(std::string_view text) {
  std::string html;
  html.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      case '\n':
        html += "&#10;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

std::string html_table(const std::vector<TableRow>& rows, const std::vector<std::string_view>& classes) {
  const std::size_t all = rows.size() - 1;
  const std::size_t shown = std::min(all, k_page_rows);
  std::string html = "<table>\n";
  if (shown < all)
    html += "<caption>The first " + std::to_string(shown) + " of " + std::to_string(all) +
            " rows; the formats csv and json have all of them.</caption>\n";
  html += "<thead>";
  append_row(html, rows.front(), "<tr>", true);
  html += "</thead>\n<tbody>\n";
  for (std::size_t i = 0; i < shown; ++i)
    append_row(html, rows[i + 1],
               "<tr id=\"r" + std::to_string(i) + "\" class=\"" + std::string(classes[i]) + "\">", false);
  return html += "</tbody>\n</table>";
}

}  // namespace dblock::cli
