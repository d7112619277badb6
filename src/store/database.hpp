// The port to a database that keeps locks. It runs statements by name (sql/verbs) and contains no rule of
// leases: the files of rules/ contain them, once for all databases.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lease/store.hpp"
#include "store/attempt.hpp"
#include "store/rows.hpp"
#include "store/verbs.hpp"

namespace dblock::store {

// What a statement did. An INSERT that finds its row present is no error: it changes nothing.
struct Effect {
  std::vector<Row> rows;
  // Rows; for a grant: leases, each with its fence and its lock's own row.
  std::uint64_t changed = 0;
  // The token or the length that the statement reports (its file says which). A statement that ends a run
  // reports the token where a history is kept and the caller must record the run.
  std::optional<std::uint64_t> reported{};
};

// THREADING, CONNECTION, ERRORS: as lease::LeaseStore. Every message begins with what the call tries to do.
class Database {
 public:
  Database() = default;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  virtual ~Database() = default;

  enum class Patience {
    usual,
    renewal,  // for a holder's renewal, whose lease runs out meanwhile: SessionOptions::renewal_timeout
  };
  // Every use of the functions below stands inside a call. Only there interrupt() breaks the statement under
  // way. Calls are not nested.
  class Call {
   public:
    Call(Database& database, Attempt attempt, Patience patience = Patience::usual) : database_(database) {
      database_.attempt_ = std::move(attempt);
      database_.begin_call(database_.attempt_, patience);
    }
    ~Call() { database_.end_call(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    [[nodiscard]] Result<void> open() const { return database_.ensure_open(); }

   private:
    Database& database_;
  };
  // What the call under way tries to do.
  [[nodiscard]] const Attempt& attempt() const { return attempt_; }

  // The attempt of a call that only connects.
  [[nodiscard]] virtual const char* connecting() const { return "cannot connect to the database"; }
  // Opens the connection, unless it is open and sound.
  [[nodiscard]] virtual Result<void> ensure_open() = 0;

  // Runs `body` as one transaction: all its statements take effect, or none. `body` runs again when the
  // database itself rolled back. Errc::indeterminate when the reply to the commit is lost.
  using Body = std::function<Result<void>()>;
  [[nodiscard]] virtual Result<void> in_transaction(const Body& body) = 0;
  // Runs `body`, whose statements need no transaction, as one transaction where that is cheaper.
  [[nodiscard]] virtual Result<void> in_transaction_if_cheaper(const Body& body) = 0;

  // Runs a statement. Does nothing for a verb for which this database has no SQL.
  [[nodiscard]] virtual Result<Effect> run(Verb verb, const Parameters& parameters) = 0;
  // Runs a statement that only reads on the server that takes the writes, even where a proxy sends plain
  // reads to another server.
  [[nodiscard]] virtual Result<Effect> run_on_primary(Verb verb, const Parameters& parameters) {
    return run(verb, parameters);
  }
  // Runs `body`, which only reads, as one transaction on the server that takes the writes. A failed statement
  // fails the whole. Errc::unreachable if a server that takes no writes answers all the same, or if the
  // reading took so long that what was read may no longer be so: the caller asks again.
  [[nodiscard]] virtual Result<void> on_primary(const Body& body) { return body(); }
  // See lease::LeaseStore::hold().
  virtual void expect_release() noexcept {}
  // As lease::LeaseStore::rest().
  virtual void rest() noexcept {}
  // True when the statement failed because a column refused NULL: it changed nothing.
  [[nodiscard]] virtual bool refused_null(const Error& why) const = 0;

  // Whether a grant would be (safe_to_grant), and whether the last one was (grant_is_safe), stored on as many
  // servers as the settings ask for. Errc::unreachable when not.
  [[nodiscard]] virtual Result<void> safe_to_grant() { return {}; }
  [[nodiscard]] virtual Result<void> grant_is_safe() { return {}; }
  // True when a grant that failed with `why` had waited for a job's open transaction that called
  // dblock_assert_held(): the lock then counts as held. Errc::unreachable where it had waited for a commit
  // that no replica acknowledges.
  [[nodiscard]] virtual Result<bool> kept_by_fence(const lease::Key& /*key*/, const Error& /*why*/) {
    return false;
  }

  // True when a transaction that called dblock_assert_held() would keep an exclusive request of the lock
  // `key` waiting, or another statement keeps the lock's rows locked. For a lock that nobody holds. False
  // also where the database does not tell: the server takes no writes, or the account may not lock rows.
  [[nodiscard]] virtual Result<bool> waits_for_fence(const lease::Key& /*key*/) { return false; }

  // The wake-up of those who wait, owned by the database; null where there is none.
  [[nodiscard]] virtual lease::WakeUp* wake_up() noexcept = 0;

  // Closes the connection; ensure_open() opens a new one.
  virtual void close() noexcept = 0;
  // Thread-safe: see lease::LeaseStore::interrupt().
  virtual void interrupt() noexcept = 0;

 private:
  // For Call.
  virtual void begin_call(const Attempt& attempt, Patience patience) = 0;
  virtual void end_call() noexcept = 0;

  Attempt attempt_;
};

}  // namespace dblock::store
