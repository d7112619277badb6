// The history of runs: the table dblock_history. A trigger fills it in the same transaction that ends a run,
// whichever process ends the run. A store without history has neither table nor trigger, because SQLite would
// read them each time it opens the store.
#pragma once

#include <string>

#include "store/sqlite/connection.hpp"

namespace dblock::store::sqlite {

// REQUIRES, for both: the connection is open.
[[nodiscard]] Result<bool> keeps_history(Connection& connection, const std::string& attempt);
[[nodiscard]] Result<void> keep_history(Connection& connection, bool on, const std::string& attempt);

}  // namespace dblock::store::sqlite
