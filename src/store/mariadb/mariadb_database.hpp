// The database port on MariaDB and MySQL. The statements are in sql/verbs/mariadb.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "store/database.hpp"
#include "store/mariadb/replicas.hpp"
#include "store/mariadb/scarcity.hpp"
#include "store/mariadb/session/connection.hpp"
#include "store/mariadb/wake_up.hpp"

namespace dblock::store::mariadb {

class MariadbDatabase final : public Database {
 public:
  MariadbDatabase(const MariadbSettings& settings, const SessionOptions& options);

  Result<void> ensure_open() override { return connection_.ensure_open(); }
  Result<void> in_transaction(const Body& body) override;
  // Without a transaction, which would cost two more statements.
  Result<void> in_transaction_if_cheaper(const Body& body) override { return body(); }
  Result<Effect> run(Verb verb, const Parameters& parameters) override;
  Result<Effect> run_on_primary(Verb verb, const Parameters& parameters) override;
  Result<void> on_primary(const Body& body) override;
  bool refused_null(const Error& why) const override { return why.native == k_null_refused; }
  Result<void> safe_to_grant() override;
  Result<void> grant_is_safe() override { return replicas_.after_grant(connection_); }
  void expect_release() noexcept override;
  void rest() noexcept override;
  Result<bool> kept_by_fence(const lease::Key& key, const Error& why) override;
  Result<bool> waits_for_fence(const lease::Key& key) override;
  lease::WakeUp* wake_up() noexcept override { return &wake_up_; }
  void close() noexcept override { connection_.close(); }
  void interrupt() noexcept override {
    connection_.interrupt();
    aside_.interrupt();
  }

 private:
  void begin_call(const Attempt& attempt, Patience patience) override {
    call_.emplace(connection_, attempt, patience == Patience::renewal ? renewal_timeout_ : Micros{0});
    aside_call_.emplace(aside_, attempt);
  }
  void end_call() noexcept override {
    aside_call_.reset();
    call_.reset();
  }

  [[nodiscard]] Result<void> end_sleep();
  [[nodiscard]] Result<Connection*> awake_connection();
  [[nodiscard]] std::unexpected<Error> lagging(Connection& connection, const std::string& replica) const;
  [[nodiscard]] Result<std::vector<Row>> read_in_transaction(Connection& connection,
                                                             const std::string& statement,
                                                             MemoryLimit limit) const;
  [[nodiscard]] Result<std::vector<Row>> read_on_primary(Connection& connection, const std::string& statement,
                                                         MemoryLimit limit) const;
  [[nodiscard]] Result<bool> may_ask_fences();
  [[nodiscard]] Result<Effect> execute(Verb verb, const Parameters& parameters);
  [[nodiscard]] Result<Effect> change(Verb verb, const Parameters& parameters);

  Connection connection_;
  Connection aside_;  // for looks while connection_ sleeps; the next sleep closes it
  const bool reads_only_;
  std::optional<bool> may_ask_fences_;  // nullopt: not known
  HolderSession holder_session_;
  Scarcity scarcity_;
  const Micros renewal_timeout_;
  NamedLockWakeUp wake_up_;
  ReplicaCheck replicas_;
  std::optional<Connection::Call> call_;
  std::optional<Connection::Call> aside_call_;
};

}  // namespace dblock::store::mariadb
