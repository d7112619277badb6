// The embedded store's tables. The first process to open a store creates them; a newer dblock migrates them.
#pragma once

#include <string>

#include "base/error.hpp"
#include "store/sqlite/connection.hpp"

namespace dblock::store::sqlite {

// Creates or migrates the tables if needed. Errc::schema if the store is too new for this binary,
// Errc::config if the file is another program's; leaves both unchanged. Several processes may call this at
// once. REQUIRES: the connection is open.
[[nodiscard]] Result<void> ensure_schema(Connection& connection);

// The history of runs: the table dblock_history. A trigger fills it in the same transaction that ends a run,
// whichever process ends the run. A store without history has neither table nor trigger, because SQLite would
// read them each time it opens the store.
// REQUIRES, for both: the connection is open.
[[nodiscard]] Result<bool> keeps_history(Connection& connection);
[[nodiscard]] Result<void> keep_history(Connection& connection, bool on);

}  // namespace dblock::store::sqlite
