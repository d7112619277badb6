// The end of a nested run.
#pragma once

#include "store/rules/lock_table.hpp"

namespace dblock::store {

// Takes the run off the count of each key's lease.
[[nodiscard]] Result<lease::ReleaseOutcome> release_nested(LockTable& table, const lease::LeaseRef& ref);

}  // namespace dblock::store
