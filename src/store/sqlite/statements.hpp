// The SQL of the lease protocol on SQLite. Fixed texts; every value is a bound parameter (connection.hpp says
// which are always there, lock_table.cpp binds the others).
//
// Each statement that decides something is one autocommit statement, so that no writer comes between its
// predicate and its change. Deadlines are compared on the lease's own time line
// (sql/sqlite/0001_create_dblock_lock.sql).
#pragma once

#include <string>
#include <string_view>

#include "lease/store.hpp"

namespace dblock::store::sqlite {

// One row with the token: granted. None: held, cooling down, done within the period, or no such row.
[[nodiscard]] std::string_view grant_sql();
// The same for a key without a row. None: someone was faster.
[[nodiscard]] std::string_view create_sql();

// One row with the granted length and the end of the lease: renewed.
[[nodiscard]] std::string_view renew_sql();
// One row changed, or none. release_sql() records the outcome :outcome; only a success touches the last
// success.
[[nodiscard]] std::string_view release_sql();
[[nodiscard]] std::string_view revoke_sql();
[[nodiscard]] std::string_view free_now_sql();

// Status rows (store/rows.hpp).
[[nodiscard]] std::string_view look_sql();  // of :key
[[nodiscard]] std::string list_sql(
    const lease::Selection& selection);        // of :key0, :key1, … and from :from to :to
[[nodiscard]] std::string_view expired_sql();  // leases past expire_time + margin

// Frees the lease :key, :owner, :token as long as it has expired.
[[nodiscard]] std::string_view abandon_sql();

// Rows idle for longer than :forget_after microseconds.
[[nodiscard]] std::string_view count_idle_sql();
// Deletes at most :limit of them and answers a row with the token of each, which raise_floor_sql() must note
// in the same transaction: no new row of these keys may begin at or below :token.
[[nodiscard]] std::string_view forget_sql();
[[nodiscard]] std::string_view raise_floor_sql();

}  // namespace dblock::store::sqlite
