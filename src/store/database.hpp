// What a database must offer to keep locks. Nothing here knows what a lease is: the rules stand once, in
// LockTable and above it, and say what is to be done by the names of statements (sql/verbs).
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

// What a statement did. A row that an INSERT found there already is no error: nothing was changed.
struct Effect {
  std::vector<Row> rows;
  std::uint64_t changed = 0;  // rows; for `put` and `put_beside` leases, each with all that belongs to it
  // The token or the length that the statement tells (its file says which). Where one ends a run: the token,
  // if the history is up to the caller.
  std::optional<std::uint64_t> told{};
};

// THREADING, CONNECTION, ERRORS: as lease::LeaseStore. `attempt` begins every message: "cannot renew lock
// "k"".
class Database {
 public:
  Database() = default;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  virtual ~Database() = default;

  // Around everything below: between the two interrupt() breaks what is under way.
  enum class Patience {
    usual,
    renewal,  // a lease runs out meanwhile: SessionOptions::renewal_timeout
  };
  virtual void begin_call(Patience patience) = 0;
  virtual void end_call() noexcept = 0;

  // What connecting is called in messages.
  [[nodiscard]] virtual std::string connecting() const { return "cannot connect to the database"; }
  // Opens the connection, unless it is open and sound.
  [[nodiscard]] virtual Result<void> ensure_open(const std::string& attempt) = 0;

  // Everything `body` does is done, or nothing is. `body` runs again after a rollback by the database itself.
  // Errc::indeterminate when the reply to the commit is lost.
  using Body = std::function<Result<void>()>;
  [[nodiscard]] virtual Result<void> in_transaction(const std::string& attempt, const Body& body) = 0;
  // Several statements that may as well be one transaction, where that is cheaper.
  [[nodiscard]] virtual Result<void> bundled(const std::string& attempt, const Body& body) = 0;

  // Runs a statement. One that this database has no text for has nothing to do here.
  [[nodiscard]] virtual Result<Effect> run(Verb verb, const Parameters& parameters,
                                           const std::string& attempt) = 0;
  // A statement that reads, where the writes go, also where something in between has reads answered
  // elsewhere.
  [[nodiscard]] virtual Result<Effect> run_where_written(Verb verb, const Parameters& parameters,
                                                         const std::string& attempt) {
    return run(verb, parameters, attempt);
  }
  // Gets ready for a statement that others wait for.
  virtual void prepare(Verb /*verb*/) noexcept {}
  // A column refused NULL, which undid the statement.
  [[nodiscard]] virtual bool refused_null(const Error& why) const = 0;

  // Whether a grant would be, and whether the last one was, as safe as the settings ask for: on so many
  // servers. Errc::unreachable when not.
  [[nodiscard]] virtual Result<void> safe_to_grant(const std::string& /*attempt*/) { return {}; }
  [[nodiscard]] virtual Result<void> grant_is_safe(const std::string& /*attempt*/) { return {}; }
  // Whether the attempt that failed so was kept waiting by a job's transaction that called
  // dblock_assert_held(): the lock is as good as held. Errc::unreachable where it was the server's own doing.
  [[nodiscard]] virtual Result<bool> kept_by_fence(const lease::Key& /*key*/, const Error& /*why*/,
                                                   const std::string& /*attempt*/) {
    return false;
  }

  // The line in front of each lock; null where there is none.
  [[nodiscard]] virtual lease::Turnstile* turnstile() noexcept = 0;
  // Our own place in the line of the lock that was looked at last, where it can be known.
  [[nodiscard]] virtual std::optional<lease::PlaceInLine> place_in_line(const lease::LockStatus& lock) = 0;
  // What can be known of those who wait.
  virtual void add_waiters(lease::Listing& /*listing*/) {}

  virtual void close() noexcept = 0;
  virtual void interrupt() noexcept = 0;
};

}  // namespace dblock::store
