// The database a request is about, and how the processes that keep a lease use it.
#pragma once

#include "base/error.hpp"
#include "lease/store.hpp"
#include "lease/timing.hpp"
#include "store/config/settings.hpp"
#include "store/open.hpp"

namespace dblock::app {

// The settings that `sources` add up to; what is questionable about them is logged as a warning.
[[nodiscard]] Result<store::Settings> settings_from(const store::SettingsSources& sources);

// For a holder that renews.
[[nodiscard]] store::SessionOptions session_options(const lease::Timing& timing);

// For the process that dblock leaves behind, after dblock's death: frees the lock by its owner id. `actor`:
// holder where something of the job goes on, and may be a nested run; the lease then ends after it.
void release_after_death(const store::Settings& settings, const lease::AcquireRequest& request,
                         lease::Actor actor);

}  // namespace dblock::app
