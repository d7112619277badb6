#include "lease/acquire.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "lease/backoff.hpp"
#include "lease/place.hpp"

namespace dblock::lease {
namespace {

using namespace std::chrono_literals;

// Polling a held lock: soon at first, since most holders of a contended lock are short, then at most a second
// apart (DESIGN section 4).
constexpr Micros k_first_poll = 50ms;
constexpr Micros k_last_poll = 1s;
constexpr double k_poll_growth = 1.5;
// In line we are woken, and looks only find out whether the line can be believed. A lock that was found free
// is looked at again soon, but not before a frozen head (two seconds) has been dropped from the line.
constexpr Micros k_look_again = 3s;
// First in line, but the holder's end will not wake us: it never stood in the line, or has fallen out of it.
// Backoff makes it five to ten times a second.
constexpr Micros k_lead_poll = 200ms;
constexpr double k_no_growth = 1.0;
// Readers are kept away by a mark that lasts two seconds.
constexpr Micros k_keep_away = 900ms;
// A database that does not answer is asked less eagerly.
constexpr Micros k_first_pause = 100ms;
constexpr Micros k_longest_pause = 2s;
// A try whose statement got lost on its way was no try: it is repeated even where one try is allowed.
constexpr int k_max_lost_replies = 3;

Turnstile* line_of(LeaseStore& store, const WaitPolicy& policy) {
  return policy.retry ? nullptr : store.turnstile();
}

std::uint64_t seed_from(const OwnerId& owner) {
  return std::hash<std::string>{}(owner.text);
}

class Acquisition {
 public:
  Acquisition(LeaseStore& store, Clock& clock, const AcquireRequest& request, const WaitPolicy& policy,
              const AcquireObserver& observer, const WakeEvent& cancel)
      : store_(store),
        clock_(clock),
        request_(request),
        observer_(observer),
        cancel_(cancel),
        place_(line_of(store, policy), policy.limit != Micros{0}),
        schedule_(policy.retry),
        poll_(k_first_poll, k_last_poll, k_poll_growth, seed_from(request.owner)),
        lead_poll_(k_lead_poll, k_lead_poll, k_no_growth, seed_from(request.owner)),
        looks_(place_.looks()),
        look_(looks_.interval, looks_.interval, k_no_growth, seed_from(request.owner)),
        retry_(k_first_pause, k_longest_pause, Backoff::k_doubling, seed_from(request.owner)) {
    if (policy.limit) give_up_at_ = clock_.now() + *policy.limit;
    if (request.plain()) line_ = request.key;
  }

  Result<GrantOutcome> run() {
    auto outcome = repeat();
    // Beside others there is no last one to wake those who wait: they poll, one at a time.
    const bool granted = outcome && std::holds_alternative<Lease>(*outcome);
    if (granted && request_.plain()) place_.keep();
    if (!granted) store_.call_off(request_);
    return outcome;
  }

 private:
  Result<GrantOutcome> repeat() {
    for (;;) {
      if (cancel_.raised()) return Cancelled{};
      auto tried = try_once();
      if (!tried) {
        const bool unfinished =
            std::exchange(unfinished_try_, false) && ++lost_replies_ <= k_max_lost_replies;
        broken_turn_ = broken_turn_ || std::exchange(had_turn_, false);
        if (tried.error().code != Errc::unreachable) return std::unexpected(tried.error());
        if (!unfinished && last_try()) return std::unexpected(tried.error());
        if (observer_.on_trouble) observer_.on_trouble(tried.error());
        const Micros again = retry_.next();
        if (pause(schedule_ && !unfinished ? scheduled_pause() : again)) return Cancelled{};
        continue;
      }
      had_turn_ = false;
      retry_.reset(k_first_pause);
      if (!std::holds_alternative<Conflict>(*tried)) return tried;
      const auto& conflict = std::get<Conflict>(*tried);
      if (observer_.on_conflict) observer_.on_conflict(conflict.status);
      if (last_try() || hopeless(conflict.status)) return tried;
      stand_before(conflict.status);
      if (observer_.on_wait) observer_.on_wait(conflict.status);
      if (pause(schedule_ ? scheduled_pause() : until_next_poll(conflict.status))) return Cancelled{};
    }
  }

