// A GRANT statement, as SHOW GRANTS and `migrate --print-grants` write it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dblock::store {

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

}  // namespace dblock::store
