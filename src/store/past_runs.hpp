// Rows of dblock_history, the record of the runs that have ended. Locks do not need this table: `migrate
// --history on` makes it, and jobs run without it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

#include "lease/store.hpp"
#include "store/rows.hpp"

namespace dblock::store {

// Records deleted by one statement: few enough to delay no other statement, enough to get on.
inline constexpr std::size_t k_forget_runs = 200;

// A row of: lock_key, token, lock_value, kind, mode, holder_host, holder_pid, holder_user, holder_command,
// holder_note, acquired_at, released_at, recorded_at, outcome, exit_code; times in microseconds since the
// epoch.
[[nodiscard]] lease::RecordedRun read_recorded_run(const Row& row);

// Adds more runs, keeping the order.
void merge(lease::History& history, std::vector<lease::RecordedRun> more);
// Drops the runs beyond `limit`, and sets History::cut where there were any.
void cut(lease::History& history, std::size_t limit);

}  // namespace dblock::store
