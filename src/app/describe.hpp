// Sentences about locks that several subcommands say.
#pragma once

#include <string>

#include "lease/store.hpp"

namespace dblock::app {

// "k" in quotes, untrusted text escaped.
[[nodiscard]] std::string quoted(const lease::Key& key);

// lock "k" is held by user@host:pid (job.sh, note) for 3m, expires in 1m50s
[[nodiscard]] std::string describe_conflict(const lease::Key& key, const lease::LockStatus& status);

// Why a lease is not ours, as the end of a sentence about lock "k".
[[nodiscard]] std::string describe_not_ours(const lease::NotOurs& refused);

}  // namespace dblock::app
