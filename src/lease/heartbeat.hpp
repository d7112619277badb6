// The periodic renewal of one lease. No other thread may use the store while it runs. It reports, and never
// stops the job itself: another thread watches the deadline, so that a stuck query still ends in
// self-fencing.
#pragma once

#include <functional>

#include "base/clock.hpp"
#include "lease/store.hpp"
#include "lease/timing.hpp"

namespace dblock::lease {

// Callbacks on the heartbeat's thread.
struct HeartbeatObserver {
  std::function<void(BootTime sent_at)> on_renewed;    // the lease is proved until sent_at + ttl
  std::function<void(const NotOurs& why)> on_lost;     // definite; the heartbeat ends after it
  std::function<void(const Error& error)> on_trouble;  // a renewal failed; it will be repeated
  std::function<void(int failures)> on_recovered;      // a renewal worked after that many failures
};

// Renews `lease` every timing.heartbeat until `stop` is raised or the lease is lost. After a failure it tries
// again soon (jittered, from 50 ms), reconnecting as needed. It goes on past the local deadline: a late
// success is reported like any other, and the thread that watches the deadline has acted long before.
// RETURNS: the time the last confirmed renewal was sent.
BootTime run_heartbeat(LeaseStore& store, Clock& clock, const Lease& lease, const Timing& timing,
                       const HeartbeatObserver& observer, const WakeEvent& stop);

}  // namespace dblock::lease
