#include "app/job_lease.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <variant>

#include "app/describe.hpp"
#include "app/identity.hpp"
#include "app/waiting_line.hpp"
#include "base/duration.hpp"
#include "base/log.hpp"
#include "lease/backoff.hpp"
#include "lease/heartbeat.hpp"
#include "lease/owner_id.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;
using lease::GrantOutcome;
using lease::Lease;
using lease::NotOurs;

// A statement under way normally ends by itself within this; after it, its connection is broken off.
constexpr Nanos k_natural_end = 300ms;
constexpr Nanos k_no_patience = 20ms;  // for a thread that is merely asleep
// A broken connection lets the thread go at once; only connection establishment can outlast this.
constexpr Nanos k_forced_end = 700ms;
constexpr Micros k_least_release_time = 500ms;
constexpr Micros k_repeat_waiting_line = 60s;
constexpr Micros k_first_nested_poll = 250ms;
constexpr Micros k_last_nested_poll = 2s;

}  // namespace

// Shared with the worker's tasks, which may outlive JobLease when the thread had to be abandoned.
struct JobLease::Session {
  SystemClock clock;
  std::unique_ptr<lease::LeaseStore> store;
  lease::AcquireRequest request;
  lease::WaitPolicy policy;
  lease::Timing timing;
  std::shared_ptr<process::Fence> fence;
  std::function<void(const lease::LockStatus&)> on_wait;
  WakeEvent stop;
  std::atomic<bool> heartbeat_over = true;

  mutable std::mutex mutex;  // guards what follows
  std::optional<Result<GrantOutcome>> grant;
  BootTime started{};
  BootTime ended{};
  std::optional<BootTime> wait_began;
  std::optional<NotOurs> lost;
  std::string trouble;
  BootTime proved_until{};
  ReleaseResult release_result = ReleaseResult::unknown;

  BootTime last_waiting_line{};
  WaitingLine waiting_line;

  void acquire();
  void heartbeat(const Lease& lease);
  void release(const lease::LeaseRef& ref, lease::Actor actor, lease::RunEnd end, Micros patience);
  void give_back(const lease::LeaseRef& ref, lease::Actor actor, lease::RunEnd end, Micros patience);
  void release_after_nested(const lease::LeaseRef& ref, lease::RunEnd end, Micros patience);
  void say_waiting(const lease::LockStatus& status);
  void note_wait(const lease::LockStatus& status);
  void say_trouble(const Error& error);
};

void JobLease::Session::say_waiting(const lease::LockStatus& status) {
  warn_of_clocks(status);
  if (policy.once() || waiting_line.show(status)) return;
  const BootTime now = clock.now();
  if (last_waiting_line != BootTime{} && now - last_waiting_line < k_repeat_waiting_line) return;
  last_waiting_line = now;
  log::info("waiting: " + describe_conflict(status));
}

void JobLease::Session::note_wait(const lease::LockStatus& status) {
  {
    const std::lock_guard lock(mutex);
    if (!wait_began) wait_began = clock.now();
  }
  warn_of_own_script(status);
  if (on_wait) on_wait(status);
}

void JobLease::Session::say_trouble(const Error& error) {
  bool first = false;
  {
    const std::lock_guard lock(mutex);
    first = trouble.empty();
    trouble = error.message;
  }
  log::write(first ? log::Level::warning : log::Level::debug, error.message + "; trying again");
}

void JobLease::Session::acquire() {
  const lease::AcquireObserver observer{
      .on_conflict = [this](const lease::LockStatus& status) { say_waiting(status); },
      .on_wait = [this](const lease::LockStatus& status) { note_wait(status); },
      .on_trouble =
          [this](const Error& error) {
            waiting_line.begin();
            say_trouble(error);
          },
      .wants_place = log::can_show_live,
      .on_send =
          [this] {
            if (fence) fence->arm_release();
          },
      .hopeless = held_by_ancestor,
  };
  {
    const std::lock_guard lock(mutex);
    started = clock.now();
  }
  auto outcome = lease::acquire(*store, clock, request, policy, observer, stop);
  waiting_line.end();
  const std::lock_guard lock(mutex);
  trouble.clear();
  ended = clock.now();
  grant = std::move(outcome);
}

