// Who may have a lock beside whom, decided on one view of it. Pure rules: the view is locked, and what is
// decided is written, by the caller's transaction.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "lease/store.hpp"
#include "store/lock_table.hpp"

namespace dblock::store {

// Nothing is in the way. `slot`: the row of the hold, the lowest that is free; 0 for an exclusive lease.
struct Take {
  std::uint32_t slot = 0;
};
// The request's owner id is there already.
struct Own {
  lease::LockStatus status;
};
// The lock is held, and in a way that could not even be waited out as what was asked for: `why` names both.
struct Mismatch {
  std::string why;
};
using Decision = std::variant<Take, Own, lease::Conflict, lease::AlreadyDone, Mismatch>;

[[nodiscard]] Decision decide(const Scene& seen, const lease::AcquireRequest& request);

// Still in the way of others by its row's own times: held, within its margin, or cooling down.
[[nodiscard]] bool in_the_way(const lease::LockStatus& status);

}  // namespace dblock::store
