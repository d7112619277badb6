// `dblock acquire`: takes a lease for a script. With --while-pid a keeper renews the lease; without it only
// `dblock renew` does.
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "app/identity.hpp"
#include "app/keeper.hpp"
#include "app/release_after_death.hpp"
#include "app/silence_watch.hpp"
#include "app/store_access.hpp"
#include "app/use_cases.hpp"
#include "app/words/describe.hpp"
#include "app/words/ending.hpp"
#include "app/words/session_reports.hpp"
#include "process/signals.hpp"
#include "process/watched_process.hpp"
#include "store/open.hpp"

namespace dblock::app {
namespace {

constexpr int k_tries_after_grant = 3;

// The holder is the script, not this process, which ends in a moment.
lease::LeaseRequest make_wanted(const AcquireRequest& request) {
  const auto script = static_cast<std::uint32_t>(request.while_pid ? request.while_pid->pid : ::getppid());
  lease::LeaseRequest wanted{request.key,
                             {},
                             {},
                             lease::Kind::acquire,
                             request.timing.terms(),
                             make_holder(request.identity, script, program_of(script))};
  wanted.sharing = request.sharing;
  if (!request.while_pid) wanted.terms.heartbeat.reset();
  wanted.promises = request.promises;
  wanted.owner = new_owner_id(wanted.holder);
  return wanted;
}

// Forks, so call it before any thread or connection exists. From here on a pidfd identifies PID. Null without
// --while-pid.
Result<std::shared_ptr<KeeperHandle>> start_keeper(const AcquireRequest& request,
                                                   const store::Settings& settings,
                                                   const lease::LeaseRequest& wanted) {
  if (!request.while_pid) return nullptr;
  const auto watched = process::WatchedProcess::open(request.while_pid->pid);
  if (!watched) return fail(watched.error().code, "--while-pid: " + watched.error().message);
  return KeeperHandle::start({settings, wanted, request.timing, request.while_pid->lost_signal}, *watched);
}

// One acquisition, on behalf of a script.
class Acquisition {
 public:
  Acquisition(const AcquireRequest& request, const store::Settings& settings,
              const lease::LeaseRequest& wanted, std::shared_ptr<KeeperHandle> keeper)
      : request_(request),
        settings_(settings),
        wanted_(wanted),
        keeper_(std::move(keeper)),
        session_(store::open_store(settings, options_, clock()), clock(), wanted, request.wait,
                 request.timing, with_reports(request.wait, session_events(), clock())) {}

  Result<std::variant<Acquired, Ending>> go();

 private:
  static SystemClock& clock() {
    static SystemClock instance;  // an abandoned thread may use it until the process ends
    return instance;
  }
  [[nodiscard]] lease::SessionEvents session_events() const;
  bool release_grant();
  bool release_late_grant();
  std::string give_up();
  Ending interrupted(const process::Stop& stop, const std::string& when);
  Result<Ending> ended_before_grant();
  Result<std::optional<Ending>> hand_over(const lease::Lease& lease);
  template <typename Call>
  auto insist(Call call) -> decltype(call());
  Result<void> hold_from_now(const lease::Lease& lease);
  Result<lease::Answer> read_row_back();
  [[nodiscard]] std::string lock() const { return "lock " + quoted(request_.key); }

