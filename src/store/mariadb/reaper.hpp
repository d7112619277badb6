// Clearing up: frees leases that nobody ended and forgets rows that nobody used for long. Nothing depends on
// it.
#pragma once

#include <string>

#include "lease/store.hpp"
#include "store/lock_table.hpp"
#include "store/mariadb/connection.hpp"
#include "store/mariadb/history.hpp"

namespace dblock::store::mariadb {

// Frees one lease past its margin; false when it is no longer there. REQUIRES: the connection is open.
[[nodiscard]] Result<bool> abandon_with(Connection& connection, EndedRuns& ended,
                                        const lease::LockStatus& lease, const std::string& attempt);

// Candidates are found by plain reads, which lock nothing; each is then changed by primary key, and only
// while it is still what was read. REQUIRES: the connection is open.
[[nodiscard]] Result<lease::ReapReport> reap_with(Connection& connection, EndedRuns& ended,
                                                  const lease::ReapRequest& request,
                                                  const std::string& attempt);

}  // namespace dblock::store::mariadb
