// The periodic renewal of one lease. No other thread may use the store while it runs. It reports, and never
// stops the job itself: another thread watches the deadline, so that a stuck query still ends in
// self-fencing.
#pragma once

#include <functional>
#include <mutex>
#include <optional>

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

// What another thread tells a heartbeat, which sleeps until `wake` is raised. Thread-safe.
class HeartbeatInbox {
 public:
  explicit HeartbeatInbox(WakeEvent& wake) : wake_(wake) {}

  // Ends the heartbeat, as raising `wake` does, also where it has not taken the last news.
  void stop();
  // Has the lease renewed at once, and `news` stored with it, unless it was told last.
  void tell(const JobNews& news);

  // For the heartbeat. take() forgets what it returns.
  [[nodiscard]] const WakeEvent& wake() const { return wake_; }
  [[nodiscard]] bool stopped();
  [[nodiscard]] std::optional<JobNews> take();

 private:
  WakeEvent& wake_;
  std::mutex mutex_;
  JobNews last_;
  std::optional<JobNews> untold_;
};

// Renews `lease` every timing.heartbeat until it is stopped or the lease is lost. After a failure it tries
// again soon (jittered, from 50 ms), reconnecting as needed. It goes on past the local deadline: a late
// success is reported like any other, and the thread that watches the deadline has acted long before.
// RETURNS: the time the last confirmed renewal was sent.
BootTime run_heartbeat(LeaseStore& store, Clock& clock, const Lease& lease, const Timing& timing,
                       const HeartbeatObserver& observer, HeartbeatInbox& inbox);

}  // namespace dblock::lease
