// The database port on the embedded store. The statements are in sql/verbs/sqlite.
#pragma once

#include <optional>
#include <string>

#include "store/database.hpp"
#include "store/sqlite/connection.hpp"
#include "store/sqlite/sql.hpp"
#include "store/sqlite/wake_up.hpp"

namespace dblock::store::sqlite {

class SqliteDatabase final : public Database {
 public:
  SqliteDatabase(const SqliteSettings& settings, const SessionOptions& options, Clock& clock);

  // Ignores `patience`: there is no network that could lose an answer.
  void begin_call(Patience /*patience*/) override { connection_.begin_call(); }
  void end_call() noexcept override { connection_.end_call(); }
  [[nodiscard]] std::string connecting() const override { return "cannot use the store"; }
  Result<void> ensure_open(const std::string& attempt) override { return connection_.ensure_open(attempt); }
  Result<void> in_transaction(const std::string& attempt, const Body& body) override {
    return connection_.in_transaction(attempt, body);
  }
  // In a transaction: one commit instead of several.
  Result<void> bundled(const std::string& attempt, const Body& body) override {
    return connection_.in_transaction(attempt, body);
  }
  Result<Effect> run(Verb verb, const Parameters& parameters, const std::string& attempt) override;
  // Prepares the statement, since waiters wait for the release.
  void expect_release() noexcept override { connection_.prepare_ahead(sql(Verb::release)); }
  bool refused_null(const Error& why) const override;
  lease::WakeUp* wake_up() noexcept override { return &wake_up_; }
  void close() noexcept override { connection_.close(); }
  void interrupt() noexcept override { connection_.interrupt(); }

 private:
  Connection connection_;
  FileWakeUp wake_up_;
};

}  // namespace dblock::store::sqlite
