// The rules of sharing: which request is granted beside which holders. Pure functions of the rows of a lock;
// the caller's transaction locks the rows and writes the decision.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lease/store.hpp"
#include "store/rules/lock_table.hpp"

namespace dblock::store {

// Groups rows into locks, in the order of `keys`, which are sorted; nullopt for a lock without its own row.
// REQUIRES: `rows` are ordered by key and slot.
[[nodiscard]] std::vector<std::optional<LockRows>> rows_of_locks(const std::vector<lease::Key>& keys,
                                                                 std::vector<lease::LockStatus> rows);
// Merges the past runs of `row` into `lock`. Keeps the run that ended last. Keeps the success that counts for
// the shortest period (lease::OncePer): at this moment it counts for every period for which the other does.
void merge_past_runs(lease::LockStatus& lock, const lease::LockStatus& row);
// The lock's own row, with the past runs of all its rows merged in.
[[nodiscard]] lease::LockStatus with_past_runs(const LockRows& seen);
// The row of the lease of `owner`, where a nested run holds it as well; else null.
[[nodiscard]] const lease::LockStatus* nested_row(const LockRows& seen, const std::string& owner);

// The answer to the request if nobody waited. Free::slot is the lowest free slot, 0 for an exclusive lease.
// Errc::usage: the lock is held in a mode that does not go with the request's (lease::Mode), or with another
// number of slots.
[[nodiscard]] Result<lease::Answer> answer_for(const LockRows& seen, const lease::LeaseRequest& request);

// True when the lock, which is free to grant to the request, is for others that wait
// (lease::LeaseRequest::arrival).
[[nodiscard]] bool is_for_others(const LockRows& seen, const lease::LeaseRequest& request,
                                 const std::vector<lease::Place>& places);

// Where a request was granted such a lock all the same, because nobody took it for a while: true when the
// places before it are of waiters that did not come. Of slots some may stay free for those.
[[nodiscard]] bool passes_others(const LockRows& seen, const lease::LeaseRequest& request,
                                 const std::vector<lease::Place>& places);

// True when `one`, the refusal of one member of a pool, names a row that is free to grant sooner than that of
// `other`.
[[nodiscard]] bool is_sooner(const lease::Answer& one, const lease::Answer& other);
// The answer to a request of a pool, from the rows of its members in the order of preference: the request's
// own grant, else the first member that is free, else the refusal that ends soonest.
[[nodiscard]] lease::Answer best_of(std::vector<lease::Answer> answers);

// True when a grant to `asked` is of another kind than the lock's last grant: no holder of the one may hold
// the lock beside a holder of the other.
[[nodiscard]] bool changes_kind(const lease::Sharing& last, const lease::Sharing& asked);

// True for a row that --force can end: it has a lease, or a cooldown.
[[nodiscard]] bool keeps_the_lock(const lease::LockStatus& row);

}  // namespace dblock::store
