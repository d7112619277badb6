// The port to a database that keeps locks. It runs statements by name (sql/verbs) and contains no rule of
// leases: LockTable and the classes above it contain them, once for all databases.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lease/store.hpp"
#include "store/rows.hpp"
#include "store/verbs.hpp"

namespace dblock::store {

// What a statement did. An INSERT that finds its row present is no error: it changes nothing.
struct Effect {
  std::vector<Row> rows;
  // Rows; for `grant_rows` and `grant_beside`: leases, each with its fence and its lock's own row.
  std::uint64_t changed = 0;
  // The token or the length that the statement reports (its file says which). A statement that ends a run
  // reports the token where a history is kept and the caller must record the run.
  std::optional<std::uint64_t> reported{};
};

// THREADING, CONNECTION, ERRORS: as lease::LeaseStore. `attempt` begins every message: "cannot renew lock
// "k"".
class Database {
 public:
  Database() = default;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  virtual ~Database() = default;

  // Every use of the functions below stands between begin_call() and end_call(). In between, interrupt()
  // breaks the statement under way.
  enum class Patience {
    usual,
    renewal,  // for a holder's renewal, whose lease runs out meanwhile: SessionOptions::renewal_timeout
  };
  virtual void begin_call(Patience patience) = 0;
  virtual void end_call() noexcept = 0;

  // The `attempt` that begins messages about connecting.
  [[nodiscard]] virtual std::string connecting() const { return "cannot connect to the database"; }
  // Opens the connection, unless it is open and sound.
  [[nodiscard]] virtual Result<void> ensure_open(const std::string& attempt) = 0;

  // Runs `body` as one transaction: all its statements take effect, or none. `body` runs again when the
  // database itself rolled back. Errc::indeterminate when the reply to the commit is lost.
  using Body = std::function<Result<void>()>;
  [[nodiscard]] virtual Result<void> in_transaction(const std::string& attempt, const Body& body) = 0;
  // Runs `body`, whose statements need no transaction, as one transaction where that is cheaper.
  [[nodiscard]] virtual Result<void> bundled(const std::string& attempt, const Body& body) = 0;

  // Runs a statement. Does nothing for a verb for which this database has no SQL.
  [[nodiscard]] virtual Result<Effect> run(Verb verb, const Parameters& parameters,
                                           const std::string& attempt) = 0;
  // Runs a statement that only reads on the server that takes the writes, even where a proxy sends plain
  // reads to another server.
  [[nodiscard]] virtual Result<Effect> run_on_primary(Verb verb, const Parameters& parameters,
                                                      const std::string& attempt) {
    return run(verb, parameters, attempt);
  }
  // Runs `body`, which only reads, as one transaction on the server that takes the writes. A failed statement
  // fails the whole. Errc::unreachable if a server that takes no writes answers all the same, or if the
  // reading took so long that what was read may no longer be so: the caller asks again.
  [[nodiscard]] virtual Result<void> on_primary(const std::string& /*attempt*/, const Body& body) {
    return body();
  }
  // As lease::LeaseStore::expect_release().
  virtual void expect_release() noexcept {}
  // As lease::LeaseStore::rest().
  virtual void rest() noexcept {}
  // True when the statement failed because a column refused NULL: it changed nothing.
  [[nodiscard]] virtual bool refused_null(const Error& why) const = 0;

  // Whether a grant would be (safe_to_grant), and whether the last one was (grant_is_safe), stored on as many
  // servers as the settings ask for. Errc::unreachable when not.
  [[nodiscard]] virtual Result<void> safe_to_grant(const std::string& /*attempt*/) { return {}; }
  [[nodiscard]] virtual Result<void> grant_is_safe(const std::string& /*attempt*/) { return {}; }
  // True when the attempt that failed with `why` had waited for a job's open transaction that called
  // dblock_assert_held(): the lock then counts as held. Errc::unreachable where it had waited for a commit
  // that no replica acknowledges.
  [[nodiscard]] virtual Result<bool> kept_by_fence(const lease::Key& /*key*/, const Error& /*why*/,
                                                   const std::string& /*attempt*/) {
    return false;
  }

  // True when a transaction that called dblock_assert_held() would keep an exclusive request of the lock
  // `key` waiting, or another statement keeps the lock's rows locked. For a lock that nobody holds. False
  // also where the database does not tell: the server takes no writes, or the account may not lock rows.
  [[nodiscard]] virtual Result<bool> waits_for_fence(const lease::Key& /*key*/,
                                                     const std::string& /*attempt*/) {
    return false;
  }

  // The wake-up of those who wait, owned by the database; null where there is none.
  [[nodiscard]] virtual lease::WakeUp* wake_up() noexcept = 0;

  // Closes the connection; ensure_open() opens a new one.
  virtual void close() noexcept = 0;
  // Thread-safe: see lease::LeaseStore::interrupt().
  virtual void interrupt() noexcept = 0;
};

}  // namespace dblock::store
