// The table dblock_lock: the operations that TableLeaseStore needs on its rows, on any database. Each
// function that changes a row decides and changes in one statement, by the database's clock.
//
// Each lock has a row of its own, slot 0, also called its gate; an exclusive holder's lease is in this row.
// Each reader or slot holder has a further row, called a hold, with a slot from 1 on.
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
#include "store/rules/history.hpp"

namespace dblock::store {

struct Renewal {
  std::optional<Micros> ttl;  // the length of the lease from now on; nullopt: a trigger hides the report
  std::optional<lease::ServerTime> expires_at{};  // where the statement reports it
};

// All rows of one lock, as one statement read them.
struct LockRows {
  // The lock's own row. Its past runs are not all: with_past_runs() in sharing.hpp adds those of the other
  // rows.
  lease::LockStatus gate;
  // The rows of readers and slot holders, by slot, free and expired ones too. `kept_by_transaction` is set
  // only where read_rows() locked the rows.
  std::vector<lease::LockStatus> holds;
};

// Where a grant of one key is written: to row `slot` of a lock that was `seen` in this state.
struct GrantTarget {
  lease::Key key;
  LockRows seen;
  std::uint32_t slot = 0;
};

// THREADING, CONNECTION, ERRORS: as lease::LeaseStore. Every use needs a Database::Call around it, unless it
// says that it makes its own.
class LockTable {
 public:
  explicit LockTable(std::unique_ptr<Database> database) : database_(std::move(database)) {}

  // The database itself, for calls that do not concern rows.
  [[nodiscard]] Database& database() { return *database_; }
  [[nodiscard]] Result<void> ensure_open() { return database_->ensure_open(); }
  // As Database::in_transaction(). The functions from read_rows() to abandon_locked() are for use inside a
  // transaction; renew(), release() and the others may be called there too.
  [[nodiscard]] Result<void> in_transaction(const Database::Body& body);

  // Reads all rows of each lock, in the order of `keys`, which are sorted; nullopt for a lock without a row.
  // With `to_change` the rows stay locked until the transaction ends.
  [[nodiscard]] Result<std::vector<std::optional<LockRows>>> read_rows(const std::vector<lease::Key>& keys,
                                                                       bool to_change);
  // Adds a free row, slot 0, for a key without one. Does nothing where there is one.
  [[nodiscard]] Result<void> add(const lease::Key& key);
  // Writes a grant to all its targets. The lock's own row of each key takes the token and the sharing in any
  // case, and until when others may be waiting (nullopt: nobody is).
  [[nodiscard]] Result<void> grant_rows(const lease::LeaseRequest& request,
                                        const std::vector<GrantTarget>& targets, lease::Token token,
                                        std::optional<lease::ServerTime> line_until);
  // Frees a lease that is past its margin, so that a late renewal cannot bring it back. An error where the
  // row is no longer as read_rows() found it.
  [[nodiscard]] Result<void> abandon_locked(const lease::LockStatus& lease);
  // Grants one exclusive lock whose row was granted before. nullopt: the row, or its fence, is missing, or
  // the row is not free to grant. `line`: none - refuses where anybody may be waiting, and reads no line.
  enum class LineIs { none, obeyed };
  [[nodiscard]] Result<std::optional<lease::Token>> grant(const lease::LeaseRequest& request, LineIs line);
  // The same for a row that was never granted.
  [[nodiscard]] Result<std::optional<lease::Token>> first_grant(const lease::LeaseRequest& request);
  // The same for a key without a row. nullopt when another process has taken the lock meanwhile.
  [[nodiscard]] Result<std::optional<lease::Token>> create(const lease::LeaseRequest& request);
  // Adds the lock's row in dblock_fence, which grant() needs, where a user or a tool has deleted it. Does
  // nothing where it is there.
  [[nodiscard]] Result<void> add_missing_fence(const lease::Key& key);
  // renew() and release() return nullopt and false where no row matched.
  [[nodiscard]] Result<std::optional<Renewal>> renew(const lease::LeaseRef& ref, lease::Actor actor,
                                                     std::optional<Micros> ttl, Micros keep);
  // Releases the first key of `ref`.
  [[nodiscard]] Result<bool> release(const lease::LeaseRef& ref, lease::Actor actor, lease::RunEnd end);
  // Releases all keys of `ref`. RETURNS: the keys that were not released; nullopt: none was, because a nested
  // run held one of them as well.
  [[nodiscard]] Result<std::optional<std::vector<lease::Key>>> release_all(const lease::LeaseRef& ref,
                                                                           lease::Actor actor,
                                                                           lease::RunEnd end);
  // Adds one to the count of the lease, and renews it for `ttl`. RETURNS: the token; nullopt where `ref` does
  // not hold the lock, or not as `sharing` asks (an exclusive `sharing` is for an exclusive lease).
  [[nodiscard]] Result<std::optional<lease::Token>> nest(const lease::LeaseRef& ref,
                                                         const lease::Sharing& sharing, Micros ttl);
  // Takes one off the count, but never the holder's own. False when `ref` does not hold the lock.
  [[nodiscard]] Result<bool> unnest(const lease::LeaseRef& ref);
  // revoke() and free_now(): see lease::LeaseStore. False: no row matched, or the heartbeat is fresh.
  [[nodiscard]] Result<bool> revoke(const lease::Key& key, std::uint32_t slot, lease::Token token,
                                    const std::string& by, std::optional<lease::ServerTime> arrival);
  [[nodiscard]] Result<bool> free_now(const lease::Key& key, std::uint32_t slot, lease::Token token);

