// What became of a lease that was given back, where the reply was lost or the lock was not ours any more: one
// rule for runs, keepers and scripts.
#pragma once

#include <optional>

#include "lease/store.hpp"

namespace dblock::lease {

enum class ReleaseResult {
  released,
  not_ours,  // the lock is another's, or nobody's: the lease was lost without our noticing
  nested,    // a nested run holds the lease as well
  unknown,   // not confirmed in time, or others have held the lock since
};

// Judges `refused`, the answer to a release of `ref` that would have put `end` down in the row.
// `unheard_for`: the time since the first try whose reply was lost was sent; nullopt when no reply was.
[[nodiscard]] ReleaseResult judge_release(const NotOurs& refused, const LeaseRef& ref, const RunEnd& end,
                                          std::optional<Micros> unheard_for);

}  // namespace dblock::lease
