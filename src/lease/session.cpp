#include "lease/session.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <variant>

#include "lease/backoff.hpp"
#include "lease/heartbeat.hpp"
#include "lease/timing.hpp"

namespace dblock::lease {
namespace {

using namespace std::chrono_literals;

// A statement under way normally ends by itself within this; after that its connection is broken off.
constexpr Nanos k_natural_end = 300ms;
constexpr Nanos k_no_patience = 20ms;  // for a thread that is merely asleep
// After its connection is broken off, the thread ends at once, unless it is still opening a connection. After
// this time it is abandoned.
constexpr Nanos k_forced_end = 700ms;
constexpr Nanos k_prompt_grant = 100ms;  // less is no wait
constexpr Micros k_least_release_time = 500ms;
constexpr Micros k_cancelled_release_time = 1s;
constexpr Micros k_first_nested_poll = 250ms;
constexpr Micros k_last_nested_poll = 2s;
constexpr double k_nested_poll_growth = 1.5;

}  // namespace

// Shared with the worker's tasks, which may outlive the Session when the thread had to be abandoned.
struct Session::State {
  // Not changed after construction; the store is the worker's.
  std::unique_ptr<LeaseStore> store;
  Clock& clock;
  LeaseRequest request;
  WaitPolicy policy;
  Timing timing;
  SessionEvents events;
  WakeEvent stop{};
  std::atomic<bool> heartbeat_over = true;

  mutable std::mutex mutex{};  // guards what follows
  std::optional<Result<AcquireOutcome>> grant{};
  BootTime started{};
  BootTime ended{};
  std::optional<BootTime> wait_began{};
  std::optional<NotOurs> lost{};
  std::string trouble{};
  BootTime proved_until{};
  ReleaseResult release_result = ReleaseResult::unknown;

  // Tasks of the worker.
  void acquire();
  void heartbeat(const Lease& lease);
  void release(const LeaseRef& ref, Actor actor, RunEnd end, Micros patience);
  void release_after_nested(const LeaseRef& ref, RunEnd end, Micros patience);

  [[nodiscard]] AcquireObserver acquire_observer();
  [[nodiscard]] Micros rest_of_hold() const;
  void note_trouble(const Error& error);
  void try_release(const LeaseRef& ref, Actor actor, RunEnd end, Micros patience);
};

AcquireObserver Session::State::acquire_observer() {
  AcquireObserver observer = events.acquiring;
  observer.on_wait = [this](const LockStatus& status) {
    {
      const std::lock_guard lock(mutex);
      if (!wait_began) wait_began = clock.now();
    }
    if (events.acquiring.on_wait) events.acquiring.on_wait(status);
  };
  observer.on_trouble = [this](const Error& error) { note_trouble(error); };
  return observer;
}

void Session::State::acquire() {
  {
    const std::lock_guard lock(mutex);
    started = clock.now();
  }
  auto outcome = lease::acquire(*store, clock, request, policy, acquire_observer(), stop);
  if (events.on_acquire_ended) events.on_acquire_ended();
  const std::lock_guard lock(mutex);
  trouble.clear();
  ended = clock.now();
  grant = std::move(outcome);
}

void Session::State::note_trouble(const Error& error) {
  bool first = false;
  {
    const std::lock_guard lock(mutex);
    first = trouble.empty();
    trouble = error.message;
  }
  if (events.on_trouble) events.on_trouble(error, first);
}

void Session::State::heartbeat(const Lease& lease) {
  const HeartbeatObserver observer{
      .on_renewed =
          [this](BootTime sent_at) {
            if (events.on_renewed) events.on_renewed(timing.expires(sent_at));
            const std::lock_guard lock(mutex);
            proved_until = timing.expires(sent_at);
            trouble.clear();
          },
      .on_lost =
          [this](const NotOurs& why) {
            {
              const std::lock_guard lock(mutex);
              lost = why;
            }
            if (events.on_lost) events.on_lost(why);
          },
      .on_trouble = [this](const Error& error) { note_trouble(error); },
      .on_recovered = events.on_recovered,
  };
  store->settle();
  store->expect_release();
  run_heartbeat(*store, clock, lease, timing, observer, stop);
  heartbeat_over.store(true);
}

// The row counts --min-hold from the start of the granting statement, which may have had to wait.
Micros Session::State::rest_of_hold() const {
  const std::lock_guard lock(mutex);
  const auto* const lease = grant && *grant ? std::get_if<Lease>(&**grant) : nullptr;
  if (lease == nullptr || ended - lease->sent_at < k_prompt_grant) return Micros{0};
  return request.promises.hold_left(ended, clock.now());
}

// Wakes the next waiter where the statement of the release has not woken it. Before that statement the waiter
// would find the lock held. Wakes it also when the release failed, since nothing more will come that a waiter
// could wait for.
void Session::State::release(const LeaseRef& ref, Actor actor, RunEnd end, Micros patience) {
  try_release(ref, actor, end, patience);
  if (release_result == ReleaseResult::nested) return;
  if (auto* const wake_up = store->wake_up()) wake_up->leave();
  store->record_ended();
}

// Ends with the result `unknown` where the database does not answer: the nested run cannot renew the lease
// then either. Where a later try finds the lease expired, and the lock free or another holder's, the lease
// was not lost while the job ran: `lost` stays unset.
void Session::State::release_after_nested(const LeaseRef& ref, RunEnd end, Micros patience) {
  Backoff backoff(k_first_nested_poll, k_last_nested_poll, k_nested_poll_growth, 1);
  while (release_result == ReleaseResult::nested) {
    if (clock.wait_until(clock.now() + backoff.next(), stop)) return;
    {
      const std::lock_guard lock(mutex);
      release_result = ReleaseResult::unknown;
      proved_until = clock.now() + timing.ttl;  // the nested run renews the lease
    }
    release(ref, Actor::holder, end, patience);
    const std::lock_guard lock(mutex);
    if (release_result == ReleaseResult::not_ours) lost.reset();
  }
}

void Session::State::try_release(const LeaseRef& ref, Actor actor, RunEnd end, Micros patience) {
  if (end.outcome != RunOutcome::not_run) end.keep = std::max(end.keep, rest_of_hold());
  ReleaseOptions how{.actor = actor, .end = end, .on_trouble = [this](const Error& error) {
                       const std::lock_guard lock(mutex);
                       trouble = error.message;
                     }};
  {
    const std::lock_guard lock(mutex);
    const BootTime now = clock.now();
    how.give_up = std::max(now + k_least_release_time, std::min(now + patience, proved_until));
  }
  auto tried = lease::release_with_retries(*store, clock, ref, how, stop);
  const std::lock_guard lock(mutex);
  release_result = tried.result;
  if (release_result == ReleaseResult::not_ours) lost = std::move(tried.refused);
}

Session::Session(std::unique_ptr<LeaseStore> store, Clock& clock, LeaseRequest request, WaitPolicy policy,
                 Timing timing, SessionEvents events)
    : state_(new State{.store = std::move(store),
                       .clock = clock,
                       .request = std::move(request),
                       .policy = policy,
                       .timing = timing,
                       .events = std::move(events)}) {}

void Session::start_acquire() {
  worker_.post([state = state_] { state->acquire(); });
}

Result<AcquireOutcome> Session::grant() const {
  const std::lock_guard lock(state_->mutex);
  return state_->grant.value();
}

std::chrono::milliseconds Session::waited() const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->wait_began) return 0ms;
  const BootTime until = state_->grant ? state_->ended : state_->clock.now();
  return std::chrono::duration_cast<std::chrono::milliseconds>(until - *state_->wait_began);
}

