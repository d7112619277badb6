// The table dblock_lock: what TableLeaseStore needs done to its rows, on any database. Each function that
// changes a row decides and changes in one statement, by the database's clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lease/store.hpp"
#include "store/database.hpp"
#include "store/ended_runs.hpp"

namespace dblock::store {

struct Renewal {
  Micros ttl{0};                                  // the length that was granted
  std::optional<lease::ServerTime> expires_at{};  // where the statement tells it
};

// One lock as a whole.
struct Scene {
  // The lock's own row, and the exclusive holder's. What all rows know of past runs: whole() in sharing.hpp.
  lease::LockStatus gate;
  // Those of readers and of slots, also free ones and expired ones, by slot; `fenced` where the scene is
  // locked.
  std::vector<lease::LockStatus> holds;
};

// Where a grant of one key goes: to the row `slot` of a lock that was found so.
struct Place {
  lease::Key key;
  Scene seen;
  std::uint32_t slot = 0;
};

// THREADING, CONNECTION, ERRORS: as lease::LeaseStore. `attempt` begins every message: "cannot renew lock
// "k"".
class LockTable {
 public:
  explicit LockTable(std::unique_ptr<Database> database) : database_(std::move(database)) {}

  // Around everything below.
  class Call {
   public:
    explicit Call(LockTable& table, Database::Patience patience = Database::Patience::usual)
        : database_(*table.database_) {
      database_.begin_call(patience);
    }
    ~Call() { database_.end_call(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Database& database_;
  };

  // The database itself, for what has nothing to do with rows.
  [[nodiscard]] Database& database() { return *database_; }
  [[nodiscard]] Result<void> ensure_open(const std::string& attempt) {
    return database_->ensure_open(attempt);
  }
  // As Database::in_transaction(). Functions of the second group below are for inside; renew, release and the
  // others may be called there too.
  [[nodiscard]] Result<void> in_transaction(const std::string& attempt, const Database::Body& body);

  // What there is of each lock, in the order of `keys`, which are sorted; nullopt without a row. Locked until
  // the transaction ends where `to_change`.
  [[nodiscard]] Result<std::vector<std::optional<Scene>>> survey(const std::vector<lease::Key>& keys,
                                                                 bool to_change, const std::string& attempt);
  // The lock's own row of a lock that nobody has held. No harm where there is one.
  [[nodiscard]] Result<void> add(const lease::Key& key, const std::string& attempt);
  // Writes a grant to all its places. Each lock's own row takes the token and the sharing in any case.
  [[nodiscard]] Result<void> put(const lease::AcquireRequest& request, const std::vector<Place>& places,
                                 lease::Token token, const std::string& attempt);
  // Frees a lease that is past its margin, so that a late renewal cannot bring it back. An error where it is
  // no longer what survey() has found.
  [[nodiscard]] Result<void> abandon_locked(const lease::LockStatus& lease, const std::string& attempt);
  // New readers are refused until then, or for longer where somebody else has asked for that, though never
  // for longer than lease::k_longest_intent.
  [[nodiscard]] Result<void> keep_readers_away(const lease::Key& key, lease::ServerTime until,
                                               const std::string& attempt);
  // Takes that back, unless somebody else has asked for longer since.
  [[nodiscard]] Result<void> let_readers_in(const lease::Key& key, lease::ServerTime until,
                                            const std::string& attempt);

  // The token, when the row was there and free to grant.
  [[nodiscard]] Result<std::optional<lease::Token>> grant(const lease::AcquireRequest& request,
                                                          const std::string& attempt);
  // The same for a key without a row; nullopt when there is one by now.
  [[nodiscard]] Result<std::optional<lease::Token>> create(const lease::AcquireRequest& request,
                                                           const std::string& attempt);
  // Puts back what grant() needs beside the lock's row and somebody took away. No harm where it is there.
  [[nodiscard]] Result<void> mend(const lease::Key& key, const std::string& attempt);
  // nullopt, false: no row matched.
  [[nodiscard]] Result<std::optional<Renewal>> renew(const lease::LeaseRef& ref, lease::Actor actor,
                                                     std::optional<Micros> ttl, const std::string& attempt);
  // Of its first key.
  [[nodiscard]] Result<bool> release(const lease::LeaseRef& ref, lease::Actor actor, lease::RunEnd end,
                                     const std::string& attempt);
  // Of all its keys, or none: where a nested run holds one of them too, none is released. Those that were
  // not.
  [[nodiscard]] Result<std::vector<lease::Key>> release_all(const lease::LeaseRef& ref, lease::Actor actor,
                                                            lease::RunEnd end, const std::string& attempt);
  // Counts one more acquisition under the lease, which is renewed for `ttl`. The token, when `ref` holds it
  // and, unless that is exclusive, as `sharing` says.
  [[nodiscard]] Result<std::optional<lease::Token>> nest(const lease::LeaseRef& ref,
                                                         const lease::Sharing& sharing, Micros ttl,
                                                         const std::string& attempt);
  // Counts one down, never below the holder's own. False when `ref` does not hold it.
  [[nodiscard]] Result<bool> unnest(const lease::LeaseRef& ref, const std::string& attempt);
  [[nodiscard]] Result<bool> revoke(const lease::Key& key, std::uint32_t slot, lease::Token token,
                                    const std::string& attempt);
  [[nodiscard]] Result<bool> free_now(const lease::Key& key, std::uint32_t slot, lease::Token token,
                                      const std::string& attempt);

  // The lock's own row.
  [[nodiscard]] Result<std::optional<lease::LockStatus>> look(const lease::Key& key,
                                                              const std::string& attempt);
  // The same from where the writes go.
  [[nodiscard]] Result<std::optional<lease::LockStatus>> look_where_written(const lease::Key& key,
                                                                            const std::string& attempt);
  // Rows, also those of readers and slots that are free, where not only held ones are asked for.
  [[nodiscard]] Result<lease::Listing> list(const lease::Selection& selection, const std::string& attempt);
  [[nodiscard]] Result<lease::ReapReport> reap(const lease::ReapRequest& request, const std::string& attempt);

  [[nodiscard]] Result<lease::History> history(const lease::HistoryQuery& query, const std::string& attempt);
  // See lease::LeaseStore. Only what ended by a call that succeeded since is left to be recorded.
  void record_ended() noexcept { ended_.record(*database_); }

 private:
  [[nodiscard]] Result<Effect> run(Verb verb, const Parameters& parameters, const std::string& attempt) {
    return database_->run(verb, parameters, attempt);
  }
  [[nodiscard]] Result<bool> changes_one(Verb verb, const Parameters& parameters, const std::string& attempt);
  [[nodiscard]] Result<std::optional<Effect>> hear(Verb verb, const Parameters& parameters,
                                                   const std::string& attempt,
                                                   const std::function<Result<bool>()>& undo);
  [[nodiscard]] Result<bool> abandon(const lease::LockStatus& lease, const std::string& attempt);
  [[nodiscard]] Result<void> make_room(const Place& place, const lease::Sharing& asked,
                                       const std::string& attempt);
  [[nodiscard]] Result<void> free_expired(bool dry_run, std::vector<lease::LockStatus>& freed,
                                          const std::string& attempt);
  [[nodiscard]] Result<std::uint64_t> forget_idle(Micros forget_after, const std::string& attempt);
  [[nodiscard]] Result<std::uint64_t> forget_runs(Micros forget_after, bool dry_run,
                                                  const std::string& attempt);
  [[nodiscard]] Result<std::uint64_t> count(Verb verb, Micros old, const std::string& attempt);

  const std::unique_ptr<Database> database_;
  EndedRuns ended_;
  // lock_key and slot of rows that have no fence, as of the last survey to change.
  std::vector<std::pair<std::string, std::uint32_t>> unfenced_;
};

// Widths of the columns for people, in bytes of UTF-8 (columns of MariaDB count characters).
inline constexpr std::size_t k_name_bytes = 255;
inline constexpr std::size_t k_command_bytes = 2000;
inline constexpr std::size_t k_note_bytes = 1000;

// A statement may have been blocked with yesterday's clock; its token must still be greater than any that a
// deleted row ever had (I2).
inline constexpr Micros k_least_idle_time = std::chrono::hours(24);

// The least byte string greater than all that start with `prefix`; empty when there is none.
[[nodiscard]] std::string after_prefix(std::string prefix);

// What the row's own times say. REQUIRES: everything else in `status` is set.
[[nodiscard]] lease::State state_of(const lease::LockStatus& status);

}  // namespace dblock::store
