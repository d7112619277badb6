#include "lease/session.hpp"

#include <algorithm>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "lease/session_state.hpp"

namespace dblock::lease {
namespace {

using namespace std::chrono_literals;

// A statement under way normally ends by itself within this; after that its connection is broken off.
constexpr Nanos k_natural_end = 300ms;
constexpr Nanos k_no_patience = 20ms;  // for a thread that is merely asleep
// After its connection is broken off, the thread ends at once, unless it is still opening a connection. After
// this time it is abandoned.
constexpr Nanos k_forced_end = 700ms;
constexpr Micros k_cancelled_release_time = 1s;

}  // namespace

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
// task does not end.
bool Session::break_off(Nanos patience) {
  if (worker_.wait_idle(patience)) return true;
  responsive_ = false;
  state_->store->interrupt();
  return worker_.wait_idle(k_forced_end);
}

// The same. The thread of a task that does not end is abandoned.
bool Session::let_end(Nanos patience) {
  if (break_off(patience)) return true;
  worker_.abandon();
  abandoned_ = true;
  return false;
}

bool Session::cancel_acquire() {
  state_->inbox.stop();
  if (state_->events.on_acquire_ended)
    state_->events.on_acquire_ended();  // now, however long the thread takes to end
  if (!let_end(k_natural_end)) return false;
  state_->stop.clear();
  const auto outcome = grant();
  const auto* cancelled = outcome ? std::get_if<Cancelled>(&*outcome) : nullptr;
  const auto* granted = outcome ? std::get_if<Lease>(&*outcome) : nullptr;
  if (granted == nullptr && (cancelled == nullptr || !cancelled->undecided)) return !may_be_granted_later();
  // A nested lease has an owner id of its own, which is not in the request.
  const auto refs = granted != nullptr ? std::vector{ref_to(*granted)} : refs_to(state_->request);
  return std::ranges::all_of(refs, [this](const LeaseRef& ref) {
    const auto result = release(ref, Actor::stopper, {RunOutcome::not_run, std::nullopt},
                                {.patience = k_cancelled_release_time});
    return result == ReleaseResult::released || (result != ReleaseResult::unknown && !may_be_granted_later());
  });
}

// That the row does not show a grant is no proof while the statement may be on its way.
bool Session::may_be_granted_later() const {
  const std::lock_guard lock(state_->mutex);
  return state_->reply_lost_at && state_->clock.now() < *state_->reply_lost_at + k_late_statement;
}

LeaseStore& Session::store() {
  return *state_->store;
}

void Session::start_heartbeat(const Lease& lease) {
  state_->proved_until = state_->timing.expires(lease.sent_at);
  state_->heartbeat_over.store(false);
  worker_.post([state = state_, lease] { state->heartbeat(lease); });
}

void Session::tell_others(const JobNews& news) {
  state_->inbox.tell(news);
}

bool Session::stop_heartbeat(bool at_once) {
  state_->inbox.stop();
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

ReleaseResult Session::release(const LeaseRef& ref, Actor actor, RunEnd end, const SessionRelease& how) {
  if (abandoned_) return ReleaseResult::unknown;
  // Posted at once, not after the heartbeat has reported its end: one thread runs both, one after the other.
  state_->inbox.stop();
  worker_.post([state = state_, ref, actor, end, patience = how.patience, counts = how.counts] {
    state->stop.clear();  // raised to end the heartbeat
    if (counts) state->count_failures();
    state->release(ref, actor, end, patience);
  });
  if (!worker_.wait_idle(k_natural_end) && !state_->heartbeat_over.load()) {
    responsive_ = false;
    state_->store->interrupt();
  }
  Nanos left = how.patience;
  if (how.silence < left && !worker_.wait_idle(how.silence)) {
    how.on_silence();
    left -= how.silence;
  }
  if (how.goes_on) {
    break_off(left);
  } else {
    let_end(left);
  }
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

std::optional<std::uint32_t> Session::failures() const {
  const std::lock_guard lock(state_->mutex);
  return state_->failures;
}

Micros Session::rest_of_hold() const {
  return state_->rest_of_hold();
}

}  // namespace dblock::lease
