// Who may have a lock beside whom, decided on one view of it. Pure rules: the view is locked, and what is
// decided is written, by the caller's transaction.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lease/store.hpp"
#include "store/lock_table.hpp"

namespace dblock::store {

// The locks that rows make up, in the order of `keys`, which are sorted. Rows come by key and slot.
[[nodiscard]] std::vector<std::optional<Scene>> scenes_of(const std::vector<lease::Key>& keys,
                                                          std::vector<lease::LockStatus> rows);
// Adds to what `lock` knows of past runs what `row` knows: the run that ended last; of successes the one that
// counts for the shortest period (lease::OncePer): at this moment no other counts for a period that this one
// does not.
void remember(lease::LockStatus& lock, const lease::LockStatus& row);
// The lock's own row with what all its rows know of past runs.
[[nodiscard]] lease::LockStatus whole(const Scene& seen);
// A run nests in the lease of this owner.
[[nodiscard]] bool is_nested_in(const Scene& seen, const std::string& owner);

// What the request meets; the slot of lease::Free is the lowest that is free, 0 for an exclusive lease.
// Errc::usage: the lock is held, and in a way that could not even be waited out as what was asked for.
[[nodiscard]] Result<lease::Answer> decide(const Scene& seen, const lease::AcquireRequest& request);

// Still in the way of others by its row's own times: held, within its margin, or cooling down.
[[nodiscard]] bool in_the_way(const lease::LockStatus& status);

}  // namespace dblock::store
