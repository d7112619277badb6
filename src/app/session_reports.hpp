// What dblock tells people about the life of a lease.
#pragma once

#include "lease/session.hpp"

namespace dblock::app {

// `events`, and beside them log lines, warnings, and the live line of a wait that is limited by `policy`. A
// wait for an ancestor's lock is hopeless.
[[nodiscard]] lease::SessionEvents with_reports(const lease::WaitPolicy& policy, lease::SessionEvents events);

}  // namespace dblock::app
