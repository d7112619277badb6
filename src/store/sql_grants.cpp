#include <array>
#include <utility>

#include "base/text.hpp"
#include "store/schema.hpp"

namespace dblock::store {
namespace {

// Jobs need no DDL, and only read dblock_schema.
struct TableGrant {
  std::string_view table;
  std::string_view privileges;
};
constexpr std::array k_table_grants{
    TableGrant{"dblock_schema", "SELECT"},
    TableGrant{"dblock_lock", "SELECT, INSERT, UPDATE, DELETE"},
    TableGrant{"dblock_fence", "SELECT, INSERT, UPDATE, DELETE"},
};

// The statements are meant to be pasted; a name that would need escaping, which depends on sql_mode, is
// refused.
bool is_plain(std::string_view name) {
  return is_utf8(name) && !has_control_character(name) &&
         name.find_first_of("'\"`\\") == std::string_view::npos;
}

}  // namespace

Result<std::vector<std::string>> grants_for(std::string_view user, std::string_view database,
                                            bool with_history) {
  const auto at = user.rfind('@');
  const std::string_view name = user.substr(0, at);
  const std::string_view host = at == std::string_view::npos ? "%" : user.substr(at + 1);
  if (name.empty() || host.empty())
    return fail(Errc::usage, "the user for --print-grants must be USER or USER@HOST");
  if (!is_plain(name) || !is_plain(host) || !is_plain(database) || database.empty()) {
    return fail(
        Errc::usage,
        "cannot print grants for names with quotes, backslashes or control characters; grant SELECT, "
        "INSERT, UPDATE, DELETE on dblock_lock and dblock_fence, SELECT on dblock_schema and EXECUTE on the "
        "procedure dblock_assert_held by hand");
  }
  std::vector<std::string> statements;
  const auto grant = [&](std::string_view privileges, std::string_view what) {
    statements.push_back("GRANT " + std::string(privileges) + " `" + std::string(database) + "`.`" +
                         std::string(what) + "` TO '" + std::string(name) + "'@'" + std::string(host) + "'");
  };
  for (const auto& [table, privileges] : k_table_grants) grant(std::string(privileges) + " ON", table);
  if (with_history) grant("SELECT, INSERT, DELETE ON", "dblock_history");
  // Last, since this statement fails where the routine could not be installed.
  grant("EXECUTE ON PROCEDURE", "dblock_assert_held");
  return statements;
}

}  // namespace dblock::store
