// The release of a lock that was granted to a dblock that has died, or may be granted to one that has given
// up.
#pragma once

#include "lease/answers.hpp"
#include "lease/past_run.hpp"
#include "lease/request.hpp"
#include "store/config/settings.hpp"

namespace dblock::app {

// Releases the lock by its owner id, retrying for a few seconds; for a TTL if `awaited`, where later requests
// depend on the record of `end`. `actor`: Actor::holder where a process of the job was left that may be a
// nested run, after which the lease then ends; else Actor::stopper. True when nothing is left of the request.
bool release_after_death(const store::Settings& settings, const lease::LeaseRequest& request,
                         lease::Actor actor, const lease::RunEnd& end, bool awaited = false);

}  // namespace dblock::app
