// The database port on MariaDB and MySQL. The statements are in sql/verbs/mariadb.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/database.hpp"
#include "store/mariadb/replicas.hpp"
#include "store/mariadb/session/connection.hpp"
#include "store/mariadb/turnstile.hpp"

namespace dblock::store::mariadb {

class MariadbDatabase final : public Database {
 public:
  MariadbDatabase(const MariadbSettings& settings, const SessionOptions& options);

  void begin_call(Patience patience) override {
    call_.emplace(connection_, patience == Patience::renewal ? renewal_timeout_ : Micros{0});
    reader_call_.emplace(reader_);
  }
  // Closes the second connection: else a hundred waiters would take two hundred of the server's connections.
  void end_call() noexcept override {
    reader_.close();
    reader_call_.reset();
    call_.reset();
  }
  Result<void> ensure_open(const std::string& attempt) override { return connection_.ensure_open(attempt); }
  Result<void> in_transaction(const std::string& attempt, const Body& body) override;
  // Without a transaction, which would cost two more statements.
  Result<void> bundled(const std::string& /*attempt*/, const Body& body) override { return body(); }
  Result<Effect> run(Verb verb, const Parameters& parameters, const std::string& attempt) override;
  Result<Effect> run_on_primary(Verb verb, const Parameters& parameters, const std::string& attempt) override;
  Result<void> on_primary(const std::string& attempt, const Body& body) override;
  bool refused_null(const Error& why) const override { return why.native == k_null_refused; }
  Result<void> safe_to_grant(const std::string& attempt) override;
  Result<void> grant_is_safe(const std::string& attempt) override {
    return replicas_.after_grant(connection_, attempt);
  }
  void settle() noexcept override { turnstile_.restore_idle_time(); }
  Result<bool> kept_by_fence(const lease::Key& key, const Error& why, const std::string& attempt) override;
  Result<bool> waits_for_fence(const lease::Key& key, const std::string& attempt) override;
  lease::Turnstile* turnstile() noexcept override { return &turnstile_; }
  std::optional<lease::WaiterPosition> waiter_position(const lease::LockStatus& lock) override;
  void add_waiters(lease::Listing& listing) override;
  void close() noexcept override { connection_.close(); }
  void interrupt() noexcept override {
    connection_.interrupt();
    reader_.interrupt();
  }

 private:
  [[nodiscard]] Result<void> leave_turnstile(const std::string& attempt);
  [[nodiscard]] Result<Connection*> connection_to_read(const std::string& attempt);
  [[nodiscard]] Result<Effect> look(Verb verb, const Parameters& parameters, const std::string& attempt);
  [[nodiscard]] Result<bool> may_ask_fences(const std::string& attempt);
  [[nodiscard]] Result<Effect> change(Verb verb, const Parameters& parameters, const std::string& attempt);

  Connection connection_;
  Connection reader_;  // open only within a call, and only while connection_ waits at the turnstile
  // The last look at one lock: the statement, its answer, and our position at the turnstile.
  struct Seen {
    std::string statement;
    Effect answer;
    std::optional<lease::WaiterPosition> position{};
  };
  std::optional<Seen> last_look_;
  std::optional<bool> may_ask_fences_;  // nullopt: not known
  const Micros renewal_timeout_;
  NamedLockTurnstile turnstile_;
  ReplicaCheck replicas_;
  std::optional<Connection::Call> call_;
  std::optional<Connection::Call> reader_call_;
};

}  // namespace dblock::store::mariadb
