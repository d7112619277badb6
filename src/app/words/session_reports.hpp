// What dblock tells the user about the life of a lease.
#pragma once

#include <string>

#include "base/clock.hpp"
#include "lease/session.hpp"

namespace dblock::app {

// Adds to `events` the log lines, the warnings, and the live line of a wait that `policy` allows. Declares a
// wait for the lock of an outer run hopeless. `clock` must outlive the events.
[[nodiscard]] lease::SessionEvents with_reports(const lease::WaitPolicy& policy, lease::SessionEvents events,
                                                const Clock& clock);

}  // namespace dblock::app