  // Counts the try that has just failed; true when it was the last one.
  bool last_try() {
    ++tries_;
    return out_of_time() || (schedule_ && tries_ >= schedule_->attempts);
  }

  [[nodiscard]] bool hopeless(const LockStatus& holder) const {
    return observer_.hopeless && observer_.hopeless(holder);
  }

  [[nodiscard]] Micros scheduled_pause() const {
    return pause_after(tries_, schedule_->first, schedule_->growth);
  }

  [[nodiscard]] bool out_of_time() const { return give_up_at_ && clock_.now() >= *give_up_at_; }

  // True when cancelled. Never sleeps past the wait limit, so that the last try happens at its very end.
  bool pause(Micros length) {
    place_.wait_in_front();
    if (place_.crowded()) store_.disconnect();
    return clock_.wait_until(within_limit(length), cancel_);
  }

  [[nodiscard]] BootTime within_limit(Micros length) const {
    const BootTime until = clock_.now() + length;
    return give_up_at_ ? std::min(until, *give_up_at_) : until;
  }

  // Several keys: while nothing is held, in the line of the one that is in the way. Readers and holders of
  // slots first try, since most need not wait.
  void stand_before(const LockStatus& status) {
    by_readers_ = status.is_reader();
    if (request_.plain() || (line_ && line_->bytes() == status.key)) return;
    const auto key = Key::parse(status.key);
    if (!key) return;
    place_.give_up();
    line_ = *key;
  }

  // The end of a cooldown is known, so that nothing is gained by asking often.
  Micros until_next_poll(const LockStatus& status) {
    const bool often = (place_.leads() || !request_.plain()) && status.state != State::cooldown;
    return not_past_expiry(often ? lead_poll_.next() : poll_.next(), status);
  }

  // A lease that nobody renews becomes free at a known time: look then, not a poll interval later.
  static Micros not_past_expiry(Micros step, const LockStatus& status) {
    const Micros left = status.grantable_at().since_epoch - status.server_time.since_epoch;
    return left > Micros{0} ? std::min(step, left) : step;
  }

  // Stands in line until the lock is ours to try (nothing then), or until the wait is over. A lock that is
  // free at the very end of the wait is tried from any place: "held" would not be true.
  Result<std::optional<GrantOutcome>> stand_in_line() {
    while (place_.behind()) {
      const bool with_place = observer_.wants_place && observer_.wants_place();
      DBLOCK_TRY(const auto seen, with_place ? store_.look_in_line(request_) : store_.look(request_));
      // No turn that may still come would let us start.
      if (seen.kind == Look::Kind::done) return AlreadyDone{*seen.status};
      const bool refused = seen.kind == Look::Kind::refused;
      if (refused && hopeless(*seen.status)) return Conflict{*seen.status};
      if (out_of_time()) return refused ? std::optional<GrantOutcome>(Conflict{*seen.status}) : std::nullopt;
      const Micros step = note(seen);
      if (place_.behind() && place_.await(within_limit(step), cancel_)) return GrantOutcome{Cancelled{}};
    }
    return std::nullopt;
  }

  // Takes in a look from the line; how long the next one can wait.
  Micros note(const Look& seen) {
    const Micros step = look_.next();
    if (seen.kind != Look::Kind::refused) {
      place_.saw_free(seen.status ? std::optional(seen.status->token) : std::nullopt);
      return std::min(step, k_look_again);
    }
    place_.saw_held();
    if (observer_.on_conflict) observer_.on_conflict(*seen.status);
    if (observer_.on_wait) observer_.on_wait(*seen.status);
    return looks_.at_expiry ? not_past_expiry(step, *seen.status) : step;
  }

