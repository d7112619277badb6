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

  [[nodiscard]] const char* connecting() const override { return "cannot use the store"; }
  Result<void> ensure_open() override { return connection_.ensure_open(); }
  Result<void> in_transaction(const Body& body) override { return connection_.in_transaction(body); }
  // In a transaction: one commit instead of several.
  Result<void> in_transaction_if_cheaper(const Body& body) override {
    return connection_.in_transaction(body);
  }
  Result<Effect> run(Verb verb, const Parameters& parameters) override;
  // Prepares the statement, since waiters wait for the release.
  void expect_release() noexcept override { connection_.prepare_ahead(sql(Verb::release)); }
  bool refused_null(const Error& why) const override;
  lease::WakeUp* wake_up() noexcept override { return &wake_up_; }
  void close() noexcept override { connection_.close(); }
  void interrupt() noexcept override { connection_.interrupt(); }

 private:
  // Ignores `patience`: there is no network that could lose an answer.
  void begin_call(const Attempt& attempt, Patience /*patience*/) override {
    call_.emplace(connection_, attempt);
  }
  void end_call() noexcept override { call_.reset(); }

  Connection connection_;
  FileWakeUp wake_up_;
  std::optional<Connection::Call> call_;
};

}  // namespace dblock::store::sqlite
