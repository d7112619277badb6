// The keeper of `acquire --while-pid PID`: a process that stays when dblock has ended, renews the lease until
// PID ends, and gives it back then. When the lease is lost it signals PID in time (I4). What the script
// releases itself is no loss: the keeper finds it gone and ends silently.
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
  lease::AcquireRequest wanted;
  lease::Timing timing;
  int lost_signal = 0;  // to PID
};

// dblock's view of its keeper. Until confirm() or dismiss() the keeper gives back whatever dblock may have
// taken as soon as dblock ends, however it does: nobody has learnt of that lease.
class Keeper {
 public:
  // Forks; before any thread or connection exists.
  [[nodiscard]] static Result<std::shared_ptr<Keeper>> start(const KeeperCharge& charge,
                                                             const process::WatchedProcess& watched);

  // Thread-safe. From now on dblock's end is a reason to release.
  void arm_release();

  // Readable as soon as there will be no lease for this keeper: PID has ended, or the keeper has.
  [[nodiscard]] int fd() const noexcept { return channel_.get(); }
  // Whether it is PID that has ended. REQUIRES: fd() is readable and no lease was handed over.
  [[nodiscard]] bool process_ended() const noexcept;

  // Hands the lease over. Returns when the keeper has renewed it over a connection of its own.
  enum class HandedOver { standing, signalled, failed };
  [[nodiscard]] HandedOver hand_over(const lease::Lease& lease, const process::Signals& signals);
  // Of `signalled`.
  [[nodiscard]] const process::Stop& stopped_by() const noexcept { return stopped_by_; }

  // The caller has the result: from now on only PID's end or a loss ends the keeper.
  void confirm() noexcept;
  // Nothing is held, or dblock itself sees to it.
  void dismiss() noexcept;

  Keeper(UniqueFd channel, lease::Timing timing) : channel_(std::move(channel)), timing_(timing) {}

 private:
  UniqueFd channel_;
  lease::Timing timing_;
  process::Stop stopped_by_;
};

// Whether a lease that a renewal found gone was given back on purpose. `silence`: time since the last renewal
// that worked was sent.
[[nodiscard]] bool given_back_on_purpose(const lease::NotOurs& refused, Nanos silence,
                                         const lease::Timing& timing);

}  // namespace dblock::app
