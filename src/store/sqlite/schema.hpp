// The embedded store's tables. The first process to open a store creates them; a newer dblock migrates them.
#pragma once

#include <string>

#include "base/error.hpp"

namespace dblock::store::sqlite {

class Connection;

// Creates or migrates the tables if needed. Errc::schema if the store is too new for this binary,
// Errc::config if the file is another program's; leaves both unchanged. Several processes may call this at
// once. REQUIRES: the connection is open.
[[nodiscard]] Result<void> ensure_schema(Connection& connection, const std::string& attempt);

}  // namespace dblock::store::sqlite
