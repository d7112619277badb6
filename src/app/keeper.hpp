// The keeper of `acquire --while-pid PID`: a process that stays when dblock has ended, renews the lease until
// PID ends, and releases it then. When the lease is lost, the keeper signals PID in time (I4). A release by
// the script itself is no loss: the keeper finds the lease gone and ends silently.
#pragma once

#include <memory>
#include <optional>

#include "base/error.hpp"
#include "lease/store.hpp"
#include "lease/timing.hpp"
#include "process/signals.hpp"
#include "process/watched_process.hpp"
#include "store/config/settings.hpp"

namespace dblock::app {

struct KeeperCharge {
  store::Settings settings;
  lease::LeaseRequest wanted;
  lease::Timing timing;
  int lost_signal = 0;  // to PID
};

// dblock's handle of its keeper. When dblock ends, for any reason, before confirm() or dismiss(), the keeper
// releases the lease that dblock may have taken: dblock's caller has not learnt of it.
class KeeperHandle {
 public:
  // Forks the keeper. Call before any thread or connection exists.
  [[nodiscard]] static Result<std::shared_ptr<KeeperHandle>> start(const KeeperCharge& charge,
                                                                   const process::WatchedProcess& watched);

  // Thread-safe. From now on a lease may exist, which the keeper has to release after dblock's end.
  void arm_release();

  // Readable as soon as PID or the keeper has ended, so that there will be no lease to keep.
  [[nodiscard]] int fd() const noexcept { return channel_.get(); }
  // True when PID has ended, false when the keeper has. REQUIRES: fd() is readable and no lease was handed
  // over.
  [[nodiscard]] bool process_ended() const noexcept;

  // `standing`: the keeper has renewed the lease over a connection of its own. `signalled`: dblock got a
  // signal that ends a wait. `failed`: the keeper has ended, or could not renew in time.
  enum class HandedOver { standing, signalled, failed };
  // Hands the lease over, and waits for the keeper's renewal.
  [[nodiscard]] HandedOver hand_over(const lease::Lease& lease, const process::Signals& signals);
  // The signal behind `signalled`.
  [[nodiscard]] const process::Stop& stopped_by() const noexcept { return stopped_by_; }

  // dblock's caller knows of the lease: from now on only PID's end or the lease's end ends the keeper.
  void confirm() noexcept;
  // Ends the keeper: dblock holds nothing, or releases the lease itself.
  void dismiss() noexcept;

  KeeperHandle(UniqueFd channel, lease::Timing timing) : channel_(std::move(channel)), timing_(timing) {}

 private:
  UniqueFd channel_;
  lease::Timing timing_;
  process::Stop stopped_by_;
};

// True when a lease that a renewal found gone was released on purpose. `silence`: time since the last
// renewal that worked was sent.
[[nodiscard]] bool released_on_purpose(const lease::NotOurs& refused, Nanos silence,
                                       const lease::Timing& timing);

// Until when dblock waits for its keeper's renewal of a lease that was granted at `sent`: long enough for one
// call that hangs and one that works, but not until PID would have to be signalled.
[[nodiscard]] BootTime hand_over_until(const lease::Timing& timing, BootTime sent, BootTime now);

}  // namespace dblock::app
