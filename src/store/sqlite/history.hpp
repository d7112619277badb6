// The history of runs: dblock_history, filled by triggers in the very transaction that ends a run, whoever
// ends it. A store that keeps none has neither table nor triggers: each would be read at every opening.
#pragma once

#include <string>

#include "lease/store.hpp"
#include "store/sqlite/connection.hpp"

namespace dblock::store::sqlite {

// REQUIRES, for all: the connection is open.
[[nodiscard]] Result<bool> keeps_history(Connection& connection, const std::string& attempt);
[[nodiscard]] Result<void> keep_history(Connection& connection, bool on, const std::string& attempt);
[[nodiscard]] Result<lease::History> history_with(Connection& connection, const lease::HistoryQuery& query,
                                                  const std::string& attempt);
// Deletes, or counts, what ended longer ago.
[[nodiscard]] Result<std::uint64_t> forget_runs_with(Connection& connection, Micros forget_after,
                                                     bool dry_run, const std::string& attempt);

}  // namespace dblock::store::sqlite