void JobLease::Session::heartbeat(const Lease& lease) {
  const lease::HeartbeatObserver observer{
      .on_renewed =
          [this](BootTime sent_at) {
            fence->set_deadline(timing.expires(sent_at));
            const std::lock_guard lock(mutex);
            proved_until = timing.expires(sent_at);
            trouble.clear();
          },
      .on_lost =
          [this](const NotOurs& refused) {
            if (refused.status) warn_of_clocks(*refused.status);
            {
              const std::lock_guard lock(mutex);
              lost = refused;
            }
            fence->stop_revoked();
          },
      .on_trouble = [this](const Error& error) { say_trouble(error); },
      .on_recovered =
          [](int failures) {
            log::info("the lease is renewed again after " + std::to_string(failures) + " failed tries");
          },
  };
  store->prepare_release();  // while the job starts
  lease::run_heartbeat(*store, clock, lease, timing, observer, stop);
  heartbeat_over.store(true);
}

// Whoever is next in line wakes when the release is done and not before, or it would find the lock held; and
// also when the release failed, since waiting for us would be of no more use.
void JobLease::Session::release(const lease::LeaseRef& ref, lease::Actor actor, lease::RunEnd end,
                                Micros patience) {
  give_back(ref, actor, end, patience);
  if (release_result == ReleaseResult::nested) return;
  if (auto* const turnstile = store->turnstile()) turnstile->leave();
  store->record_ended();
}

// Without an answer the result is unknown, and this ends: nor can the nested run renew the lease then. A
// lease that has run out by the time of the next try, and is free or another's, was not lost while the job
// ran.
void JobLease::Session::release_after_nested(const lease::LeaseRef& ref, lease::RunEnd end, Micros patience) {
  lease::Backoff backoff(k_first_nested_poll, k_last_nested_poll, 1.5, 1);
  while (release_result == ReleaseResult::nested) {
    if (clock.wait_until(clock.now() + backoff.next(), stop)) return;
    {
      const std::lock_guard lock(mutex);
      release_result = ReleaseResult::unknown;
      proved_until = clock.now() + timing.ttl;  // by the nested run's renewals
    }
    release(ref, lease::Actor::holder, end, patience);
    const std::lock_guard lock(mutex);
    if (release_result == ReleaseResult::not_ours) lost.reset();
  }
}

void JobLease::Session::give_back(const lease::LeaseRef& ref, lease::Actor actor, lease::RunEnd end,
                                  Micros patience) {
  lease::Backoff backoff(100ms, 1s, lease::Backoff::k_doubling, 1);
  BootTime give_up = clock.now() + patience;
  {
    const std::lock_guard lock(mutex);
    give_up = std::max(clock.now() + k_least_release_time, std::min(give_up, proved_until));
  }
  std::optional<BootTime> unheard_since;
  for (;;) {
    const BootTime sent_at = clock.now();
    const auto outcome = store->release(ref, actor, end);
    if (outcome) {
      const auto* refused = std::get_if<NotOurs>(&*outcome);
      std::optional<Micros> unheard_for;
      if (unheard_since) unheard_for = std::chrono::ceil<Micros>(clock.now() - *unheard_since);
      const std::lock_guard lock(mutex);
      release_result = refused == nullptr ? ReleaseResult::released
                                          : lease::judge_release(*refused, ref, end, unheard_for);
      if (release_result == ReleaseResult::not_ours) lost = *refused;
      return;
    }
    if (!unheard_since && outcome.error().code == Errc::indeterminate) unheard_since = sent_at;
    {
      const std::lock_guard lock(mutex);
      trouble = outcome.error().message;
    }
    // Counted out twice, a nested run would take another's place with it.
    if (unheard_since && lease::is_nested(ref.owner)) return;
    if (clock.wait_until(std::min(clock.now() + backoff.next(), give_up), stop) || clock.now() >= give_up)
      return;
  }
}

JobLease::JobLease(std::unique_ptr<lease::LeaseStore> store, lease::AcquireRequest request,
                   lease::WaitPolicy policy, lease::Timing timing, std::shared_ptr<process::Fence> fence)
    : session_(new Session{.clock = {},
                           .store = std::move(store),
                           .request = std::move(request),
                           .policy = policy,
                           .timing = timing,
                           .fence = std::move(fence),
                           .on_wait = {},
                           .stop = {},
                           .heartbeat_over = true,
                           .mutex = {},
                           .grant = {},
                           .started = {},
                           .ended = {},
                           .wait_began = {},
                           .lost = {},
                           .trouble = {},
                           .proved_until = {},
                           .release_result = ReleaseResult::unknown,
                           .last_waiting_line = {},
                           .waiting_line = WaitingLine()}) {
  session_->request.waits = !policy.once();
}

