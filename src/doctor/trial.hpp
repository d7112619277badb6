// `doctor --try`: does on a database what jobs do, so that anybody can test a server that is not in the
// tests.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "doctor/doctor.hpp"
#include "lease/store.hpp"

namespace dblock::doctor {

// The length of its leases.
inline constexpr Micros k_ttl_of_trial = std::chrono::seconds(30);

// A new owner id for a lock of a trial.
[[nodiscard]] lease::OwnerId owner_of_trial(const lease::Holder& holder);

// A new session with the database that is tried.
using OpenStore = std::function<std::unique_ptr<lease::LockBook>()>;

// Takes, renews, waits for, hands on, shares, pauses and releases locks whose names begin with "dblock
// doctor". One finding for each thing tried, "try-grant" first; bad where the database failed or answered
// wrongly. After a failure the rest is left out. `holder` describes this process in the locks' rows. Two
// trials at a time take turns. `patience`: how long a grant may take: the default outlasts a trial that has
// died. Takes about two seconds where nothing is wrong.
[[nodiscard]] std::vector<Finding> try_out(const OpenStore& open, const lease::Holder& holder,
                                           Micros patience = std::chrono::seconds(40));

}  // namespace dblock::doctor
