#include "lease/acquire.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "lease/timing.hpp"
#include "lease/waiting.hpp"
#include "lease/wake_up.hpp"

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

// One call of acquire(). Each step does one thing and names the next step; a lease is returned by `proving`
// alone. Every failure of a step goes through failed(), every refusal through refused(): both count the try,
// pause, and go back to `entering`, or end the acquisition.
class Acquisition {
 public:
  Acquisition(LeaseStore& store, Clock& clock, const LeaseRequest& request, const WaitPolicy& policy,
              const AcquireObserver& observer, const WakeEvent& cancel)
      : store_(store),
        clock_(clock),
        request_(request),
        observer_(observer),
        cancel_(cancel),
        wake_up_(store.wake_up()),
        pacing_(clock, policy, std::hash<std::string>{}(request.owner.text)),
        waiting_(store, clock, request_, pacing_),
        may_nest_(request.outer.has_value()) {}

  // A granted request gives its places up later, by LeaseStore::settle().
  Result<AcquireOutcome> run() {
    auto outcome = go_through_steps();
    if (outcome && std::holds_alternative<Lease>(*outcome)) return outcome;
    if (waiting_.has_asked_for_places()) store_.leave_line(request_);
    if (wake_up_ != nullptr) wake_up_->leave();
    return outcome;
  }

 private:
  enum class Step {
    entering,   // connect, nest in an ancestor's lease where there is one
    waiting,    // in the line: look at the lock, and wait until a try may succeed
    trying,     // send the statement that takes the lock
    resolving,  // its reply was lost: read back which owner id the lock has (I5)
    proving,    // the lock is ours: renew once where that was only read, then rely on the lease
  };
  // nullopt: go on with step_.
  using Progress = Result<std::optional<AcquireOutcome>>;

  Result<AcquireOutcome> go_through_steps() {
    for (;;) {
      Progress progress = take_step();
      if (!progress) progress = failed(std::move(progress.error()));
      if (!progress) return std::unexpected(std::move(progress.error()));
      if (*progress) return std::move(**progress);
    }
  }