void JobLease::on_wait(std::function<void(const lease::LockStatus&)> told) {
  session_->on_wait = std::move(told);
}

void JobLease::start_acquire() {
  worker_.post([session = session_] { session->acquire(); });
}

Result<GrantOutcome> JobLease::grant() const {
  const std::lock_guard lock(session_->mutex);
  return session_->grant ? *session_->grant : fail(Errc::internal, "the acquisition has not ended");
}

std::chrono::milliseconds JobLease::waited() const {
  const std::lock_guard lock(session_->mutex);
  if (!session_->wait_began) return 0ms;
  const BootTime until = session_->grant ? session_->ended : session_->clock.now();
  return std::chrono::duration_cast<std::chrono::milliseconds>(until - *session_->wait_began);
}

Nanos JobLease::grant_took() const {
  const std::lock_guard lock(session_->mutex);
  const auto* const lease =
      session_->grant && *session_->grant ? std::get_if<Lease>(&**session_->grant) : nullptr;
  if (lease == nullptr) return Nanos{0};
  return session_->ended - (session_->wait_began ? lease->sent_at : session_->started);
}

// Lets the worker's task end: by itself, by breaking its connection, or not at all.
bool JobLease::settle(Nanos patience) {
  if (worker_.wait_idle(patience)) return true;
  responsive_ = false;
  session_->store->interrupt();
  if (worker_.wait_idle(k_forced_end)) return true;
  worker_.abandon();
  abandoned_ = true;
  return false;
}

bool JobLease::cancel_acquire() {
  session_->stop.raise();
  session_->waiting_line.end();  // whoever holds the thread up
  if (!settle(k_natural_end)) return false;
  session_->stop.clear();
  const auto outcome = grant();
  if (!outcome) return outcome.error().code != Errc::indeterminate;
  const auto* cancelled = std::get_if<lease::Cancelled>(&*outcome);
  const auto* granted = std::get_if<Lease>(&*outcome);
  if (granted == nullptr && (cancelled == nullptr || !cancelled->undecided)) return true;
  // A nested lease has an owner id that the request does not know.
  const lease::LeaseRef ref = granted != nullptr ? lease::ref_to(*granted) : lease::ref_to(session_->request);
  return release(ref, lease::Actor::stopper, {lease::Outcome::not_run, std::nullopt}, 1s) !=
         ReleaseResult::unknown;
}

lease::LeaseStore& JobLease::store() {
  return *session_->store;
}

void JobLease::start_heartbeat(const Lease& lease) {
  session_->proved_until = session_->timing.expires(lease.sent_at);
  session_->heartbeat_over.store(false);
  worker_.post([session = session_, lease] { session->heartbeat(lease); });
}

bool JobLease::stop_heartbeat(bool at_once) {
  session_->stop.raise();
  if (!settle(at_once ? k_no_patience : k_natural_end)) return false;
  session_->stop.clear();
  return true;
}

std::optional<NotOurs> JobLease::lost() const {
  const std::lock_guard lock(session_->mutex);
  return session_->lost;
}

std::string JobLease::trouble() const {
  const std::lock_guard lock(session_->mutex);
  return session_->trouble;
}

ReleaseResult JobLease::release(const lease::LeaseRef& ref, lease::Actor actor, lease::RunEnd end,
                                Micros patience) {
  if (abandoned_) return ReleaseResult::unknown;
  // Posted at once, not after the heartbeat has reported its end: one thread runs both, one after the other.
  session_->stop.raise();
  worker_.post([session = session_, ref, actor, end, patience] {
    session->stop.clear();  // it was for the heartbeat
    session->release(ref, actor, end, patience);
  });
  if (!worker_.wait_idle(k_natural_end) && !session_->heartbeat_over.load()) {
    responsive_ = false;
    session_->store->interrupt();
  }
  settle(patience);
  return release_result();
}

void JobLease::start_release_after_nested(const lease::LeaseRef& ref, lease::RunEnd end, Micros patience) {
  session_->stop.clear();
  worker_.post(
      [session = session_, ref, end, patience] { session->release_after_nested(ref, end, patience); });
}

ReleaseResult JobLease::release_result() const {
  const std::lock_guard lock(session_->mutex);
  return session_->release_result;
}

}  // namespace dblock::app