  // The line: see lease::LeaseStore. see_line() is for use inside a transaction, too.
  [[nodiscard]] Result<lease::ServerTime> stand_in_line(const lease::LeaseRequest& request, Micros length,
                                                        bool marks);
  [[nodiscard]] Result<std::vector<lease::Place>> see_line(const lease::LeaseRequest& request);
  // `granted`: also removes the places before the request's in the line of a plain request.
  [[nodiscard]] Result<void> leave_line(const lease::LeaseRequest& request, bool granted);

  // Reads the lock's own row; nullopt: there is none.
  [[nodiscard]] Result<std::optional<lease::LockStatus>> look(const lease::Key& key);
  // The same, with the places in the line of the lock.
  struct InLine {
    std::optional<lease::LockStatus> row;
    std::vector<lease::Place> places;
  };
  [[nodiscard]] Result<InLine> look_in_line(const lease::Key& key);
  // The lock's own row from the server that takes the writes, as Database::run_on_primary().
  [[nodiscard]] Result<std::optional<lease::LockStatus>> look_on_primary(const lease::Key& key);
  [[nodiscard]] Result<void> on_primary(const Database::Body& body) { return database_->on_primary(body); }
  // The selected rows. Free rows of readers and slots are among them, unless only held locks are asked for,
  // and so are locks without a row for which somebody waits.
  [[nodiscard]] Result<lease::Listing> list(const lease::Selection& selection);
  // Makes its own calls.
  [[nodiscard]] Result<lease::ReapReport> reap(const lease::ReapOptions& options);

  // The pauses that have not ended.
  [[nodiscard]] Result<std::vector<lease::Pause>> pauses();
  // Stores a pause, in the place of `same`, the one of the same scope that was read last, and deletes those
  // that have ended.
  [[nodiscard]] Result<void> put_pause(const lease::Pause& pause, std::optional<lease::Pause> same);
  // Deletes this pause, but no later one of the same scope.
  [[nodiscard]] Result<void> end_pause(const lease::Pause& pause);
  // Writes into the row of each lock in the scope until when the stored pauses keep it paused. Waits for
  // grants under way. With `without` as if that pause of the scope were deleted already.
  [[nodiscard]] Result<void> mark_paused(const lease::PauseScope& scope,
                                         const std::optional<lease::Pause>& without);
  [[nodiscard]] Result<lease::ServerTime> server_time();

  [[nodiscard]] Result<lease::History> history(const lease::HistoryQuery& query);
  // See lease::LeaseStore. Records the runs that were ended by calls which succeeded, since the last record,
  // in a call of its own.
  void record_ended() noexcept { ended_.record(*database_); }

 private:
  [[nodiscard]] Result<Effect> run(Verb verb, const Parameters& parameters) {
    return database_->run(verb, parameters);
  }
  [[nodiscard]] Result<bool> changes_one(Verb verb, const Parameters& parameters);
  [[nodiscard]] Result<std::optional<Effect>> run_reporting(Verb verb, const Parameters& parameters,
                                                            const std::function<Result<bool>()>& undo);
  [[nodiscard]] Result<std::optional<lease::Token>> grant_by(Verb verb, const lease::LeaseRequest& request);
  [[nodiscard]] Result<bool> abandon(const lease::LockStatus& lease);
  [[nodiscard]] Result<void> make_room(const GrantTarget& target, const lease::Sharing& asked);
  [[nodiscard]] Result<void> free_expired(bool dry_run, std::vector<lease::LockStatus>& freed);
  [[nodiscard]] Result<std::uint64_t> forget_idle(Micros forget_after);
  [[nodiscard]] Result<std::uint64_t> forget_runs(Micros forget_after, bool dry_run);
  [[nodiscard]] Result<void> add_waiters(const lease::Selection& selection, lease::Listing& listing);
  [[nodiscard]] Result<std::uint64_t> count(Verb verb, Micros old);

  const std::unique_ptr<Database> database_;
  EndedRuns ended_;
  // lock_key and slot of the rows without a fence, as the last read_rows() with `to_change` found them.
  std::vector<std::pair<std::string, std::uint32_t>> unfenced_;
};

// The least time that a row is idle before it is deleted. A statement may have been blocked with yesterday's
// clock; its token must still be greater than any that the deleted row had (I2).
inline constexpr Micros k_least_idle_time = std::chrono::hours(24);

}  // namespace dblock::store
