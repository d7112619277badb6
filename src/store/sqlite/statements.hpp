// The SQL of the lease protocol on SQLite. Fixed texts; every value is a bound parameter (connection.hpp says
// which are always there, lock_table.cpp binds the others).
//
// Each statement that decides something is one transaction, or part of one, so that no writer comes between
// its predicate and its change. Deadlines are compared on the lease's own time line
// (sql/sqlite/0001_create_dblock_lock.sql).
#pragma once

#include <string>
#include <string_view>

#include "lease/store.hpp"
#include "store/lock_table.hpp"

namespace dblock::store::sqlite {

// One row with the token: granted. None: held, cooling down, done within the period, or no such row.
[[nodiscard]] std::string_view grant_sql();
// The same for a key without a row. None: someone was faster.
[[nodiscard]] std::string_view create_sql();

// Inside of a transaction: a free row of the lock, above what forgotten rows have had; a grant to the lock's
// row, or to the lock's row and to that of the hold; new readers refused for :length.
[[nodiscard]] std::string_view add_sql();
[[nodiscard]] std::string_view put_lock_sql();
[[nodiscard]] std::string_view put_gate_sql();
[[nodiscard]] std::string_view put_hold_sql();
[[nodiscard]] std::string_view keep_readers_away_sql();
[[nodiscard]] std::string_view let_readers_in_sql();

// One row with the granted length and the end of the lease: renewed.
[[nodiscard]] std::string_view renew_sql(Rows rows);
// One row with the token, of a lease that the reference still has: counted, and good for :ttl at least.
[[nodiscard]] std::string_view nest_sql(Rows rows);
[[nodiscard]] std::string_view unnest_sql(Rows rows);
// One row changed, or none. release_sql() records the outcome :outcome; only a success touches the last
// success. That of a hold answers what note_release_sql() puts down in the lock's row: :acquired, :released,
// :host.
[[nodiscard]] std::string_view release_sql(Rows rows);
[[nodiscard]] std::string_view note_release_sql();
[[nodiscard]] std::string_view revoke_sql(Rows rows);
[[nodiscard]] std::string_view free_now_sql(Rows rows);

// Status rows (store/rows.hpp).
[[nodiscard]] std::string_view look_sql();   // of :key
[[nodiscard]] std::string_view holds_sql();  // of :key, free ones too
[[nodiscard]] std::string list_sql(
    const lease::Selection& selection);        // of :key0, :key1, … and from :from to :to
[[nodiscard]] std::string_view expired_sql();  // leases in both tables past expire_time + margin

// Frees the lease :key, :owner, :token as long as it has expired.
[[nodiscard]] std::string_view abandon_sql(Rows rows);

// Rows idle for longer than :forget_after microseconds.
[[nodiscard]] std::string_view count_idle_sql();
// Deletes at most :limit of them and answers a row with the token of each, which raise_floor_sql() must note
// in the same transaction: no new row of these keys may begin at or below :token.
[[nodiscard]] std::string_view forget_sql(Rows rows);
[[nodiscard]] std::string_view raise_floor_sql();

}  // namespace dblock::store::sqlite
