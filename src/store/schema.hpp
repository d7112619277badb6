// The versions of dblock's tables. Migrations are the ordered files in sql/, embedded at build time; each
// store has its own.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "lease/server_time.hpp"

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

// A procedure that applications and jobs call. dblock itself works without them.
struct Procedure {
  std::string_view name;
  std::string_view sql;
};

// The procedures that this binary knows, by their state in the database.
struct ProceduresState {
  std::vector<Procedure> there;     // of this version or a newer one
  std::vector<Procedure> outdated;  // of an older version
  std::vector<Procedure> missing;   // not installed, or not for this account to see
};

// What apply() did.
struct Applied {
  std::vector<Migration> migrations;
  std::vector<Procedure> procedures;
  std::string refusal;       // the database's words, where it refused to install a procedure
  bool grants_lost = false;  // a procedure was replaced by a server that drops the grants on it (MySQL)
};

class SchemaAdmin {
 public:
  virtual ~SchemaAdmin() = default;
  // The version this binary knows; needs no connection.
  [[nodiscard]] virtual unsigned version() const = 0;
  // Every migration this binary knows, with when it was applied. Errc::schema when the database is
  // newer and does not serve this binary.
  [[nodiscard]] virtual Result<std::vector<MigrationState>> status() = 0;
  // Applies what is missing, in order; safe when several hosts do so at once. Returns what this call did.
  // Errc::schema as status(), Errc::denied (with the privileges needed) when not allowed.
  // A procedure that the account may not create is no error: see Applied::refusal.
  [[nodiscard]] virtual Result<Applied> apply() = 0;
  // nullopt where applications have no session (the embedded store).
  [[nodiscard]] virtual Result<std::optional<ProceduresState>> procedures() { return std::nullopt; }
  // Whether runs that end are recorded in dblock_history. REQUIRES: a schema of this version.
  [[nodiscard]] virtual Result<bool> keeps_history() = 0;
  // Switches the recording of runs on or off; records that are there stay.
  [[nodiscard]] virtual Result<void> keep_history(bool on) = 0;
};

}  // namespace dblock::store