Nanos Session::grant_took() const {
  const std::lock_guard lock(state_->mutex);
  const auto* const lease = state_->grant && *state_->grant ? std::get_if<Lease>(&**state_->grant) : nullptr;
  if (lease == nullptr) return Nanos{0};
  return state_->ended - (state_->wait_began ? lease->sent_at : state_->started);
}

// Waits until the worker's task has ended: for `patience`, then with its connection broken off. False: the
// task does not end, and its thread is abandoned.
bool Session::let_end(Nanos patience) {
  if (worker_.wait_idle(patience)) return true;
  responsive_ = false;
  state_->store->interrupt();
  if (worker_.wait_idle(k_forced_end)) return true;
  worker_.abandon();
  abandoned_ = true;
  return false;
}

bool Session::cancel_acquire() {
  state_->stop.raise();
  if (state_->events.on_acquire_ended)
    state_->events.on_acquire_ended();  // now, however long the thread takes to end
  if (!let_end(k_natural_end)) return false;
  state_->stop.clear();
  const auto outcome = grant();
  if (!outcome) return outcome.error().code != Errc::indeterminate;
  const auto* cancelled = std::get_if<Cancelled>(&*outcome);
  const auto* granted = std::get_if<Lease>(&*outcome);
  if (granted == nullptr && (cancelled == nullptr || !cancelled->undecided)) return true;
  // A nested lease has an owner id of its own, which is not in the request.
  const auto refs = granted != nullptr ? std::vector{ref_to(*granted)} : refs_to(state_->request);
  return std::ranges::all_of(refs, [this](const LeaseRef& ref) {
    return release(ref, Actor::stopper, {RunOutcome::not_run, std::nullopt}, k_cancelled_release_time) !=
           ReleaseResult::unknown;
  });
}

LeaseStore& Session::store() {
  return *state_->store;
}

void Session::start_heartbeat(const Lease& lease) {
  state_->proved_until = state_->timing.expires(lease.sent_at);
  state_->heartbeat_over.store(false);
  worker_.post([state = state_, lease] { state->heartbeat(lease); });
}

bool Session::stop_heartbeat(bool at_once) {
  state_->stop.raise();
  if (!let_end(at_once ? k_no_patience : k_natural_end)) return false;
  state_->stop.clear();
  return true;
}

std::optional<NotOurs> Session::lost() const {
  const std::lock_guard lock(state_->mutex);
  return state_->lost;
}

std::string Session::trouble() const {
  const std::lock_guard lock(state_->mutex);
  return state_->trouble;
}

ReleaseResult Session::release(const LeaseRef& ref, Actor actor, RunEnd end, Micros patience) {
  if (abandoned_) return ReleaseResult::unknown;
  // Posted at once, not after the heartbeat has reported its end: one thread runs both, one after the other.
  state_->stop.raise();
  worker_.post([state = state_, ref, actor, end, patience] {
    state->stop.clear();  // raised to end the heartbeat
    state->release(ref, actor, end, patience);
  });
  if (!worker_.wait_idle(k_natural_end) && !state_->heartbeat_over.load()) {
    responsive_ = false;
    state_->store->interrupt();
  }
  let_end(patience);
  return release_result();
}

void Session::start_release_after_nested(const LeaseRef& ref, RunEnd end, Micros patience) {
  state_->stop.clear();
  worker_.post([state = state_, ref, end, patience] { state->release_after_nested(ref, end, patience); });
}

void Session::start_release_again(const LeaseRef& ref, Actor actor, RunEnd end) {
  state_->stop.clear();
  worker_.post([state = state_, ref, actor, end] { state->release(ref, actor, end, state->timing.ttl); });
}

ReleaseResult Session::release_result() const {
  const std::lock_guard lock(state_->mutex);
  return state_->release_result;
}

Micros Session::rest_of_hold() const {
  return state_->rest_of_hold();
}

}  // namespace dblock::lease
