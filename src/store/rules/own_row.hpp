// The row of a lease that is to be renewed, released or ended by force, and why it is not ours.
#pragma once

#include <functional>
#include <optional>

#include "store/rules/lock_table.hpp"

namespace dblock::store {

// The part of the outer lease that concerns `key`. A nested lease is the outer lease with a higher count.
[[nodiscard]] lease::LeaseRef outer_part(const lease::LeaseRef& ref, const lease::Key& key);
// A lease of which only key and owner id are known is looked for as an exclusive one first.
[[nodiscard]] lease::LeaseRef likeliest(lease::LeaseRef ref);
// The error for answers that contradict each other, which are not relied on.
[[nodiscard]] std::unexpected<Error> contradiction(const Database& database);
[[nodiscard]] bool passed(const std::optional<lease::ServerTime>& limit, const lease::LockStatus& status);

// The first row of the lock that is wanted. Where there is none: another holder's row, or else the lock's
// own.
[[nodiscard]] Result<std::optional<lease::LockStatus>> row_where(
    LockTable& table, const lease::Key& key, const std::function<bool(const lease::LockStatus&)>& wanted);
// The row of `ref` among all rows of its lock, also when its lease has ended; else as row_where().
[[nodiscard]] Result<std::optional<lease::LockStatus>> own_row(LockTable& table, const lease::LeaseRef& ref);
// Finds a lease that is not in its likeliest row: `ref` with the right row; nullopt: no other row has it.
[[nodiscard]] Result<std::optional<lease::LeaseRef>> found_elsewhere(LockTable& table, lease::LeaseRef ref);

// Why a script may not renew or release a nested lease: it is the lease of the outer run. Leases of scripts
// have no nested runs. But the owner id of an application may look like a nested one.
[[nodiscard]] Result<lease::NotOurs> nested_for_script(LockTable& table, const lease::OwnerId& asked,
                                                       const lease::LeaseRef& outer);
// Why a renewal or release matched no row; nullopt when the row gives no reason.
[[nodiscard]] Result<std::optional<lease::NotOurs>> reason_why_not(LockTable& table,
                                                                   const lease::LeaseRef& ref,
                                                                   lease::Actor actor, bool renewing);
// The same; an error when the row gives no reason.
[[nodiscard]] Result<lease::NotOurs> why_not(LockTable& table, const lease::LeaseRef& ref, lease::Actor actor,
                                             bool renewing);

}  // namespace dblock::store
