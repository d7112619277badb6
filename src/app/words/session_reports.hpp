// What dblock tells the user about the life of a lease.
#pragma once

#include "lease/session.hpp"

namespace dblock::app {

// Adds to `events` the log lines, the warnings, and the live line of a wait that `policy` allows. Declares a
// wait for the lock of an outer run hopeless.
[[nodiscard]] lease::SessionEvents with_reports(const lease::WaitPolicy& policy, lease::SessionEvents events);

}  // namespace dblock::app