  Result<GrantOutcome> try_once() {
    if (line_) place_.approach(*line_, request_.holder);
    DBLOCK_CHECK(store_.connect());
    DBLOCK_TRY(auto nested, nest());
    if (nested) return settle(std::move(*nested));
    if (line_) place_.take(*line_);
    had_turn_ = std::exchange(broken_turn_, false);
    if (!had_turn_) {
      DBLOCK_TRY(auto ended, stand_in_line());
      if (ended) return std::move(*ended);
    }
    had_turn_ = true;
    // While waiting, look before trying: a plain read costs the server no lock and no log write. Readers are
    // kept away by tries, though.
    if (refused_before_ && !(by_readers_ && clock_.now() >= keep_away_at_)) {
      DBLOCK_TRY(auto seen, store_.look(request_));
      if (seen.kind == Look::Kind::done) return AlreadyDone{std::move(*seen.status)};
      if (seen.kind == Look::Kind::refused) return Conflict{std::move(*seen.status)};
    }
    if (observer_.on_send) observer_.on_send();
    const BootTime sent_at = clock_.now();
    keep_away_at_ = sent_at + k_keep_away;
    auto outcome = store_.try_acquire(request_);
    if (!outcome && outcome.error().code == Errc::indeterminate) return resolve(sent_at, outcome.error());
    if (!outcome) return std::unexpected(outcome.error());
    if (auto* conflict = std::get_if<Conflict>(&*outcome)) {
      refused_before_ = true;
      return std::move(*conflict);
    }
    if (auto* skip = std::get_if<AlreadyDone>(&*outcome)) return std::move(*skip);
    return settle(std::get<Lease>(std::move(*outcome)));
  }

  // Asked once: who does not hold the lock now is not going to. After a lost reply it may be counted twice,
  // and the outer run then waits for the end of its lease: too long is safe, too short would not be.
  Result<std::optional<Lease>> nest() {
    if (!request_.outer || not_nested_) return std::nullopt;
    // A nested run has its promise about successes like any other.
    if (request_.promises.once_per) {
      DBLOCK_TRY(const auto seen, store_.look(request_));
      not_nested_ = seen.kind == Look::Kind::done;
      if (not_nested_) return std::nullopt;
    }
    auto nested = store_.nest(request_);
    if (!nested && nested.error().code == Errc::indeterminate) nested.error().code = Errc::unreachable;
    not_nested_ = nested && !*nested;
    return nested;
  }

  // I5: the statement was sent and its reply lost. Nothing may be started or reported until the row has been
  // read back; a row that carries our owner id is our grant.
  Result<GrantOutcome> resolve(BootTime sent_at, const Error& lost_reply) {
    Backoff backoff(k_first_pause, k_last_poll, Backoff::k_doubling, seed_from(request_.owner));
    if (observer_.on_trouble) observer_.on_trouble(lost_reply);
    for (;;) {
      const auto seen = store_.look(request_);
      if (seen) return settle_by_read_back(sent_at, *seen, lost_reply);
      if (seen.error().code != Errc::unreachable) return std::unexpected(seen.error());
      if (clock_.now() >= sent_at + request_.terms.ttl) return undecided(seen.error());
      if (clock_.wait_until(clock_.now() + backoff.next(), cancel_)) return Cancelled{true};
    }
  }

  Result<GrantOutcome> settle_by_read_back(BootTime sent_at, const Look& seen, const Error& lost_reply) {
    if (!seen.status) return try_again(lost_reply);
    if (seen.kind != Look::Kind::ours) return try_again_or_conflict(seen);
    return settle(granted(request_, seen.status->token, seen.status->slot, sent_at, true));
  }

  // Not done yet. Should the lost statement still run later, it finds either our own newer grant, which its
  // predicate refuses, or it grants a lease that lapses after its TTL: liveness suffers, safety does not.
  Result<GrantOutcome> try_again(const Error& lost_reply) {
    unfinished_try_ = true;
    return fail(Errc::unreachable, lost_reply.message, lost_reply.native);
  }

