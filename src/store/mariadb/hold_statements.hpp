// The SQL of grants and releases that are more than one row (dblock_lock as the gate, dblock_hold). Pure
// text, as in statements.hpp. All of it is for inside of a transaction, which takes the gate first: so
// transactions on one lock stand in line before it, and nothing here has to decide anything again.
#pragma once

#include <cstdint>
#include <string>

#include "lease/store.hpp"
#include "store/lock_table.hpp"
#include "store/mariadb/statement_parts.hpp"

namespace dblock::store::mariadb {

// Columns as read by read_status(). `to_change`: the rows stay locked; nobody can put another beside them
// while the gate is.
[[nodiscard]] std::string survey_statement(const lease::Key& key, Rows rows, bool to_change);

// A gate that is free and was never held. Error 1062: there is one.
[[nodiscard]] std::string add_statement(const lease::Key& key);

// The grant's part in the gate: all of it where the lease is exclusive. `last`: what the lock was granted as
// before; with another kind, and with writers, all of the lock's fences are passed. 0 rows: one is missing.
// The reply tells the token with the mark, as with the two below.
[[nodiscard]] std::string put_statement(const lease::AcquireRequest& request, const lease::Key& key,
                                        std::uint32_t slot, lease::Token token, const lease::Sharing& last,
                                        Mark mark);
// The rest of a grant that is not: over a free row, or one past its margin, and its fence (0 rows: it is
// missing), or into a new one, which has none yet.
[[nodiscard]] std::string put_hold_statement(const lease::AcquireRequest& request, const lease::Key& key,
                                             std::uint32_t slot, lease::Token token, Mark mark);
[[nodiscard]] std::string create_hold_statement(const lease::AcquireRequest& request, const lease::Key& key,
                                                std::uint32_t slot, lease::Token token, Mark mark);

// A row of dblock_fence; error 1062: there is one.
[[nodiscard]] std::string add_fence_statement(const lease::Key& key, std::uint32_t slot, lease::Token token);
[[nodiscard]] std::string put_fence_statement(const lease::Key& key, std::uint32_t slot, lease::Token token);
// An error at once where a transaction keeps a fence of this lock.
[[nodiscard]] std::string try_fence_statement(const lease::Key& key);
// The same for the lock's own row.
[[nodiscard]] std::string try_row_statement(const lease::Key& key);

[[nodiscard]] std::string keep_readers_away_statement(const lease::Key& key, lease::ServerTime until);
[[nodiscard]] std::string let_readers_in_statement(const lease::Key& key, lease::ServerTime until);

// Locks the gate, then the hold that `ref` means: since when it is held (microseconds since the epoch), and
// by which host.
[[nodiscard]] std::string own_hold_statement(const lease::LeaseRef& ref, lease::Actor actor);

struct EndOfHold {
  Micros acquired_at{0};
  std::string host;
  lease::RunEnd end;
};
// Puts the end of a hold down in its lock's row.
[[nodiscard]] std::string record_end_statement(const lease::Key& key, const EndOfHold& ended);
// The same for one that was abandoned, unless the lock was granted since.
[[nodiscard]] std::string record_abandoned_statement(const lease::LockStatus& hold);

}  // namespace dblock::store::mariadb
