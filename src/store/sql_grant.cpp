#include "store/sql_grant.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace dblock::store {
namespace {

constexpr std::string_view k_quotes = "`'\"";

// The end of the quoted text that starts at `at`; a doubled quote is part of it.
std::size_t end_of_quoted(std::string_view text, std::size_t at) {
  const char quote = text[at++];
  while (at < text.size()) {
    if (text[at++] != quote) continue;
    if (at >= text.size() || text[at] != quote) return at;
    ++at;
  }
  return at;
}

// The first position of `what` outside quotes and brackets; npos: none.
std::size_t find_outside(std::string_view text, std::string_view what) {
  int depth = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (depth == 0 && text.substr(at).starts_with(what)) return at;
    if (k_quotes.find(text[at]) != std::string_view::npos) {
      at = end_of_quoted(text, at);
      continue;
    }
    depth += text[at] == '(' ? 1 : 0;
    depth -= text[at] == ')' ? 1 : 0;
    ++at;
  }
  return std::string_view::npos;
}

std::vector<std::string> privileges_of(std::string_view text) {
  std::vector<std::string> privileges;
  while (!text.empty()) {
    const auto comma = find_outside(text, ",");
    const auto one = trimmed(text.substr(0, comma));
    privileges.emplace_back(trimmed(one.substr(0, one.find('('))));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return privileges;
}

// Takes `*` or a name off the front of `text`; the name without its quotes, empty for `*`.
std::string take_name(std::string_view& text) {
  if (text.empty()) return {};
  if (k_quotes.find(text.front()) == std::string_view::npos) {
    const std::string name(text.substr(0, text.find('.')));
    text.remove_prefix(name.size());
    return name == "*" ? std::string() : name;
  }
  const auto end = end_of_quoted(text, 0);
  const char quote = text.front();
  std::string name;
  for (std::size_t at = 1; at + 1 < end; ++at) {
    name += text[at];
    if (text[at] == quote) ++at;
  }
  text.remove_prefix(end);
  return name;
}

// Jobs need no DDL, and only read dblock_schema. They may pause: whoever may take a lock can keep it from all
// others.
struct TableGrant {
  std::string_view table;
  std::string_view privileges;
};
constexpr std::string_view k_fence_procedure = "dblock_assert_held";
constexpr std::array<std::string_view, 4> k_application_procedures{"dblock_acquire", "dblock_renew",
                                                                   "dblock_release", k_fence_procedure};
constexpr std::array k_table_grants{
    TableGrant{"dblock_schema", "SELECT"},
    TableGrant{"dblock_lock", "SELECT, INSERT, UPDATE, DELETE"},
    TableGrant{"dblock_fence", "SELECT, INSERT, UPDATE, DELETE"},
    TableGrant{"dblock_pause", "SELECT, INSERT, UPDATE, DELETE"},
    TableGrant{"dblock_waiter", "SELECT, INSERT, UPDATE, DELETE"},
};

// The statements are meant to be pasted; a name that would need escaping, which depends on sql_mode, is
// refused.
bool is_plain(std::string_view name) {
  return is_utf8(name) && !has_control_character(name) &&
         name.find_first_of("'\"`\\") == std::string_view::npos;
}

// The database that the grant is on. A grant on a whole database holds a pattern of names: `\_` and `\%` are
// plain characters. Empty for a pattern with a `%`.
std::string named_by(const SqlGrant& grant) {
  if (!grant.object.empty()) return grant.database;
  std::string name;
  for (std::size_t at = 0; at < grant.database.size(); ++at) {
    const char here = grant.database[at];
    if (here == '%') return {};
    const bool escapes = here == '\\' && at + 1 < grant.database.size();
    name += escapes ? grant.database[++at] : here;
  }
  return name;
}

}  // namespace

std::string SqlGrant::scope() const {
  return (database.empty() ? "*" : database) + "." + (object.empty() ? "*" : object);
}

bool only_looks(std::string_view privilege) {
  constexpr std::array<std::string_view, 8> k_looking{
      "USAGE",     "REPLICATION CLIENT", "BINLOG MONITOR",  "SLAVE MONITOR",
      "SHOW VIEW", "SHOW DATABASES",     "REPLICA MONITOR", "PROCESS"};
  return std::ranges::find(k_looking, privilege) != k_looking.end();
}

bool reach_beyond(const std::vector<std::string>& grants, std::string_view database) {
  return grants.empty() || std::ranges::any_of(grants, [&](const std::string& statement) {
           const auto grant = parse_grant(statement);
           if (!grant) return true;
           if (grant->database.empty()) return !std::ranges::all_of(grant->privileges, only_looks);
           return named_by(*grant) != database;
         });
}

