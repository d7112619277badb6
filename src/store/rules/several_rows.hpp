// Grants of more than one row: of several keys, to readers, of slots. Each is one transaction. It locks each
// lock's own row first, in sorted order, so that requests which name the same keys in another order cannot
// deadlock. A lock without a row gets its first row after that, in a transaction of its
// own: two requests may deadlock there, and the database makes one of them try again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/rules/lock_table.hpp"

namespace dblock::store {

// Takes all rows of the request under one token, or none.
[[nodiscard]] Result<lease::Answer> take_several(LockTable& table, const lease::LeaseRequest& request,
                                                 BootTime sent_at);

}  // namespace dblock::store