  const AcquireRequest& request_;
  const store::Settings& settings_;
  const lease::LeaseRequest& wanted_;
  // Made before the session's thread: a signal must not strand a lock that was just granted.
  const process::Signals signals_;
  std::shared_ptr<KeeperHandle> keeper_;
  const store::SessionOptions options_{lease::network_timeout(request_.timing.ttl), Micros{0}};
  lease::Session session_;
};

lease::SessionEvents Acquisition::session_events() const {
  lease::SessionEvents events;
  if (keeper_) events.acquiring.on_send = [keeper = keeper_] { keeper->arm_release(); };
  return events;
}

// Releases a lease that may have been granted. False when that stays in doubt: a keeper then releases the
// lease after dblock's end.
bool Acquisition::release_grant() {
  bool nothing_left = session_.cancel_acquire();
  if (!nothing_left && !keeper_ && session_.may_be_granted_later()) nothing_left = release_late_grant();
  if (nothing_left && keeper_) keeper_->dismiss();
  return nothing_left;
}

// For an acquisition without a keeper. A further signal ends it, and dblock.
bool Acquisition::release_late_grant() {
  const SilenceWatch watch(settings_);
  signals_.restore_mask();
  return release_after_death(settings_, wanted_, lease::Actor::stopper, {lease::RunOutcome::not_run, {}});
}

// What is left after it, for messages.
std::string Acquisition::give_up() {
  if (release_grant()) return "nothing is held";
  return "whether the lock was taken is not known; if it was, it " + describe_own_end(request_.timing);
}

Ending Acquisition::interrupted(const process::Stop& stop, const std::string& when) {
  Ending ending = interrupted_by(stop, when + "; " + give_up());
  ending.thread_left_behind = session_.abandoned();
  return ending;
}

// The keeper has reported before there was a lease: PID or the keeper has ended, so there will be no lease.
Result<Ending> Acquisition::ended_before_grant() {
  const bool process_ended = keeper_->process_ended();
  const std::string left = give_up();
  if (!process_ended)
    return fail(Errc::internal, "the keeper process died before it had a lease to keep; " + left);
  return Ending{.how = Ending::How::refused,
                .thread_left_behind = session_.abandoned(),
                .message = "process " + std::to_string(request_.while_pid->pid) +
                           " ended while waiting for " + lock() + "; " + left};
}

// Hands the granted lease to the keeper; nullopt when the keeper has taken it over. Otherwise releases the
// lease: --while-pid asks for a lease with a keeper.
Result<std::optional<Ending>> Acquisition::hand_over(const lease::Lease& lease) {
  switch (keeper_->hand_over(lease, signals_)) {
    case KeeperHandle::HandedOver::standing:
      return std::nullopt;
    case KeeperHandle::HandedOver::signalled:
      return interrupted(keeper_->stopped_by(), "before " + lock() + " was kept");
    case KeeperHandle::HandedOver::failed:
      break;
  }
  const bool released = release_grant();
  return fail(Errc::unreachable, "the keeper of " + lock() +
                                     " could not renew the lease over a connection of its own; the lock " +
                                     (released ? "was released" : describe_own_end(request_.timing)));
}

// What is left to do after the grant. When the connection breaks here, releases the lease: dblock's caller
// would not learn of it.
template <typename Call>
auto Acquisition::insist(Call call) -> decltype(call()) {
  auto done = call();
  for (int i = 1; i < k_tries_after_grant && !done && may_pass(done.error()); ++i) done = call();
  if (!done) {
    const bool released = release_grant();
    done.error().message += "; " + lock() +
                            (released ? " was granted and has been released"
                                      : " was granted and " + describe_own_end(request_.timing));
  }
  return done;
}

// Where the granting statement had to wait, the row's hold for --min-hold began too early. A lease that is
// ours no more shows when its row is read.
Result<void> Acquisition::hold_from_now(const lease::Lease& lease) {
  if (session_.rest_of_hold() <= Micros{0}) return {};
  DBLOCK_CHECK(insist([&] {
    return session_.store().renew(lease::ref_to(lease), lease::Actor::holder, std::nullopt,
                                  session_.rest_of_hold());
  }));
  return {};
}

// Reads the row that is reported.
Result<lease::Answer> Acquisition::read_row_back() {
  return insist([this] { return session_.store().look(wanted_); });
}

Result<std::variant<Acquired, Ending>> Acquisition::go() {
  session_.start_acquire();
  const int keeper = keeper_ ? keeper_->fd() : -1;
  const auto stop = signals_.wait(session_.done(), std::nullopt, keeper,
                                  [this] { say_no_answer(session_, settings_, options_, request_.wait); });
  if (stop) return interrupted(*stop, "while waiting for " + lock());
  if (!session_.done().raised()) return ended_before_grant();
  const auto outcome = session_.grant();
  const bool granted = outcome && std::holds_alternative<lease::Lease>(*outcome);
  if (!granted && session_.may_be_granted_later()) {
    if (!keeper_) release_late_grant();
  } else if (!granted && keeper_) {
    keeper_->dismiss();
  }
  if (!outcome) return std::unexpected(outcome.error());
  if (const auto* held = std::get_if<lease::Held>(&*outcome))
    return Ending::held(describe_refusal(held->status, !request_.wait.once()));
  const auto& lease = std::get<lease::Lease>(*outcome);
  warn_if_slow("acquiring", lock(), session_.grant_took(), request_.warn_after);
  const SilenceWatch watch(settings_, options_);
  if (keeper_) {
    DBLOCK_TRY(auto failed, hand_over(lease));
    if (failed) return std::move(*failed);
  }
  session_.store().hold(lease::LeaseStore::RenewedBy::another);
  DBLOCK_CHECK(hold_from_now(lease));
  DBLOCK_TRY(const auto seen, read_row_back());
  const auto* ours = std::get_if<lease::Granted>(&seen);
  if (ours == nullptr) {
    const bool ran_out = clock().now() >= lease.sent_at + lease.terms.ttl;
    return Ending{
        .how = Ending::How::lost,
        .message = lock() + (ran_out ? " was granted, but its lease ended before it could be reported"
                                     : " was granted and revoked at once")};
  }
  return Acquired{lease, *ours->row, keeper_};
}

}  // namespace

Result<std::variant<Acquired, Ending>> acquire(const AcquireRequest& request) {
  DBLOCK_TRY(const store::Settings settings, settings_from(request.database));
  const lease::LeaseRequest wanted = make_wanted(request);
  DBLOCK_TRY(auto keeper, start_keeper(request, settings, wanted));
  return Acquisition(request, settings, wanted, std::move(keeper)).go();
}

void confirm(const Acquired& acquired) {
  if (acquired.keeper) acquired.keeper->confirm();
}

}  // namespace dblock::app
