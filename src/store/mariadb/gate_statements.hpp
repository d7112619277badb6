// The SQL of grants that are more than one row: of several keys, and beside others. Pure text, as in
// statements.hpp. All of it is for inside of a transaction, which first locks all rows of its keys in their
// order, each lock's own row (slot 0, the gate) before those of its holders: so transactions on one lock
// stand in line before it, and nothing here has to decide anything again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lease/store.hpp"
#include "store/lock_table.hpp"
#include "store/mariadb/statement_parts.hpp"

namespace dblock::store::mariadb {

// Locks all rows of these keys: columns as read by read_status(), then a FenceState.
[[nodiscard]] std::string survey_statement(const std::vector<lease::Key>& keys);
// Of a row in dblock_fence.
enum class FenceState : std::uint64_t {
  open,     // or not looked at, since its lease lives
  kept,     // by a job's transaction that called dblock_assert_held()
  missing,  // there is none
};

// A row that is free and was never held. Error 1062: there is one.
[[nodiscard]] std::string add_statement(const lease::Key& key, std::uint32_t slot);
// The same for a row of dblock_fence.
[[nodiscard]] std::string add_fence_statement(const lease::Key& key, std::uint32_t slot);

// For a grant of another kind than the last one, when everybody who held the lock is gone. All its fences but
// that of `slot` are passed, as the grant itself passes that one: so all their jobs' transactions have ended.
[[nodiscard]] std::string pass_fences_statement(const lease::Key& key, std::uint32_t slot);
// And the lock's own row takes over what all rows together know of past runs.
[[nodiscard]] std::string inherit_statement(const lease::LockStatus& gate);

// The grant: each key's row and fence, and the gate where that is another row. As many rows as that makes, or
// something is missing. The reply tells the token with the mark.
[[nodiscard]] std::string put_statement(const lease::AcquireRequest& request,
                                        const std::vector<Place>& places, lease::Token token, Mark mark);
[[nodiscard]] std::size_t rows_put(const lease::AcquireRequest& request, const std::vector<Place>& places);

// An error at once where a transaction keeps a fence of this lock.
[[nodiscard]] std::string try_fence_statement(const lease::Key& key);
// The same for the lock's own row.
[[nodiscard]] std::string try_row_statement(const lease::Key& key);

[[nodiscard]] std::string keep_readers_away_statement(const lease::Key& key, lease::ServerTime until);
[[nodiscard]] std::string let_readers_in_statement(const lease::Key& key, lease::ServerTime until);

}  // namespace dblock::store::mariadb
