// Sentences about locks that several subcommands say.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lease/store.hpp"
#include "lease/timing.hpp"

namespace dblock::app {

// "k" in quotes, untrusted text escaped.
[[nodiscard]] std::string quoted(const lease::Key& key);

// lock "k", or: locks "a", "b"
[[nodiscard]] std::string lock_names(const lease::Key& key, const std::vector<lease::Key>& further_keys);

// How the holder shares the lock: " as a reader", " in slot 2 of 3", or nothing where it holds it alone.
[[nodiscard]] std::string describe_sharing(const lease::LockStatus& status);

// "59m, after web1's run (--min-hold)": how long the lock cools down for, and why.
[[nodiscard]] std::string describe_cooldown(const lease::LockStatus& status);

// "its command ended 2m ago, and it waits for the leftovers": why a run holds its lock at `now`, by the
// server's clock; empty where its command runs, or nothing is known.
[[nodiscard]] std::string describe_leftovers(const lease::LockStatus& status, Micros now);

// "frees itself within 33s": what becomes, counted from now, of a lock that was granted and is not released.
[[nodiscard]] std::string describe_own_end(const lease::Timing& timing);

// lock "k" is held by user@host:pid (job.sh) for 3m, note: n; its lease runs out in 1m50s unless renewed
// lock "k" is paused until 2026-11-25T06:00:00Z by user@host: note
[[nodiscard]] std::string describe_conflict(const lease::LockStatus& status);

// For which waiting run a run has left the line: "; a newer run has come: user@host:pid (--line newest)".
[[nodiscard]] std::string describe_line(const lease::OwnerId& left_line_to, lease::Line line);

// Warns, once a process, when this process waits for a lock that its own script holds.
void warn_of_own_script(const lease::LockStatus& status);

// describe_conflict(), and what the user can do about it. Proposes to wait, unless the caller has waited or
// runs under that very lock.
[[nodiscard]] std::string describe_refusal(const lease::LockStatus& status, bool waited);

// the job under key "k" last succeeded in a run that began 3h ago, so it is not started again (--once-per 1d)
[[nodiscard]] std::string describe_done(const lease::LockStatus& status, Micros period);

// "a running job" or "an application": who holds a lease that is no script's (NotOursWhy::other_kind).
[[nodiscard]] std::string kind_of_holder(const lease::NotOurs& refused);

// Why a lease is not ours, as the end of a sentence about lock "k": "is held by …", "has expired".
[[nodiscard]] std::string describe_not_ours(const lease::NotOurs& refused);

// Warns when `what` ("acquiring") took longer than `limit`. `locks`: the locks as lock_names() names them.
void warn_if_slow(std::string_view what, const std::string& locks, Nanos took, Micros limit);

// Warns, once a process, when a row shows that the clocks of the database's servers differ by more than the
// lease margin, which is to cover the difference.
void warn_of_clocks(const lease::LockStatus& status);

}  // namespace dblock::app
