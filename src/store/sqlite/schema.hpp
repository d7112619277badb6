// The embedded store's tables: made on first use, migrated by whoever opens an older store.
#pragma once

#include <string>

#include "base/error.hpp"

namespace dblock::store::sqlite {

class Connection;

// REQUIRES: the connection is open. Errc::schema when the store is newer than this binary, Errc::config when
// the file is another program's; neither is touched then. Several processes may do this at once.
[[nodiscard]] Result<void> ensure_schema(Connection& connection, const std::string& attempt);

}  // namespace dblock::store::sqlite
