// What a trial (trial.hpp) does to its locks in one call, and what it calls a wrong answer.
#pragma once

#include <expected>
#include <string>

#include "base/error.hpp"
#include "lease/store.hpp"
#include "lease/timing.hpp"

namespace dblock::doctor {

// A database that answers so lets two jobs run at once, or none.
[[nodiscard]] std::unexpected<Error> wrong(std::string what);

// The locks of a trial are called "dblock doctor" and what `suffix` says.
[[nodiscard]] lease::Key trial_key(const std::string& suffix);
[[nodiscard]] lease::Timing trial_timing();
[[nodiscard]] lease::LeaseRequest trial_request(const lease::Holder& holder, const std::string& suffix,
                                                lease::Sharing sharing = {});

// What a trial pauses for a moment.
[[nodiscard]] lease::PauseScope trial_scope();
// True while another pause covers one of the locks.
[[nodiscard]] Result<bool> is_paused(lease::LockBook& book);

// Takes a lock that nobody holds.
[[nodiscard]] Result<lease::Lease> take(lease::LockBook& book, const lease::LeaseRequest& wanted);
// Asks for a lock that must not be granted: `what` would be.
[[nodiscard]] Result<void> expect_refusal(lease::LockBook& book, const lease::LeaseRequest& wanted,
                                          const std::string& what);
[[nodiscard]] Result<void> give_back(lease::LockBook& book, const lease::Lease& lease);

}  // namespace dblock::doctor
