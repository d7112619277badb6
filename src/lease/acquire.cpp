#include "lease/acquire.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "lease/next_grant.hpp"
#include "lease/timing.hpp"
#include "lease/turnstile.hpp"

namespace dblock::lease {
namespace {

using namespace std::chrono_literals;

// The turnstile wakes its waiters; they look at the lock only to find out whether the turnstile works. After
// a look that found the lock free the next one comes soon, but not before the server has dropped a frozen
// process from the head of the turnstile (two seconds).
constexpr Micros k_look_again = 3s;
// A waiting writer's try keeps new readers away for two seconds (k_intent). After this it tries again, in
// time.
constexpr Micros k_keep_away = 900ms;
// A try whose reply was lost, and that took no lock, is repeated even where one try is allowed. After this
// many, each further one counts as a try.
constexpr int k_max_lost_replies = 3;

// A request that may replace holders looks this often, whoever is ahead of it.
constexpr Micros k_look_for_replaceable = 1s;

// How much later than its lease and margin a revoked holder may still seem to be there.
constexpr Micros k_replaced_ends_late = 1s;

// A request with a line of its own has its turn by the promise of the next grant.
Turnstile* turnstile_for(LeaseStore& store, const LeaseRequest& request, const WaitPolicy& policy) {
  return policy.retry || request.line != Line::fifo ? nullptr : store.turnstile();
}

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
        position_(turnstile_for(store, request, policy), policy.limit != Micros{0}),
        next_grant_(store, clock, request),
        look_schedule_(position_.look_schedule()),
        pacing_(clock, policy, std::hash<std::string>{}(request.owner.text)),
        may_nest_(request.outer.has_value()) {
    if (request.replaces) look_schedule_.interval = std::min(look_schedule_.interval, k_look_for_replaceable);
    if (request.plain()) turnstile_key_ = request.key;
    // Waiting runs of one pool stand in one line.
    if (request.of_pool() && policy.limit != Micros{0})
      turnstile_key_ = Key::of_pool(keys_of(request.key, request.any));
  }

  Result<AcquireOutcome> run() {
    auto outcome = go_through_steps();
    // Only the exclusive holder of one key wakes the next waiter, so only it keeps its position at the
    // turnstile.
    const bool granted = outcome && std::holds_alternative<Lease>(*outcome);
    if (granted && request_.plain()) position_.keep();
    if (!granted || request_.of_pool()) store_.withdraw_intent(request_);
    return outcome;
  }

 private:
  enum class Step {
    entering,   // connect, nest in an ancestor's lease where there is one, enter the turnstile
    waiting,    // another process is ahead at the turnstile: look now and then until our turn comes
    trying,     // our turn: send the statement that takes the lock
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
        return enter_turnstile();
      case Step::waiting:
        return wait_for_turn();
      case Step::trying:
        return try_lock();
      case Step::resolving:
        return read_back();
      case Step::proving:
        break;
    }
    return prove();
  }

