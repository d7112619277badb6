// GRANT statements: reads those of SHOW GRANTS, and writes those of `migrate --print-grants`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace dblock::store {

// A statement as SHOW GRANTS writes it.
struct SqlGrant {
  std::vector<std::string> privileges;  // "SELECT", without lists of columns; "GRANT OPTION" among them
  std::string database;                 // empty: all of them
  std::string object;                   // table or routine; empty: all of the database
  bool routine = false;

  // "*.*", "locks.*", "locks.dblock_lock".
  [[nodiscard]] std::string scope() const;
};

// nullopt for a statement that grants no privilege on anything: a role, a proxy, an unknown form.
[[nodiscard]] std::optional<SqlGrant> parse_grant(std::string_view statement);

// True for a privilege that changes nothing, and shows no row of a table: USAGE, PROCESS, …
[[nodiscard]] bool only_looks(std::string_view privilege);

// Whether the account whose SHOW GRANTS these are may do more than look outside the database. True if a
// statement cannot be read, as that of a role, and without any statement. A `_` in a pattern of names is
// taken for itself.
[[nodiscard]] bool reach_beyond(const std::vector<std::string>& grants, std::string_view database);

// Whether the account is shown all procedures of the database. False if that cannot be told.
[[nodiscard]] bool show_procedures(const std::vector<std::string>& grants, std::string_view database);

// The statements with the least privileges for running jobs, for `user` as USER or USER@HOST (default host
// %). `with_history`: also those for writing dblock_history, whose table must be there. Errc::usage for a
// name that cannot be quoted safely.
[[nodiscard]] Result<std::vector<std::string>> grants_for(std::string_view user, std::string_view database,
                                                          bool with_history = false);
// The same for an application, which calls the procedures and needs no right on a table.
[[nodiscard]] Result<std::vector<std::string>> application_grants_for(std::string_view user,
                                                                      std::string_view database);

}  // namespace dblock::store
