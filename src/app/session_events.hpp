// What dblock tells people, and the process that stops the job, about the life of a lease.
#pragma once

#include <functional>
#include <memory>

#include "lease/session.hpp"
#include "process/supervisor.hpp"

namespace dblock::app {

// Log lines, the live line of a wait, and the deadlines for `listener`, which may be null where nothing runs
// under the lease. `on_wait`: told at each pause that a holder makes necessary; may be empty.
[[nodiscard]] lease::SessionEvents session_events(const lease::WaitPolicy& policy,
                                                  std::shared_ptr<process::DeadlineListener> listener,
                                                  std::function<void(const lease::LockStatus&)> on_wait);

}  // namespace dblock::app
