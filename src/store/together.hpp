// Grants that are more than one row: of several keys, to readers, of slots. One transaction each, with the
// locks' own rows as gates, taken in sorted order, so that opposite orders of naming keys cannot deadlock;
// but where a lock has no row yet, its first one is written after those, and of two that deadlock so one
// tries again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/lock_table.hpp"

namespace dblock::store {

[[nodiscard]] std::vector<lease::Key> keys_of(const lease::Key& first, const std::vector<lease::Key>& also);

// What a waiting writer has left in the locks' rows.
struct Mark {
  lease::ServerTime until;  // readers are kept away
  bool for_others = false;  // another writer had asked for it too
};

// Whatever rows it took, one acquisition has one token. `mark` is set where a waiting writer was refused by
// readers.
[[nodiscard]] Result<lease::Answer> take_together(LockTable& table, const lease::AcquireRequest& request,
                                                  BootTime sent_at, std::optional<Mark>& mark,
                                                  const std::string& attempt);

// See LeaseStore::nest().
[[nodiscard]] Result<std::optional<lease::Lease>> nest_together(LockTable& table,
                                                                const lease::AcquireRequest& request,
                                                                BootTime sent_at, const std::string& attempt);

// See LeaseStore::call_off().
void call_off(LockTable& table, const lease::AcquireRequest& request, const Mark& mark) noexcept;

// See LeaseStore::look().
[[nodiscard]] Result<lease::Answer> look_together(LockTable& table, const lease::AcquireRequest& request,
                                                  const std::string& attempt);

}  // namespace dblock::store
