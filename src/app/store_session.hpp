// How the processes that keep a lease use the store.
#pragma once

#include "lease/store.hpp"
#include "lease/timing.hpp"
#include "store/config/settings.hpp"
#include "store/open.hpp"

namespace dblock::app {

// For a holder that renews.
[[nodiscard]] store::SessionOptions session_options(const lease::Timing& timing);

// For the process that dblock leaves behind, after dblock's death: frees the lock by its owner id. `actor`:
// holder where something of the job goes on, and may be a nested run; the lease then ends after it.
void release_after_death(const store::Settings& settings, const lease::AcquireRequest& request,
                         lease::Actor actor);

}  // namespace dblock::app
