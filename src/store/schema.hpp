// The versions of dblock's tables. Migrations are the ordered files in sql/, embedded at build time; each
// store has its own.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "lease/types.hpp"

namespace dblock::store {

struct Migration {
  unsigned version = 0;
  unsigned serves = 0;  // the oldest dblock that can use this version, by the version which that dblock knows
  std::string_view name;  // file name without its directory
  std::string_view sql;
};

struct MigrationState {
  Migration migration;
  std::optional<lease::ServerTime> applied_at;
};

// The state of dblock_assert_held(), which jobs call in their own transactions. All else works without it.
struct RoutineState {
  bool there = false;   // false also where this account may not see it
  std::string refusal;  // the database's words, where it refused to install the routine
};

class SchemaAdmin {
 public:
  virtual ~SchemaAdmin() = default;
  // The version this binary knows; needs no connection.
  [[nodiscard]] virtual unsigned version() const = 0;
  // Every migration this binary knows, with when it was applied. Errc::schema when the database is
  // newer and does not serve this binary.
  [[nodiscard]] virtual Result<std::vector<MigrationState>> status() = 0;
  // Applies what is missing, in order; safe when several hosts do so at once. Returns what this call applied.
  // Errc::schema as status(), Errc::denied (with the privileges needed) when not allowed.
  // A routine that the account may not create is not an error: routine() tells.
  [[nodiscard]] virtual Result<std::vector<Migration>> apply() = 0;
  // nullopt where only dblock runs transactions (the embedded store).
  [[nodiscard]] virtual Result<std::optional<RoutineState>> routine() { return std::nullopt; }
  // Whether runs that end are recorded in dblock_history. REQUIRES: a schema of this version.
  [[nodiscard]] virtual Result<bool> keeps_history() = 0;
  // Switches the recording of runs on or off; records that are there stay.
  [[nodiscard]] virtual Result<void> keep_history(bool on) = 0;
};

}  // namespace dblock::store
