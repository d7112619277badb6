// An application that takes locks by the procedures of sql/procedures, and has no other right.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "support/database.hpp"

namespace dblock::contract {

// The row that a procedure returns; "NULL" where it has no value.
struct ProcedureAnswer {
  std::string outcome;
  std::string token;
  std::string remaining_ms;
  std::string holder;
  bool operator==(const ProcedureAnswer&) const = default;
};

// The arguments of dblock_acquire, as SQL.
struct AcquireArguments {
  std::string ttl_ms = "60000";
  std::string margin_ms = "10000";
  std::string patience_ms = "NULL";
  std::string note = "NULL";
};

// One session. A call that the server refuses throws test::SqlError.
class Application {
 public:
  Application(test::ServerDatabase& database, const std::string& user)
      : session_(database.server(), user, database.name()) {}
  explicit Application(test::ServerDatabase& database)
      : Application(database, database.application_account()) {}

  ProcedureAnswer acquire(const std::string& key, const std::string& owner,
                          const AcquireArguments& arguments = {});
  ProcedureAnswer renew(const std::string& key, const std::string& owner, const std::string& ttl_ms = "NULL");
  ProcedureAnswer release(const std::string& key, const std::string& owner);
  // In a transaction of its own.
  ProcedureAnswer assert_held(const std::string& key, const std::string& token);
  // "dblock_release('k','owner')", with these words. In the session as it is: one that has ended stays ended.
  ProcedureAnswer call(const std::string& procedure_and_arguments);

  [[nodiscard]] test::Connection& session() { return session_; }

 private:
  test::Connection session_;
};

}  // namespace dblock::contract
