// The database that a request names, and how the processes that keep a lease use it.
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "lease/store.hpp"
#include "lease/timing.hpp"
#include "store/config/settings.hpp"
#include "store/open.hpp"

namespace dblock::app {

// Resolves `sources` to settings. Logs whatever is questionable about them as warnings, or puts the warnings
// into `unsaid` for the caller to log later.
[[nodiscard]] Result<store::Settings> settings_from(const store::SettingsSources& sources,
                                                    std::vector<std::string>* unsaid = nullptr);

// True for a failure of the database that may pass, so that a later try can succeed.
[[nodiscard]] bool may_pass(const Error& error);

// How a holder that renews its lease connects.
[[nodiscard]] store::SessionOptions session_options(const lease::Timing& timing);

// Called by the guardian or the keeper after dblock's death: releases the lock by its owner id, retrying for
// a few seconds; for a TTL if `awaited`, where later requests depend on the record of `end`. `actor`:
// Actor::holder where a process of the job was left that may be a nested run, after which the lease then
// ends; else Actor::stopper.
void release_after_death(const store::Settings& settings, const lease::LeaseRequest& request,
                         lease::Actor actor, const lease::RunEnd& end, bool awaited = false);

}  // namespace dblock::app
