#include "lease/acquire.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/text.hpp"
#include "lease/acquisition.hpp"

namespace dblock::lease {
namespace {

using namespace std::chrono_literals;

// A try whose reply was lost, and that took no lock, is repeated even where one try is allowed. After this
// many, each further one counts as a try.
constexpr int k_max_lost_replies = 3;

// A waiter that looks again within this time keeps its connection until then.
constexpr Micros k_short_rest = 1s;

// How much later than its lease and margin a revoked holder may still seem to be there.
constexpr Micros k_replaced_ends_late = 1s;

// One try locks the rows of the locks over several statements.
bool locks_rows(const LeaseRequest& request) {
  return !request.plain() && !request.of_pool();
}

}  // namespace

// A granted request gives its places up later, by LeaseStore::hold().
Result<AcquireOutcome> Acquisition::run() {
  auto outcome = go_through_steps();
  if (outcome && std::holds_alternative<Lease>(*outcome)) return outcome;
  if (waiting_.has_asked_for_places()) store_.leave_line(request_);
  if (wake_up_ != nullptr) wake_up_->leave();
  return outcome;
}

Result<AcquireOutcome> Acquisition::go_through_steps() {
  for (;;) {
    Progress progress = take_step();
    if (!progress) progress = failed(std::move(progress.error()));
    if (!progress) return std::unexpected(std::move(progress.error()));
    if (*progress) return std::move(**progress);
  }
}

Acquisition::Progress Acquisition::take_step() {
  switch (step_) {
    case Step::entering:
      return enter();
    case Step::waiting:
      return wait_in_line();
    case Step::trying:
      return try_lock();
    case Step::resolving:
      return read_back();
    case Step::proving:
      break;
  }
  return prove();
}

Acquisition::Progress Acquisition::enter() {
  if (cancel_.raised()) return Cancelled{};
  if (wake_up_ != nullptr) wake_up_->announce(request_.owner);
  DBLOCK_CHECK(store_.connect());
  DBLOCK_TRY(auto nested, nest());
  if (nested) return rely_on(std::move(*nested));
  step_ = request_.arrival ? Step::waiting : Step::trying;
  return std::nullopt;
}

// Nesting is not asked for again once the store has answered: an ancestor that does not hold the lock now
// will not hold it later. After a lost reply the nested run may be counted twice. The outer run's release
// then waits for the end of its lease: longer than needed is safe, shorter would not be.
Result<std::optional<Lease>> Acquisition::nest() {
  if (!may_nest_) return std::nullopt;
  // --once-per applies to a nested run as well.
  if (request_.promises.once_per) {
    DBLOCK_TRY(const auto seen, store_.look(request_));
    may_nest_ = !std::holds_alternative<Done>(seen);
    if (!may_nest_) return std::nullopt;
  }
  auto nested = store_.nest(request_);
  if (!nested && nested.error().code == Errc::indeterminate) nested.error().code = Errc::unreachable;
  may_nest_ = !nested || nested->has_value();
  return nested;
}

// Looks at the lock and the line, then rests until the next look is due. At the very end of the wait a free
// lock is tried whoever stands before: the answer "held" would not be true.
Acquisition::Progress Acquisition::wait_in_line() {
  auto seen = waiting_.look();
  // The server has no room for the look: the sleep under way goes on.
  if (!seen && seen.error().code == Errc::unreachable && asleep() && !pacing_.out_of_time())
    return rest(refusal_);
  if (!seen) return std::unexpected(std::move(seen.error()));
  if (auto* done = std::get_if<Done>(&*seen)) return std::move(*done);
  auto* const held = std::get_if<Held>(&*seen);
  if (held != nullptr) refusal_ = std::move(held->status);
  if (held != nullptr && hopeless(refusal_)) return Held{refusal_};
  if (auto* free = std::get_if<Free>(&*seen); free != nullptr && free->status)
    refusal_ = std::move(*free->status);
  auto left_line_to = stand();
  if (!left_line_to && left_line_to.error().code == Errc::unreachable && asleep()) return rest(refusal_);
  if (!left_line_to) return std::unexpected(std::move(left_line_to.error()));
  if (*left_line_to) return Held{refusal_, std::move(*left_line_to)};
  if (held != nullptr) return wait_for(refusal_);
  if (waiting_.before() == 0 || waiting_.may_pass(refusal_) || pacing_.out_of_time() ||
      std::holds_alternative<Granted>(*seen)) {
    step_ = Step::trying;
    return std::nullopt;
  }
  refusal_.waited_for = true;
  show(refusal_);
  return rest(refusal_);
}

// Renews the places, reads the line, and shows both. RETURNS: the request for which this one leaves the
// line.
Result<std::optional<OwnerId>> Acquisition::stand() {
  DBLOCK_CHECK(waiting_.stand(refusal_, waiting_.looks_often(refusal_) && !asleep()));
  refusal_.position = waiting_.position();
  if (auto other = waiting_.leaves_for()) return other;
  if (request_.line != Line::newest || !refusal_.arrived_at || *refusal_.arrived_at <= *request_.arrival)
    return std::nullopt;
  return OwnerId{refusal_.owner};
}

// The lock is held, or others come first: rests until the next look is due.
Acquisition::Progress Acquisition::wait_for(const LockStatus& row) {
  replace(row);
  if (pacing_.out_of_time()) return Held{row};
  show(row);
  return rest(row);
}

Acquisition::Progress Acquisition::rest(const LockStatus& row) {
  looks_again_ = false;
  if (!asleep() && !waiting_.looks_often(row) && waiting_.is_short_lived())
    DBLOCK_CHECK(waiting_.stand(row, false));
  if (asleep() || waiting_.may_sleep(row)) {
    const OwnerId ahead = waiting_.ahead(row);
    const BootTime until = pacing_.within_limit(waiting_.until_look(row));
    const Slept how = wake_up_->sleep_behind(ahead, waiting_.rank(), until, cancel_);
    switch (how) {
      case Slept::cancelled:
        return Cancelled{};
      case Slept::not_yet:
        step_ = Step::waiting;
        return std::nullopt;
      case Slept::to_its_end:
        waiting_.slept_behind(ahead, how);
        step_ = waiting_.is_next_behind(ahead) ? Step::trying : Step::waiting;
        return std::nullopt;
      case Slept::no_seat:
      case Slept::not_at_all:
        waiting_.slept_behind(ahead, how);
        break;
    }
  }
  return pause(waiting_.until_poll(row));
}

Acquisition::Progress Acquisition::try_lock() {
  // A plain read costs the server no lock and no log write. Many tries at once that lock rows keep the
  // holder's renewal out, in a thread pool for seconds. With a schedule the first try is sent all the same: a
  // look calls a lock held while the database takes no writes, and nothing but looks would follow.
  const bool may_look_first = locks_rows(request_) && !pacing_.has_schedule() && !pacing_.out_of_time();
  if (refused_before_ ? pacing_.has_schedule() : may_look_first) {
    DBLOCK_TRY(auto seen, store_.look(request_));
    if (auto* done = std::get_if<Done>(&seen)) return std::move(*done);
    if (const auto* held = std::get_if<Held>(&seen)) return refused(held->status);
  }
  if (observer_.on_send) observer_.on_send();
  sent_at_ = clock_.now();
  auto answer = store_.try_acquire(request_);
  if (!answer && answer.error().code == Errc::indeterminate) return resolve(std::move(answer.error()));
  if (!answer) return std::unexpected(std::move(answer.error()));
  if (const auto* held = std::get_if<Held>(&*answer)) return refused(held->status);
  if (auto* done = std::get_if<Done>(&*answer)) return std::move(*done);
  return rely_on(std::get<Granted>(std::move(*answer)).lease);
}

// A try was answered "held by `status.holder`", or that others come first.
Acquisition::Progress Acquisition::refused(const LockStatus& status) {
  refused_before_ = true;
  refusal_ = status;
  if (hopeless(refusal_)) return last_refusal();
  // A request that replaces the holder waits for its end, whatever the wait limit.
  std::optional<OwnerId> left_line_to;
  if (request_.replaces) {
    DBLOCK_TRY(left_line_to, stand());
    if (left_line_to) return Held{refusal_, std::move(left_line_to)};
    replace(refusal_);
  }
  if (pacing_.last_try()) return last_refusal();
  if (pacing_.has_schedule()) {
    show(refusal_);
    return pause(pacing_.after_refusal(false));
  }
  if (!request_.replaces) {
    DBLOCK_TRY(left_line_to, stand());
  }
  if (left_line_to) return Held{refusal_, std::move(left_line_to)};
  show(refusal_);
  // The waiters before this request have left the line since the refusal. One of them holds the lock, or it
  // is free.
  if (refusal_.waited_for && waiting_.before() == 0 && !std::exchange(looks_again_, true)) {
    step_ = Step::waiting;
    return std::nullopt;
  }
  return rest(refusal_);
}

AcquireOutcome Acquisition::last_refusal() const {
  if (observer_.on_conflict) observer_.on_conflict(refusal_);
  return Held{refusal_};
}

void Acquisition::show(const LockStatus& row) const {
  if (observer_.on_conflict) observer_.on_conflict(row);
  if (observer_.on_wait) observer_.on_wait(row);
}

// Revokes the lease that refuses us, where both sides have asked for that and its request came before ours.
// Its end is then waited for, whatever the wait limit; also where another has revoked it, or the reply is
// lost. Another failure changes nothing: the next look finds the holder again.
void Acquisition::replace(const LockStatus& holder) {
  if (!request_.replaces || !request_.arrival || !holder.replaceable || holder.state != State::held) return;
  if (holder.pause) return;  // nobody would get the lock
  const auto key = Key::parse(holder.key);
  if (!key) return;
  if (!holder.revoked_at) {
    const auto done =
        store_.revoke(*key, holder.token, display_holder(request_.holder) + " (--replace)", request_.arrival);
    const bool revoked =
        done ? std::holds_alternative<Revoked>(*done) : done.error().code == Errc::indeterminate;
    if (!revoked) return;
  }
  const Micros rest = holder.grantable_at().since_epoch - holder.server_time.since_epoch;
  pacing_.extend_limit(rest + k_replaced_ends_late);
}

// A step failed. Errc::indeterminate: the reply was lost, and reading back showed that nothing was done.
// Should the lost statement still run later, it finds our own newer grant, which its predicate refuses, or
// grants a lease that lapses after its TTL: liveness suffers, safety does not.
Acquisition::Progress Acquisition::failed(Error why) {
  bool counts = true;
  if (why.code == Errc::indeterminate) {
    why.code = Errc::unreachable;
    counts = ++lost_replies_ > k_max_lost_replies;
  }
  const bool may_pass = why.code == Errc::unreachable || why.may_pass;
  if (!may_pass || (counts && pacing_.last_try())) return std::unexpected(std::move(why));
  if (observer_.on_trouble) observer_.on_trouble(why);
  return pause(pacing_.after_failure(counts));
}

bool Acquisition::hopeless(const LockStatus& holder) const {
  return !request_.of_pool() && observer_.hopeless && observer_.hopeless(holder);
}

// Waits before the next round of steps, but never past the wait limit, so that the last try happens at its
// very end. Who waits for long leaves its connection to others, and need not ask whether they want it: a
// place in line stays without one.
Acquisition::Progress Acquisition::pause(Micros length) {
  step_ = Step::entering;
  if (wake_up_ != nullptr && (length > k_short_rest || wake_up_->crowded())) {
    wake_up_->leave();
    store_.disconnect();
  } else if (wake_up_ != nullptr && request_.arrival) {
    wake_up_->stay_awake();
  }
  if (clock_.wait_until(pacing_.within_limit(length), cancel_)) return Cancelled{};
  return std::nullopt;
}

// The lock, for messages.
std::string Acquisition::wanted() const {
  return (request_.of_pool() ? "one of the pool of lock " : "lock ") + quote_untrusted(request_.key.bytes());
}

Result<AcquireOutcome> acquire(LeaseStore& store, Clock& clock, const LeaseRequest& request,
                               const WaitPolicy& policy, const AcquireObserver& observer,
                               const WakeEvent& cancel) {
  return Acquisition(store, clock, request, policy, observer, cancel).run();
}

}  // namespace dblock::lease