bool show_procedures(const std::vector<std::string>& grants, std::string_view database) {
  return std::ranges::any_of(grants, [&](const std::string& statement) {
    const auto grant = parse_grant(statement);
    if (!grant || !grant->object.empty()) return false;
    if (!grant->database.empty() && named_by(*grant) != database) return false;
    return std::ranges::any_of(grant->privileges, [](std::string_view privilege) {
      return privilege.starts_with("ALL") || privilege == "EXECUTE" || privilege == "ALTER ROUTINE" ||
             privilege == "CREATE ROUTINE";
    });
  });
}

std::optional<SqlGrant> parse_grant(std::string_view statement) {
  constexpr std::string_view k_grant = "GRANT ";
  constexpr std::string_view k_on = " ON ";
  constexpr std::string_view k_to = " TO ";
  if (!statement.starts_with(k_grant)) return std::nullopt;
  statement.remove_prefix(k_grant.size());
  const auto on = find_outside(statement, k_on);
  if (on == std::string_view::npos) return std::nullopt;
  const auto rest = statement.substr(on + k_on.size());
  const auto to = find_outside(rest, k_to);
  if (to == std::string_view::npos) return std::nullopt;

  SqlGrant grant{privileges_of(statement.substr(0, on)), {}, {}, false};
  if (grant.privileges.front() == "PROXY") return std::nullopt;
  std::string_view scope = rest.substr(0, to);
  for (const std::string_view kind : std::to_array<std::string_view>({"PROCEDURE ", "FUNCTION "})) {
    if (!scope.starts_with(kind)) continue;
    scope.remove_prefix(kind.size());
    grant.routine = true;
  }
  if (scope.starts_with("TABLE ")) scope.remove_prefix(6);
  grant.database = take_name(scope);
  if (scope.starts_with('.')) scope.remove_prefix(1);
  grant.object = take_name(scope);
  if (find_outside(rest.substr(to), "GRANT OPTION") != std::string_view::npos)
    grant.privileges.emplace_back("GRANT OPTION");
  return grant;
}

namespace {

// Writes GRANT statements on objects of one database for one account.
class GrantWriter {
 public:
  static Result<GrantWriter> make(std::string_view user, std::string_view database) {
    const auto at = user.rfind('@');
    const std::string_view name = user.substr(0, at);
    const std::string_view host = at == std::string_view::npos ? "%" : user.substr(at + 1);
    if (name.empty() || host.empty())
      return fail(Errc::usage, "the user for --print-grants must be USER or USER@HOST");
    if (is_plain(name) && is_plain(host) && is_plain(database) && !database.empty())
      return GrantWriter("'" + std::string(name) + "'@'" + std::string(host) + "'", std::string(database));
    return fail(Errc::usage,
                "cannot print grants for names with quotes, backslashes or control characters; grant by "
                "hand: for jobs "
                "SELECT, INSERT, UPDATE, DELETE on dblock_lock, dblock_fence, dblock_pause and "
                "dblock_waiter, SELECT on "
                "dblock_schema and EXECUTE on the procedure dblock_assert_held; for applications EXECUTE on "
                "the procedures alone");
  }

  void grant(std::string_view privileges, std::string_view object) {
    statements_.push_back("GRANT " + std::string(privileges) + " `" + database_ + "`.`" +
                          std::string(object) + "` TO " + account_);
  }
  [[nodiscard]] std::vector<std::string> statements() && { return std::move(statements_); }

 private:
  GrantWriter(std::string account, std::string database)
      : account_(std::move(account)), database_(std::move(database)) {}
  std::string account_;
  std::string database_;
  std::vector<std::string> statements_;
};

}  // namespace

Result<std::vector<std::string>> grants_for(std::string_view user, std::string_view database,
                                            bool with_history) {
  DBLOCK_TRY(auto writer, GrantWriter::make(user, database));
  for (const auto& [table, privileges] : k_table_grants) writer.grant(std::string(privileges) + " ON", table);
  if (with_history) writer.grant("SELECT, INSERT, DELETE ON", "dblock_history");
  // Last, since this statement fails where the procedure could not be installed.
  writer.grant("EXECUTE ON PROCEDURE", k_fence_procedure);
  return std::move(writer).statements();
}

Result<std::vector<std::string>> application_grants_for(std::string_view user, std::string_view database) {
  DBLOCK_TRY(auto writer, GrantWriter::make(user, database));
  for (const auto procedure : k_application_procedures) writer.grant("EXECUTE ON PROCEDURE", procedure);
  return std::move(writer).statements();
}

}  // namespace dblock::store
