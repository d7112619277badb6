// Releasing a lease, and judging a release whose reply was lost: one rule for runs, keepers, guardians and
// scripts.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "base/clock.hpp"
#include "lease/store.hpp"

namespace dblock::lease {

// How long a statement whose reply was lost may still change a row: the server's own lock wait is 2 s.
inline constexpr Micros k_late_statement = std::chrono::milliseconds(2500);

enum class ReleaseResult {
  released,
  not_ours,  // the lock is free or another holder's: the lease was lost without our noticing
  nested,    // a nested run holds the lease as well
  unknown,   // not confirmed in time, or other holders have had the lock since
};

// True where later requests depend on the record of this end: a success that --once-per looks for, a failure
// that keeps the lock.
[[nodiscard]] bool is_awaited(const Promises& promises, const RunEnd& end);

// Judges `refused`, the answer to a release of `ref` that would have recorded `end` in the row.
// `reply_lost_for`: the time since the sending of the first try whose reply was lost; nullopt: no reply was
// lost.
[[nodiscard]] ReleaseResult judge_release(const NotOurs& refused, const LeaseRef& ref, const RunEnd& end,
                                          std::optional<Micros> reply_lost_for);

struct ReleaseOptions {
  Actor actor = Actor::holder;
  RunEnd end{};
  BootTime give_up{};                                 // no try but the first begins later
  bool insists = true;                                // false: a failure is final unless a reply was lost
  std::function<void(const Error&)> on_trouble = {};  // at each failed try
};
// How the tries to release a lease have ended.
struct RetriedRelease {
  ReleaseResult result = ReleaseResult::unknown;
  std::optional<NotOurs> refused{};  // the answer, where it was a refusal
  std::optional<Error> failure{};    // of the last try, where there was no answer
};

// Tries to release the lease until there is an answer, until the time to give up, or until `stop` is raised.
[[nodiscard]] RetriedRelease release_with_retries(LeaseStore& store, Clock& clock, const LeaseRef& ref,
                                                  const ReleaseOptions& how, const WakeEvent& stop);

}  // namespace dblock::lease
