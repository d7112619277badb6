#include "app/keeper.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "app/release_after_death.hpp"
#include "app/store_access.hpp"
#include "lease/session.hpp"
#include "process/detached.hpp"
#include "process/guardian/stop_plan.hpp"
#include "process/messages.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;

// A message between dblock and its keeper.
struct KeeperMessage {
  enum class Kind : std::uint32_t {
    // dblock -> keeper
    arm,      // a lease may exist from now on
    keep,     // the lease exists, keep it: token, slot, sent_at
    confirm,  // dblock's caller knows of the lease
    dismiss,  // nothing is left to do: exit
    // keeper -> dblock
    standing,  // the lease has been renewed by the keeper
    ended,     // PID has ended
  };
  Kind kind{};
  std::uint32_t slot = 0;  // with `keep`: the lease's row; 0 for an exclusive lock
  std::uint64_t token = 0;
  std::int64_t sent_at_ns = 0;
};

// The result of a send is not checked: these few messages fit into the socket, and a read shows when the peer
// is gone.
using process::receive_record;
using process::Received;
using process::send_record;

// What the session's thread tells the keeper's main thread.
struct HeartbeatReport {
  void renewed(BootTime deadline) {
    deadline_ns.store(deadline.time_since_epoch().count());
    event.raise();
  }
  void lost() {
    refused.store(true);
    event.raise();
  }

  std::atomic<std::int64_t> deadline_ns{0};  // 0: not renewed yet
  std::atomic<bool> refused = false;
  WakeEvent event;
};

// What runs in the keeper's process. Where the work is done a function calls _exit() instead of returning: a
// thread may be stuck in a call, so an ordinary exit could hang, and no output is buffered.
class KeeperProcess {
 public:
  KeeperProcess(const KeeperCharge& charge, const process::WatchedProcess& watched, UniqueFd channel)
      : charge_(charge),
        watched_(watched),
        channel_(std::move(channel)),
        plan_(charge.timing.kill_grace, charge.timing.slack) {}

  [[noreturn]] void run() {
    await_lease();
    start_heartbeat();
    for (;;) step();
  }

 private:
  void await_lease();
  void start_heartbeat();
  void step();
  void read_message();
  void read_report();
  [[noreturn]] void signal_loss_and_exit();
  [[noreturn]] void release_and_exit();
  [[noreturn]] static void end() { ::_exit(0); }

  const KeeperCharge& charge_;
  const process::WatchedProcess& watched_;
  UniqueFd channel_;
  process::StopPlan plan_;
  DeadlineTimer timer_;
  std::shared_ptr<HeartbeatReport> report_ = std::make_shared<HeartbeatReport>();
  std::optional<lease::Lease> lease_;
  std::optional<lease::Session> session_;
  bool standing_ = false;
  bool confirmed_ = false;
};

// Returns when dblock has handed over a lease; exits when dblock dismisses the keeper or has ended. PID's end
// is only told to dblock, which may be about to be granted the lock.
void KeeperProcess::await_lease() {
  bool armed = false;
  bool ended = false;
  while (!lease_) {
    std::array<pollfd, 2> fds{pollfd{channel_.get(), POLLIN, 0},
                              pollfd{ended ? -1 : watched_.fd(), POLLIN, 0}};
    ::poll(fds.data(), fds.size(), -1);
    if (!ended && watched_.ended()) {
      ended = true;
      send_record(channel_, KeeperMessage{.kind = KeeperMessage::Kind::ended});
    }
    KeeperMessage message;
    const auto received = receive_record(channel_, message);
    if (received == Received::nothing) continue;
    if (received == Received::closed) {
      if (armed) {
        release_after_death(charge_.settings, charge_.wanted, lease::Actor::stopper,
                            {lease::RunOutcome::abandoned, std::nullopt});
      }
      end();
    }
    if (message.kind == KeeperMessage::Kind::dismiss) end();
    if (message.kind == KeeperMessage::Kind::arm) armed = true;
    if (message.kind == KeeperMessage::Kind::keep) {
      lease_ = lease::granted(charge_.wanted, lease::Token{message.token}, message.slot,
                              BootTime(Nanos(message.sent_at_ns)))
                   .lease;
    }
  }
}

// Starts the heartbeat with a renewal at once: the keeper counts as standing only after a renewal of its own.
void KeeperProcess::start_heartbeat() {
  static SystemClock clock;  // a stuck thread may use it until the process ends
  plan_.set_deadline(charge_.timing.expires(lease_->sent_at));
  lease::SessionEvents events;
  events.on_renewed = [report = report_](BootTime deadline) { report->renewed(deadline); };
  events.on_lost = [report = report_](const lease::NotOurs&) { report->lost(); };
  session_.emplace(store::open_store(charge_.settings, session_options(charge_.timing), clock), clock,
                   charge_.wanted, lease::WaitPolicy{}, charge_.timing, std::move(events));
  lease::Lease due = *lease_;
  due.sent_at = std::min(due.sent_at, BootTime(clock.now() - charge_.timing.heartbeat));
  session_->start_heartbeat(due);
}

void KeeperProcess::step() {
  if (watched_.ended()) release_and_exit();
  read_message();
  read_report();
  if (plan_.fence_due(BootClock::now())) signal_loss_and_exit();
  timer_.arm(*plan_.next_change());
  std::array<pollfd, 4> fds{pollfd{watched_.fd(), POLLIN, 0}, pollfd{channel_.get(), POLLIN, 0},
                            pollfd{report_->event.fd(), POLLIN, 0}, pollfd{timer_.fd(), POLLIN, 0}};
  ::poll(fds.data(), fds.size(), -1);
}