  Progress take_step() {
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

  Progress enter() {
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
  Result<std::optional<Lease>> nest() {
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
  Progress wait_in_line() {
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
    auto left_to = stand();
    if (!left_to && left_to.error().code == Errc::unreachable && asleep()) return rest(refusal_);
    if (!left_to) return std::unexpected(std::move(left_to.error()));
    if (*left_to) return Held{refusal_, std::move(*left_to)};
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
  Result<std::optional<OwnerId>> stand() {
    DBLOCK_CHECK(waiting_.stand(refusal_, waiting_.looks_often(refusal_) && !asleep()));
    refusal_.position = waiting_.position();
    if (auto other = waiting_.leaves_for()) return other;
    if (request_.line != Line::newest || !refusal_.arrived_at || *refusal_.arrived_at <= *request_.arrival)
      return std::nullopt;
    return OwnerId{refusal_.owner};
  }

  // The lock is held, or others come first: rests until the next look is due.
  Progress wait_for(const LockStatus& row) {
    replace(row);
    if (pacing_.out_of_time()) return Held{row};
    show(row);
    return rest(row);
  }

  Progress rest(const LockStatus& row) {
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

  [[nodiscard]] bool asleep() const { return wake_up_ != nullptr && wake_up_->asleep(); }

  Progress try_lock() {
    // A plain read costs the server no lock and no log write.
    if (refused_before_ && pacing_.has_schedule()) {
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

  // I5: the statement was sent and its reply lost. Nothing may be started or reported until the row has been
  // read back; a row that carries our owner id is our grant.
  Progress resolve(Error lost_reply) {
    if (observer_.on_trouble) observer_.on_trouble(lost_reply);
    lost_reply_ = std::move(lost_reply);
    pacing_.doubt_begins();
    step_ = Step::resolving;
    return std::nullopt;
  }

  Progress read_back() {
    auto seen = store_.look(request_);
    if (!seen && seen.error().code != Errc::unreachable) return std::unexpected(seen.error());
    if (!seen) return ask_again(sent_at_ + request_.terms.ttl, seen.error());
    if (auto* ours = std::get_if<Granted>(&*seen)) {
      ours->lease.sent_at = sent_at_;
      return rely_on(std::move(ours->lease));
    }
    const auto* free = std::get_if<Free>(&*seen);
    if (free != nullptr && !free->status) return std::unexpected(lost_reply_);
    refused_before_ = true;
    if (auto* done = std::get_if<Done>(&*seen)) return std::move(*done);
    if (const auto* held = std::get_if<Held>(&*seen)) return refused(held->status);
    return fail(Errc::indeterminate,
                "the reply to taking " + wanted() + " was lost and the lock was not taken; try again");
  }

  Progress rely_on(Lease lease) {
    lease_ = std::move(lease);
    pacing_.doubt_begins();
    step_ = Step::proving;
    return std::nullopt;
  }

  // A grant becomes a lease to rely on: proved by a renewal where it was found by reading only, and with time
  // left, since this process may have been frozen since it sent the try.
  Progress prove() {
    if (lease_->needs_renewal_proof) {
      const auto renewed = store_.renew(ref_to(*lease_), Actor::holder, std::nullopt);
      if (!renewed) return ask_again(lease_->sent_at + lease_->terms.ttl, renewed.error());
      if (const auto* not_ours = std::get_if<NotOurs>(&*renewed)) return not_ours_after_all(*not_ours);
      lease_->sent_at = std::get<Renewed>(*renewed).sent_at;
      lease_->needs_renewal_proof = false;
    }
    if (clock_.now() < lease_->sent_at + lease_->terms.ttl) return std::move(*lease_);
    return fail(Errc::lost,
                "lock " + quote_untrusted(lease_->key.bytes()) +
                    " was granted, but this process was held up for its whole TTL before it could "
                    "go on; nothing was started");
  }

  Progress not_ours_after_all(const NotOurs& answer) {
    if (answer.status) return refused(*answer.status);
    refused_before_ = true;
    return fail(Errc::unreachable,
                wanted() + " was granted and its row then vanished; is another tool deleting rows?");
  }

  // Whether the lock was granted is not known, and the database does not tell. Repeats the step until
  // `lease_end`, when a lease that was granted after all has expired.
  Progress ask_again(BootTime lease_end, const Error& why) {
    if (clock_.now() >= lease_end) {
      return fail(Errc::unreachable,
                  "cannot find out whether " + wanted() +
                      " was taken: the reply was lost and for a whole TTL the database did not answer (" +
                      why.message +
                      "); nothing was started, and a lease that was granted after all ends by itself",
                  why.native);
    }
    if (clock_.wait_until(clock_.now() + pacing_.in_doubt(), cancel_)) return Cancelled{true};
    return std::nullopt;
  }

  // A try was answered "held by `status.holder`", or that others come first.
  Progress refused(const LockStatus& status) {
    refused_before_ = true;
    refusal_ = status;
    if (hopeless(refusal_)) return last_refusal();
    // A request that replaces the holder waits for its end, whatever the wait limit.
    std::optional<OwnerId> left_to;
    if (request_.replaces) {
      DBLOCK_TRY(left_to, stand());
      if (left_to) return Held{refusal_, std::move(left_to)};
      replace(refusal_);
    }
    if (pacing_.last_try()) return last_refusal();
    if (pacing_.has_schedule()) {
      show(refusal_);
      return pause(pacing_.after_refusal(false));
    }
    if (!request_.replaces) {
      DBLOCK_TRY(left_to, stand());
    }
    if (left_to) return Held{refusal_, std::move(left_to)};
    show(refusal_);
    // The waiters before this request have left the line since the refusal. One of them holds the lock, or it
    // is free.
    if (refusal_.waited_for && waiting_.before() == 0 && !std::exchange(looks_again_, true)) {
      step_ = Step::waiting;
      return std::nullopt;
    }
    return rest(refusal_);
  }

  AcquireOutcome last_refusal() const {
    if (observer_.on_conflict) observer_.on_conflict(refusal_);
    return Held{refusal_};
  }

  void show(const LockStatus& row) const {
    if (observer_.on_conflict) observer_.on_conflict(row);
    if (observer_.on_wait) observer_.on_wait(row);
  }

  // Revokes the lease that refuses us, where both sides have asked for that and its request came before ours.
  // Its end is then waited for, whatever the wait limit; also where another has revoked it, or the reply is
  // lost. Another failure changes nothing: the next look finds the holder again.
  void replace(const LockStatus& holder) {
    if (!request_.replaces || !request_.arrival || !holder.replaceable || holder.state != State::held) return;
    if (holder.pause) return;  // nobody would get the lock
    const auto key = Key::parse(holder.key);
    if (!key) return;
    if (!holder.revoked_at) {
      const auto done = store_.revoke(*key, holder.token, display_holder(request_.holder) + " (--replace)",
                                      request_.arrival);
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
  Progress failed(Error why) {
    bool counts = true;
    if (why.code == Errc::indeterminate) {
      why.code = Errc::unreachable;
      counts = ++lost_replies_ > k_max_lost_replies;
    }
    if (why.code != Errc::unreachable || (counts && pacing_.last_try()))
      return std::unexpected(std::move(why));
    if (observer_.on_trouble) observer_.on_trouble(why);
    return pause(pacing_.after_failure(counts));
  }

  [[nodiscard]] bool hopeless(const LockStatus& holder) const {
    return !request_.of_pool() && observer_.hopeless && observer_.hopeless(holder);
  }

  // Waits before the next round of steps, but never past the wait limit, so that the last try happens at its
  // very end. Who waits for long leaves its connection to others, and need not ask whether they want it: a
  // place in line stays without one.
  Progress pause(Micros length) {
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
  [[nodiscard]] std::string wanted() const {
    return (request_.of_pool() ? "one of the pool of lock " : "lock ") +
           quote_untrusted(request_.key.bytes());
  }

  LeaseStore& store_;
  Clock& clock_;
  LeaseRequest request_;
  const AcquireObserver& observer_;
  const WakeEvent& cancel_;
  WakeUp* const wake_up_;  // null: the store has none
  Pacing pacing_;
  Waiting waiting_;

  Step step_ = Step::entering;
  BootTime sent_at_{};          // when the last try was sent
  Error lost_reply_{};          // for Step::resolving
  std::optional<Lease> lease_;  // for Step::proving
  LockStatus refusal_{};        // the row that was seen last, and refuses the request
  int lost_replies_ = 0;
  bool may_nest_;
  bool refused_before_ = false;
  bool looks_again_ = false;  // after a refusal, without a rest in between
};

}  // namespace

Result<AcquireOutcome> acquire(LeaseStore& store, Clock& clock, const LeaseRequest& request,
                               const WaitPolicy& policy, const AcquireObserver& observer,
                               const WakeEvent& cancel) {
  return Acquisition(store, clock, request, policy, observer, cancel).run();
}

}  // namespace dblock::lease
