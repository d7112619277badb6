#include "lease/session_state.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "lease/backoff.hpp"

namespace dblock::lease {
namespace {

using namespace std::chrono_literals;

constexpr Nanos k_prompt_grant = 100ms;  // less is no wait
constexpr Micros k_least_release_time = 500ms;
constexpr Micros k_first_nested_poll = 250ms;
constexpr Micros k_last_nested_poll = 2s;
constexpr double k_nested_poll_growth = 1.5;

}  // namespace

AcquireObserver Session::State::acquire_observer() {
  AcquireObserver observer = events.acquiring;
  observer.on_wait = [this](const LockStatus& status) {
    {
      const std::lock_guard lock(mutex);
      if (!wait_began) wait_began = clock.now();
    }
    if (events.acquiring.on_wait) events.acquiring.on_wait(status);
  };
  observer.on_trouble = [this](const Error& error) {
    note_lost_reply(error);
    note_trouble(error);
  };
  return observer;
}

void Session::State::note_lost_reply(const Error& error) {
  if (error.code != Errc::indeterminate) return;
  const std::lock_guard lock(mutex);
  reply_lost_at = clock.now();
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
  store->hold(LeaseStore::RenewedBy::this_store);
  run_heartbeat(*store, clock, lease, timing, observer, inbox);
  heartbeat_over.store(true);
}

// The row counts --min-hold from the start of the granting statement, which may have had to wait.
Micros Session::State::rest_of_hold() const {
  const std::lock_guard lock(mutex);
  const auto* const lease = grant && *grant ? std::get_if<Lease>(&**grant) : nullptr;
  if (lease == nullptr || ended - lease->sent_at < k_prompt_grant) return Micros{0};
  return request.promises.hold_left(ended, clock.now());
}

// While the lease is ours nobody else ends a run in its row. Of a nested run no end is recorded, and the row
// has the outer run's owner id.
void Session::State::count_failures() {
  const auto seen = store->look(request);
  const auto* const ours = seen ? std::get_if<Granted>(&*seen) : nullptr;
  if (ours == nullptr || !ours->row) return;
  const std::lock_guard lock(mutex);
  failures = 1 + (ours->row->last ? ours->row->last->failures : 0);
}

// Wakes the next waiter where the statement of the release has not woken it. Before that statement the waiter
// would find the lock held. Wakes it also when the release failed, since nothing more will come that a waiter
// could wait for.
void Session::State::release(const LeaseRef& ref, Actor actor, RunEnd end, Micros patience) {
  try_release(ref, actor, end, patience);
  if (release_result == ReleaseResult::nested) return;
  store->end();
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
  if (end.outcome != RunOutcome::not_run) end.cooldown = std::max(end.cooldown, rest_of_hold());
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

}  // namespace dblock::lease
