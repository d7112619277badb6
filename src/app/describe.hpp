// Sentences about locks that several subcommands say.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lease/store.hpp"

namespace dblock::app {

// "k" in quotes, untrusted text escaped.
[[nodiscard]] std::string quoted(const lease::Key& key);

// lock "k", or: locks "a", "b"
[[nodiscard]] std::string lock_names(const lease::Key& key, const std::vector<lease::Key>& also);

// " as a reader", " in slot 2 of 3", or nothing: beside whom the holder holds.
[[nodiscard]] std::string beside_others(const lease::LockStatus& status);
// New readers are being turned away for a writer.
[[nodiscard]] bool writer_waits(const lease::LockStatus& status);

// "59m, after web1's run (--min-hold)": how long the lock cools down for, and why.
[[nodiscard]] std::string describe_cooldown(const lease::LockStatus& status);

// lock "k" is held by user@host:pid (job.sh, note) for 3m, expires in 1m50s
[[nodiscard]] std::string describe_conflict(const lease::LockStatus& status);

// One warning where the wait is for the script that this process is part of.
void warn_of_own_script(const lease::LockStatus& status);

// describe_conflict() and what could be done: waiting, unless the caller has waited, or runs under that very
// lock.
[[nodiscard]] std::string describe_refusal(const lease::LockStatus& status, bool waited);

// the job under key "k" last succeeded in a run that began 3h ago, so it is not started again (--once-per 1d)
[[nodiscard]] std::string describe_done(const lease::LockStatus& status, Micros period);

// Why a lease is not ours, as the end of a sentence about lock "k".
[[nodiscard]] std::string describe_not_ours(const lease::NotOurs& refused);

// One warning when `what` ("acquiring") the locks, as lock_names() has them, took longer than `limit`.
void warn_if_slow(std::string_view what, const std::string& locks, Nanos took, Micros limit);

// One warning a process when a row shows that the clocks of the database's servers differ by more than the
// margin that is to cover it.
void warn_of_clocks(const lease::LockStatus& status);

}  // namespace dblock::app