  Result<GrantOutcome> try_again_or_conflict(const Look& seen) {
    refused_before_ = true;
    if (seen.kind == Look::Kind::done) return AlreadyDone{*seen.status};
    if (seen.kind == Look::Kind::refused) return Conflict{*seen.status};
    unfinished_try_ = true;
    return fail(Errc::unreachable, "the reply to taking lock " + quote_untrusted(request_.key.bytes()) +
                                       " was lost and the lock was not taken; try again");
  }

  Result<GrantOutcome> undecided(const Error& why) const {
    return fail(Errc::unreachable,
                "cannot find out whether lock " + quote_untrusted(request_.key.bytes()) +
                    " was taken: the reply was lost and for a whole TTL the database did not answer (" +
                    why.message +
                    "); nothing was started, and a lease that was granted after all ends by itself",
                why.native);
  }

  // A grant becomes a lease to rely on: proved by a renewal where it was found by reading only, and with time
  // left, since this process may have been frozen between sending and now.
  Result<GrantOutcome> settle(Lease lease) {
    Backoff backoff(k_first_pause, k_last_poll, Backoff::k_doubling, seed_from(request_.owner));
    while (lease.needs_renewal_proof) {
      auto renewed = store_.renew(ref_to(lease), Actor::holder, std::nullopt);
      if (renewed) {
        if (auto* refused = std::get_if<NotOurs>(&*renewed)) return not_ours_after_all(*refused);
        lease.sent_at = std::get<Renewed>(*renewed).sent_at;
        lease.needs_renewal_proof = false;
      } else if (clock_.now() >= lease.sent_at + lease.terms.ttl) {
        return undecided(renewed.error());
      } else if (clock_.wait_until(clock_.now() + backoff.next(), cancel_)) {
        return Cancelled{true};
      }
    }
    if (clock_.now() >= lease.sent_at + lease.terms.ttl) {
      return fail(Errc::lost,
                  "lock " + quote_untrusted(lease.key.bytes()) +
                      " was granted, but this process was held up for its whole TTL before it could "
                      "go on; nothing was started");
    }
    return lease;
  }

  Result<GrantOutcome> not_ours_after_all(const NotOurs& refused) {
    refused_before_ = true;
    if (refused.status) return Conflict{*refused.status};
    return fail(Errc::unreachable,
                "lock " + quote_untrusted(request_.key.bytes()) +
                    " was granted and its row then vanished; is another tool deleting rows?");
  }

  LeaseStore& store_;
  Clock& clock_;
  const AcquireRequest& request_;
  const AcquireObserver& observer_;
  const WakeEvent& cancel_;
  Place place_;
  std::optional<Retry> schedule_;
  std::uint64_t tries_ = 0;
  Backoff poll_;
  Backoff lead_poll_;
  Looks looks_;
  Backoff look_;
  Backoff retry_;
  std::optional<BootTime> give_up_at_;
  std::optional<Key> line_;  // where we stand
  bool not_nested_ = false;
  bool refused_before_ = false;
  BootTime keep_away_at_{};      // a try is due that keeps new readers away
  bool by_readers_ = false;      // who were in the way at the last try
  bool unfinished_try_ = false;  // the last try turned out not to have been done
  bool had_turn_ = false;        // of the line, in this try
  // The connection broke in our turn. It may keep our place from us for as long as the server, or a proxy
  // before it, takes it for alive.
  bool broken_turn_ = false;
  int lost_replies_ = 0;
};

}  // namespace

Result<GrantOutcome> acquire(LeaseStore& store, Clock& clock, const AcquireRequest& request,
                             const WaitPolicy& policy, const AcquireObserver& observer,
                             const WakeEvent& cancel) {
  return Acquisition(store, clock, request, policy, observer, cancel).run();
}

}  // namespace dblock::lease