void KeeperProcess::read_message() {
  if (confirmed_) return;
  KeeperMessage message;
  const auto received = receive_record(channel_, message);
  if (received == Received::nothing) return;
  if (received == Received::closed) release_and_exit();  // dblock's caller never learnt of the lease
  if (message.kind == KeeperMessage::Kind::dismiss) end();
  if (message.kind != KeeperMessage::Kind::confirm) return;
  confirmed_ = true;
  channel_.reset();  // from now on dblock's end means nothing to the keeper
}

void KeeperProcess::read_report() {
  report_->event.clear();
  const BootTime proved_until{Nanos(report_->deadline_ns.load())};
  if (proved_until != BootTime{}) plan_.set_deadline(proved_until);
  if (report_->refused.load()) {
    const auto refused = session_->lost();
    const BootTime sent_at = *plan_.deadline() - charge_.timing.ttl;
    if (refused && released_on_purpose(*refused, BootClock::now() - sent_at, charge_.timing)) end();
    signal_loss_and_exit();
  }
  if (proved_until == BootTime{} || standing_) return;
  standing_ = true;
  send_record(channel_, KeeperMessage{.kind = KeeperMessage::Kind::standing});
}

// Signals PID that the lease is lost. There is no way back then, even if a late renewal would work. If PID
// ends before the lease does, the keeper still releases it.
void KeeperProcess::signal_loss_and_exit() {
  if (!confirmed_) release_and_exit();
  watched_.signal(charge_.lost_signal);
  session_->stop_heartbeat(true);
  timer_.arm(*plan_.deadline());
  std::array<pollfd, 2> fds{pollfd{watched_.fd(), POLLIN, 0}, pollfd{timer_.fd(), POLLIN, 0}};
  while (::poll(fds.data(), fds.size(), -1) < 0 && errno == EINTR) {
  }
  if (watched_.ended()) release_and_exit();
  end();
}

// Releases the lease and exits. Retries for as long as the lease lasts.
void KeeperProcess::release_and_exit() {
  const lease::LeaseRef ref = lease::ref_to(*lease_);
  static_cast<void>(session_->release(ref, lease::Actor::holder, {lease::RunOutcome::released, std::nullopt},
                                      {.patience = charge_.timing.ttl}));
  end();
}

}  // namespace

// Within the deadline a lease ends in three ways: it is released by its owner id, or by force it is revoked
// or freed. A revocation shows in the row. Freeing leaves the outcome `abandoned` there, as an expiry does,
// and is possible only once two heartbeats are missing. The row records one past lease only, so after two
// missing heartbeats nothing but the outcome `released` proves a release.
bool released_on_purpose(const lease::NotOurs& refused, Nanos silence, const lease::Timing& timing) {
  using Why = lease::NotOursWhy;
  if (refused.why != Why::free && refused.why != Why::other_holder) return false;
  const auto last = refused.status && refused.status->last ? refused.status->last->outcome : std::nullopt;
  if (last == lease::RunOutcome::abandoned) return false;
  return last == lease::RunOutcome::released || silence < 2 * timing.heartbeat;
}

BootTime hand_over_until(const lease::Timing& timing, BootTime sent, BootTime now) {
  return std::min(timing.signal_at(sent), now + 2 * lease::network_timeout(timing.ttl));
}

Result<std::shared_ptr<KeeperHandle>> KeeperHandle::start(const KeeperCharge& charge,
                                                          const process::WatchedProcess& watched) {
  DBLOCK_TRY(auto channel,
             process::fork_detached({process::k_keeper_name, {watched.fd()}}, [&](UniqueFd theirs) {
               KeeperProcess(charge, watched, std::move(theirs)).run();
             }));
  return std::make_shared<KeeperHandle>(std::move(channel), charge.timing);
}

void KeeperHandle::arm_release() {
  send_record(channel_, KeeperMessage{.kind = KeeperMessage::Kind::arm});
}

bool KeeperHandle::process_ended() const noexcept {
  KeeperMessage message;
  return receive_record(channel_, message) == Received::message && message.kind == KeeperMessage::Kind::ended;
}

KeeperHandle::HandedOver KeeperHandle::hand_over(const lease::Lease& lease, const process::Signals& signals) {
  const std::uint32_t slot = lease.rows.empty() ? 0 : lease.rows.front();
  send_record(channel_, KeeperMessage{KeeperMessage::Kind::keep, slot, lease.token.value,
                                      lease.sent_at.time_since_epoch().count()});
  const WakeEvent never;
  const BootTime until = hand_over_until(timing_, lease.sent_at, BootClock::now());
  for (;;) {
    if (const auto stop = signals.wait(never, until, channel_.get()); stop) {
      stopped_by_ = *stop;
      return HandedOver::signalled;
    }
    KeeperMessage message;
    const auto received = receive_record(channel_, message);
    if (received == Received::message && message.kind == KeeperMessage::Kind::standing)
      return HandedOver::standing;
    if (received != Received::nothing || BootClock::now() >= until) return HandedOver::failed;
  }
}

void KeeperHandle::confirm() noexcept {
  send_record(channel_, KeeperMessage{.kind = KeeperMessage::Kind::confirm});
}

void KeeperHandle::dismiss() noexcept {
  send_record(channel_, KeeperMessage{.kind = KeeperMessage::Kind::dismiss});
}

}  // namespace dblock::app
