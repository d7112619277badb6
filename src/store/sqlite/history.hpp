// The history of runs: dblock_history, filled by triggers in the very transaction that ends a run, whoever
// ends it. A store that keeps none has neither table nor triggers: each would be read at every opening.
#pragma once

#include <string>

#include "store/sqlite/connection.hpp"

namespace dblock::store::sqlite {

// REQUIRES, for all: the connection is open.
[[nodiscard]] Result<bool> keeps_history(Connection& connection, const std::string& attempt);
[[nodiscard]] Result<void> keep_history(Connection& connection, bool on, const std::string& attempt);

}  // namespace dblock::store::sqlite
