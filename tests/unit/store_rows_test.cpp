// The columns that statements of both stores return, against the names by which they are read.
#include <cctype>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/mariadb/sql.hpp"
#include "store/rows.hpp"
#include "store/sqlite/sql.hpp"
#include "support/catch.hpp"

namespace dblock::store {
namespace {

// What the statement selects, column by column.
std::vector<std::string> selected(std::string_view statement) {
  constexpr std::string_view k_select = "SELECT ";
  REQUIRE(statement.starts_with(k_select));
  statement.remove_prefix(k_select.size());
  std::vector<std::string> columns(1);
  for (int depth = 0; !(depth == 0 && statement.starts_with(" FROM ")); statement.remove_prefix(1)) {
    REQUIRE(!statement.empty());
    const char c = statement.front();
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      columns.emplace_back();
    } else {
      columns.back() += c;
    }
  }
  return columns;
}

bool has_word(std::string_view text, std::string_view word) {
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const auto end = at + word.size();
    if ((at == 0 || !is_part(text[at - 1])) && (end == text.size() || !is_part(text[end]))) return true;
  }
  return false;
}

// For a column that is worked out of others: a word of how that is done.
using Signs = std::map<std::string_view, std::string_view>;

void check_order(std::string_view statement, std::span<const std::string_view> names,
                 const Signs& signs = {}) {
  const auto columns = selected(statement);
  REQUIRE(columns.size() == names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto sign = signs.find(names[i]);
    CAPTURE(names[i], columns[i]);
    CHECK(has_word(columns[i], sign == signs.end() ? names[i] : sign->second));
  }
}

}  // namespace

TEST_CASE("each column of a status row is what its name says, in both stores") {
  check_order(mariadb::sql(Verb::list_held), k_status_names,
              {{"now", "UTC_TIMESTAMP"}, {"refused_until", "LEAST"}});
  check_order(sqlite::sql(Verb::list_held), k_status_names,
              {{"now", "wall"}, {"line_until", "seen_until"}, {"refused_until", "min"}});
}

TEST_CASE("each column of a place and of a pause is what its name says, in both stores") {
  check_order(mariadb::sql(Verb::see_line), k_place_names);
  check_order(sqlite::sql(Verb::see_line), k_place_names);
  check_order(mariadb::sql(Verb::list_pauses), k_pause_names);
  check_order(sqlite::sql(Verb::list_pauses), k_pause_names);
}

}  // namespace dblock::store
