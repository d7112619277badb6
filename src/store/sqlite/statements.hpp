// The SQL of the lease protocol on SQLite. Fixed texts; every value is a bound parameter (connection.hpp says
// which are always there, lock_table.cpp binds the others).
//
// Each statement that decides something is one transaction, or part of one, so that no writer comes between
// its predicate and its change. Deadlines are compared on the lease's own time line
// (sql/sqlite/0001_create_tables.sql).
#pragma once

#include <string>
#include <string_view>

#include "lease/store.hpp"
#include "store/lock_table.hpp"

namespace dblock::store::sqlite {

// One row with the token: granted. None: held, cooling down, done within the period, or no such row.
[[nodiscard]] std::string_view grant_sql();

// Inside of a transaction. A row that is free, above what forgotten rows have had, and no harm where there is
// one; a grant to the row :slot; the lock's own row where that is another; what that row takes over, when the
// lock becomes exclusive, of what all rows know of past runs.
[[nodiscard]] std::string_view add_sql();
[[nodiscard]] std::string_view put_sql();
[[nodiscard]] std::string_view put_gate_sql();
[[nodiscard]] std::string_view inherit_sql();
// New readers are refused until :until; from then on they are not.
[[nodiscard]] std::string_view keep_readers_away_sql();
[[nodiscard]] std::string_view let_readers_in_sql();

// One row with the granted length and the end of the lease: renewed.
[[nodiscard]] std::string_view renew_sql();
// One row with the token, of a lease that the reference still has: counted, and good for :ttl at least.
[[nodiscard]] std::string_view nest_sql();
[[nodiscard]] std::string_view unnest_sql();
// One row changed, or none. release_sql() records the outcome :outcome; only a success touches the last
// success.
[[nodiscard]] std::string_view release_sql();
[[nodiscard]] std::string_view revoke_sql();
[[nodiscard]] std::string_view free_now_sql();
// Frees the lease :key, :slot, :owner, :token as long as it has expired.
[[nodiscard]] std::string_view abandon_sql();

// Status rows (store/rows.hpp).
[[nodiscard]] std::string_view look_sql();    // the lock's own of :key
[[nodiscard]] std::string_view survey_sql();  // all of :key, free ones too
[[nodiscard]] std::string list_sql(
    const lease::Selection& selection);        // of :key0, :key1, … and from :from to :to
[[nodiscard]] std::string_view expired_sql();  // leases past expire_time + margin

// Rows idle for longer than :forget_after microseconds.
[[nodiscard]] std::string_view count_idle_sql();
// Deletes at most :limit of them and answers a row with the token of each, which raise_floor_sql() must note
// in the same transaction: no new row of these keys may begin at or below :token.
[[nodiscard]] std::string_view forget_sql();
[[nodiscard]] std::string_view raise_floor_sql();

}  // namespace dblock::store::sqlite
