// The tables of locks, as the files of this folder use them. Each has the statements of one idea, with the
// functions of TableLeaseStore that need them; here is what several of them share. Each function that changes
// a row decides and changes in one statement, by the database's clock.
//
// Each lock has a row of its own, slot 0; an exclusive holder's lease is in this row.
// Each reader or slot holder has a further row with a slot from 1 on.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lease/store.hpp"
#include "store/database.hpp"
#include "store/rules/history.hpp"

namespace dblock::store {

// All rows of one lock, as one statement read them.
struct LockRows {
  // The lock's own row. Its past runs are not all: with_past_runs() in sharing.hpp adds those of the other
  // rows.
  lease::LockStatus own_row;
  // The rows of readers and slot holders, by slot, free and expired ones too. `kept_by_transaction` is set
  // only where read_rows() locked the rows.
  std::vector<lease::LockStatus> holders;
  // The slots of the rows without a fence, where read_rows() locked the rows.
  std::vector<std::uint32_t> unfenced{};
};

// THREADING, CONNECTION, ERRORS: as lease::LeaseStore. Every use of it, and of the functions below, needs a
// Database::Call around it.
struct LockTable {
  std::unique_ptr<Database> database;
  EndedRuns ended{};

  [[nodiscard]] Result<Effect> run(Verb verb, const Parameters& parameters = {}) {
    return database->run(verb, parameters);
  }
  // True when the statement changed one row.
  [[nodiscard]] Result<bool> changes_one(Verb verb, const Parameters& parameters);
  // Runs a statement that must report a token; nullopt where it changed no row. Where the report is missing
  // it calls `undo` and fails, since no job may run without a token. Where `undo` fails too, the grant
  // expires by itself.
  [[nodiscard]] Result<std::optional<Effect>> run_reporting(Verb verb, const Parameters& parameters,
                                                            const std::function<Result<bool>()>& undo);
  // As Database::in_transaction().
  [[nodiscard]] Result<void> in_transaction(const Database::Body& body);
};

// The token of such a statement.
[[nodiscard]] std::optional<lease::Token> token_of(const std::optional<Effect>& done);

// Reads the lock's own row; nullopt: there is none.
[[nodiscard]] Result<std::optional<lease::LockStatus>> read_own_row(LockTable& table, const lease::Key& key);
// Reads all rows of each lock, in the order of `keys`, which are sorted; nullopt for a lock without a row.
// With `to_change`, which needs a transaction, the rows stay locked until it ends.
[[nodiscard]] Result<std::vector<std::optional<LockRows>>> read_rows(LockTable& table,
                                                                     const std::vector<lease::Key>& keys,
                                                                     bool to_change);
// Adds a free row, slot 0, for a key without one. Does nothing where there is one.
[[nodiscard]] Result<void> add_lock(LockTable& table, const lease::Key& key);
// Adds the lock's row in dblock_fence, which a grant needs, where a user or a tool has deleted it. Does
// nothing where it is there.
[[nodiscard]] Result<void> add_missing_fence(LockTable& table, const lease::Key& key);
// Releases the first key of `ref`. False where no row matched.
[[nodiscard]] Result<bool> release_row(LockTable& table, const lease::LeaseRef& ref, lease::Actor actor,
                                       lease::RunEnd end);
// Frees a lease that is past its margin, so that a late renewal cannot bring it back. False: it is no longer
// there.
[[nodiscard]] Result<bool> abandon(LockTable& table, const lease::LockStatus& lease);

// The places in rows, in the order of the line.
[[nodiscard]] std::vector<lease::Place> read_places(std::span<const Row> rows);
// The places that count in the lines of the request's keys.
[[nodiscard]] Result<std::vector<lease::Place>> read_line(LockTable& table,
                                                          const lease::LeaseRequest& request);
// Gives up the places of the request. `granted`: also removes the places before the request's in the line of
// a plain request.
[[nodiscard]] Result<void> delete_places(LockTable& table, const lease::LeaseRequest& request, bool granted);
// Adds those who wait to the selected rows, and the locks without a row for which somebody waits.
[[nodiscard]] Result<void> add_waiters(LockTable& table, const lease::Selection& selection,
                                       lease::Listing& listing);

// The pauses that have not ended.
[[nodiscard]] Result<std::vector<lease::Pause>> read_pauses(LockTable& table);
// Adds to a refusal who made the pause, which the lock's row does not tell. Where that cannot be read, its
// end is said alone.
[[nodiscard]] Result<lease::Answer> with_pause(LockTable& table, Result<lease::Answer> answer);

[[nodiscard]] Result<lease::ServerTime> read_time(LockTable& table);

// The least time that a row is idle before it is deleted. A statement may have been blocked with yesterday's
// clock; its token must still be greater than any that the deleted row had (I2).
inline constexpr Micros k_least_idle_time = std::chrono::hours(24);

}  // namespace dblock::store