  // When our connection has broken in our turn, the server, or a proxy before it, may take that connection
  // for alive for a while. The broken connection then still owns the turnstile. So the next try does not wait
  // for its turn.
  Progress enter_turnstile() {
    if (cancel_.raised()) return Cancelled{};
    if (turnstile_key_) position_.approach(*turnstile_key_, request_.holder);
    DBLOCK_CHECK(store_.connect());
    DBLOCK_TRY(auto nested, nest());
    if (nested) return rely_on(std::move(*nested));
    if (turnstile_key_) position_.take(*turnstile_key_);
    const bool had_turn = std::exchange(broke_in_turn_, false);
    step_ = position_.behind() && !had_turn ? Step::waiting : Step::trying;
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

  // Looks at the lock once, then waits at the turnstile until the next look is due. At the very end of
  // the wait a free lock is tried out of turn: the answer "held" would not be true.
  Progress wait_for_turn() {
    const bool with_position = observer_.wants_position && observer_.wants_position();
    DBLOCK_TRY(const auto seen, with_position ? store_.look_with_position(request_) : store_.look(request_));
    // Even in our turn the answer would be Done.
    if (const auto* done = std::get_if<Done>(&seen)) return *done;
    const auto* held = std::get_if<Held>(&seen);
    if (held != nullptr && (pacing_.out_of_time() || hopeless(held->status))) return refused(held->status);
    if (held != nullptr) replace(held->status);
    if (!pacing_.out_of_time()) {
      const Micros stay = note(seen);
      if (position_.behind() && position_.await(pacing_.within_limit(stay), cancel_)) return Cancelled{};
      if (position_.behind()) return std::nullopt;
    }
    step_ = Step::trying;
    return std::nullopt;
  }

  // Notes what a look from the turnstile has seen. RETURNS: how long the next look can wait.
  Micros note(const Answer& seen) {
    const Micros stay = pacing_.until_look(look_schedule_.interval);
    if (const auto* held = std::get_if<Held>(&seen)) {
      position_.saw_held();
      if (observer_.on_conflict) observer_.on_conflict(held->status);
      if (observer_.on_wait) observer_.on_wait(held->status);
      return look_schedule_.at_expiry ? not_past_expiry(stay, held->status) : stay;
    }
    const auto* free = std::get_if<Free>(&seen);
    const auto& row = free != nullptr ? free->status : std::get<Granted>(seen).row;
    position_.saw_free(row ? std::optional(row->token) : std::nullopt);
    return std::min(stay, k_look_again);
  }

  Progress try_lock() {
    if (looks_first()) {
      DBLOCK_TRY(auto seen, store_.look(request_));
      if (auto* done = std::get_if<Done>(&seen)) return std::move(*done);
      if (const auto* held = std::get_if<Held>(&seen)) return refused(held->status);
      const auto* free = std::get_if<Free>(&seen);
      if (free != nullptr && free->status && next_grant_.overtaken(*free->status))
        return Held{*free->status, newer_request(*free->status)};
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

  // After a refusal, look before trying: a plain read costs the server no lock and no log write. But only a
  // try renews the writer's intent, which keeps new readers away.
  [[nodiscard]] bool looks_first() const {
    const bool keep_away = held_by_readers_ && clock_.now() >= sent_at_ + k_keep_away;
    return refused_before_ && !keep_away;
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

  // A try was answered "held by `status.holder`".
  Progress refused(const LockStatus& status) {
    refused_before_ = true;
    if (observer_.on_conflict) observer_.on_conflict(status);
    if (next_grant_.overtaken(status)) return Held{status, newer_request(status)};
    if (!hopeless(status)) replace(status);
    if (pacing_.last_try() || hopeless(status)) return Held{status};
    if (!pacing_.has_schedule()) next_grant_.claim_member(status);
    auto other = next_grant_.stand_in_line();
    if (other) return Held{status, std::move(other)};
    held_by_readers_ = status.is_reader();
    move_to_turnstile_of(status);
    if (observer_.on_wait) observer_.on_wait(status);
    const Micros step = pacing_.after_refusal(polls_often(status));
    return pause(pacing_.has_schedule() ? step : not_past_expiry(step, status));
  }

  // Revokes the lease that refuses us, where both sides have asked for that. Its end is then waited for,
  // whatever the wait limit. A failure changes nothing: the next look finds the holder again.
  void replace(const LockStatus& holder) {
    if (!request_.replaces || !holder.replaceable || holder.revoked_at || holder.state != State::held) return;
    if (holder.pause) return;  // nobody would get the lock
    const auto key = Key::parse(holder.key);
    if (!key) return;
    const auto done = store_.revoke(*key, holder.token, display_holder(request_.holder) + " (--replace)");
    if (!done || !std::holds_alternative<Revoked>(*done)) return;
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
    broke_in_turn_ = broke_in_turn_ || step_ >= Step::trying;
    if (why.code != Errc::unreachable || (counts && pacing_.last_try()))
      return std::unexpected(std::move(why));
    if (observer_.on_trouble) observer_.on_trouble(why);
    return pause(pacing_.after_failure(counts));
  }

  [[nodiscard]] bool hopeless(const LockStatus& holder) const {
    return !request_.of_pool() && observer_.hopeless && observer_.hopeless(holder);
  }

  // Waits before the next round of steps, but never past the wait limit, so that the last try happens at its
  // very end.
  Progress pause(Micros length) {
    step_ = Step::entering;
    position_.wait_in_front();
    if (position_.crowded()) store_.disconnect();
    if (clock_.wait_until(pacing_.within_limit(length), cancel_)) return Cancelled{};
    return std::nullopt;
  }

  // The lock, for messages.
  [[nodiscard]] std::string wanted() const {
    return (request_.of_pool() ? "one of the pool of lock " : "lock ") +
           quote_untrusted(request_.key.bytes());
  }

  // A request for several keys, to share or for a slot holds nothing while it waits: it waits at the
  // turnstile of the key that refused it. It tries before it enters any, since most such requests need not
  // wait.
  void move_to_turnstile_of(const LockStatus& status) {
    if (request_.plain() || request_.of_pool() || (turnstile_key_ && turnstile_key_->bytes() == status.key))
      return;
    const auto key = Key::parse(status.key);
    if (!key) return;
    position_.give_up();
    turnstile_key_ = *key;
  }

  // The end of a cooldown or a pause is known, so frequent polls gain nothing.
  [[nodiscard]] bool polls_often(const LockStatus& status) const {
    const bool known = status.state == State::cooldown || status.only_paused();
    return (position_.leads() || !request_.plain() || request_.line != Line::fifo) && !known;
  }

  // A lease that nobody renews becomes free at a known time: look then, not a poll interval later.
  static Micros not_past_expiry(Micros step, const LockStatus& status) {
    ServerTime end = status.grantable_at();
    if (status.pause) end = std::max(end, status.pause->until);
    const Micros left = end.since_epoch - status.server_time.since_epoch;
    return left > Micros{0} ? std::min(step, left) : step;
  }

  LeaseStore& store_;
  Clock& clock_;
  const LeaseRequest& request_;
  const AcquireObserver& observer_;
  const WakeEvent& cancel_;
  TurnstilePosition position_;
  NextGrant next_grant_;
  LookSchedule look_schedule_;
  Pacing pacing_;

  Step step_ = Step::entering;
  BootTime sent_at_{};                // when the last try was sent
  Error lost_reply_{};                // for Step::resolving
  std::optional<Lease> lease_;        // for Step::proving
  std::optional<Key> turnstile_key_;  // the key at whose turnstile we wait
  int lost_replies_ = 0;
  bool may_nest_;
  bool refused_before_ = false;
  bool held_by_readers_ = false;  // at the last refusal
  bool broke_in_turn_ = false;    // the connection broke in our turn
};

}  // namespace

Result<AcquireOutcome> acquire(LeaseStore& store, Clock& clock, const LeaseRequest& request,
                               const WaitPolicy& policy, const AcquireObserver& observer,
                               const WakeEvent& cancel) {
  return Acquisition(store, clock, request, policy, observer, cancel).run();
}

}  // namespace dblock::lease
