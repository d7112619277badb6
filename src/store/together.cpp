#include "store/together.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "base/text.hpp"
#include "lease/owner_id.hpp"
#include "store/sharing.hpp"

namespace dblock::store {
namespace {

using namespace std::chrono_literals;
using lease::AcquireOutcome;
using lease::AcquireRequest;
using lease::Key;
using lease::Look;

// A time that is kept by one clock and read by another comes back a little off.
constexpr Micros k_reading_jitter = 50ms;

struct Chosen {
  Key key;
  Scene seen;
  std::uint32_t slot = 0;
};

Result<Scene> survey_or_add(LockTable& table, const Key& key, const std::string& attempt) {
  DBLOCK_TRY(auto seen, table.survey(key, true, attempt));
  if (seen) return std::move(*seen);
  DBLOCK_CHECK(table.add(key, attempt));
  DBLOCK_TRY(seen, table.survey(key, true, attempt));
  if (seen) return std::move(*seen);
  return fail(Errc::unreachable, attempt + ": its row vanished; is another tool deleting rows?");
}

// Leases past their margin end here for good: a renewal that was sent in time and comes late must not find
// them.
Result<void> clear(LockTable& table, const Chosen& place, const AcquireRequest& request,
                   const std::string& attempt) {
  const bool alone = request.sharing.mode == lease::Mode::exclusive;
  if (!alone && !place.seen.gate.owner.empty())
    DBLOCK_CHECK(table.abandon(place.seen.gate, Rows::locks, attempt));
  // Among their own kind those who took their places over are enough.
  if (place.seen.gate.sharing == request.sharing) return {};
  for (const auto& hold : place.seen.holds) {
    if (!hold.owner.empty()) DBLOCK_CHECK(table.abandon(hold, Rows::holds, attempt));
  }
  return {};
}

bool keeps_readers_away(const AcquireRequest& request) {
  return request.waits && request.sharing.mode == lease::Mode::exclusive;
}

class Taking {
 public:
  Taking(LockTable& table, const AcquireRequest& request, BootTime sent_at, std::optional<Mark>& mark,
         const std::string& attempt)
      : table_(table), request_(request), sent_at_(sent_at), mark_(mark), attempt_(attempt) {}

  Result<AcquireOutcome> run() {
    const auto body = [this] { return transaction(); };
    DBLOCK_CHECK(table_.in_transaction(attempt_, body));
    if (outcome_) return std::move(*outcome_);
    return fail(Errc::internal, attempt_ + ": the transaction did nothing");
  }

 private:
  Result<void> transaction() {
    outcome_.reset();
    std::vector<Chosen> places;
    lease::Token token;
    for (const Key& key : keys_of(request_.key, request_.also)) {
      DBLOCK_TRY(auto seen, survey_or_add(table_, key, attempt_));
      auto decision = decide(seen, request_);
      const auto* take = std::get_if<Take>(&decision);
      if (take == nullptr) {
        DBLOCK_CHECK(refused(key, std::move(decision), seen));
        return request_.promises.once_per ? look_for_success(key) : Result<void>{};
      }
      const auto now = static_cast<std::uint64_t>(seen.gate.server_time.since_epoch.count());
      token.value = std::max({token.value, seen.gate.token.value + 1, now});
      places.push_back({key, std::move(seen), take->slot});
    }
    for (const Chosen& place : places) {
      DBLOCK_CHECK(clear(table_, place, request_, attempt_));
      DBLOCK_CHECK(table_.put(request_, place.key, place.slot, token, place.seen, attempt_));
    }
    auto lease = lease::granted(request_, token, places.front().slot, sent_at_, false);
    lease.rows.clear();
    for (const Chosen& place : places) {
      if (place.slot > 0) lease.rows.push_back(place.slot);
    }
    outcome_ = std::move(lease);
    return {};
  }

  Result<void> refused(const Key& key, Decision decision, const Scene& seen) {
    if (const auto* mismatch = std::get_if<Mismatch>(&decision))
      return fail(Errc::usage, "cannot acquire lock " + quote_untrusted(key.bytes()) + ": " + mismatch->why);
    if (const auto* own = std::get_if<Own>(&decision)) {
      outcome_ = lease::granted(request_, own->status.token, own->status.slot, sent_at_, true);
    } else if (auto* done = std::get_if<lease::AlreadyDone>(&decision)) {
      outcome_ = std::move(*done);
    } else {
      auto& conflict = std::get<lease::Conflict>(decision);
      const bool readers = conflict.status.is_reader();
      outcome_ = std::move(conflict);
      if (readers && keeps_readers_away(request_)) return keep_readers_away(key, seen);
    }
    return {};
  }

  // From all keys, or those that are free by now would fill with readers while the others empty.
  Result<void> keep_readers_away(const Key& refused, const Scene& seen) {
    Mark mark{{seen.gate.server_time.since_epoch + lease::k_intent}, mark_ && mark_->for_others};
    for (const Key& key : keys_of(request_.key, request_.also)) {
      if (key == refused) {
        mark.for_others = mark.for_others || marked_by_another(seen.gate);
      } else {
        DBLOCK_TRY(const auto other, table_.survey(key, true, attempt_));
        mark.for_others = mark.for_others || (other && marked_by_another(other->gate));
      }
      DBLOCK_CHECK(table_.keep_readers_away(key, mark.until, attempt_));
    }
    mark_ = mark;
    return {};
  }

  [[nodiscard]] bool marked_by_another(const lease::LockStatus& gate) const {
    if (!gate.keeps_readers_away()) return false;
    const Micros until = gate.intent_until->since_epoch;
    return !mark_ || std::chrono::abs(until - mark_->until.since_epoch) > k_reading_jitter;
  }

  // A success under any of the keys outweighs who is in the way of another.
  Result<void> look_for_success(const Key& after) {
    for (const Key& key : request_.also) {
      if (!(after < key)) continue;
      DBLOCK_TRY(const auto seen, table_.survey(key, true, attempt_));
      if (!seen || !seen->gate.done_within(*request_.promises.once_per)) continue;
      outcome_ = lease::AlreadyDone{seen->gate};
      return {};
    }
    return {};
  }

  LockTable& table_;
  const AcquireRequest& request_;
  const BootTime sent_at_;
  std::optional<Mark>& mark_;
  const std::string& attempt_;
  std::optional<AcquireOutcome> outcome_;
};

// Under an exclusive lease anything may nest, beside others only what is like it.
Result<std::optional<lease::Token>> nest_one(LockTable& table, const lease::LeaseRef& outer,
                                             const AcquireRequest& request, Rows& rows,
                                             const std::string& attempt) {
  const Micros ttl = request.terms.ttl;
  rows = Rows::locks;
  DBLOCK_TRY(auto token, table.nest(outer, lease::Sharing{}, ttl, attempt));
  if (token || outer.mode == lease::Mode::exclusive) return token;
  rows = Rows::holds;
  return table.nest(outer, request.sharing, ttl, attempt);
}

Look look_of(Decision decision, const Scene& seen) {
  if (auto* own = std::get_if<Own>(&decision)) return {Look::Kind::ours, std::move(own->status)};
  if (auto* done = std::get_if<lease::AlreadyDone>(&decision))
    return {Look::Kind::done, std::move(done->status)};
  if (auto* conflict = std::get_if<lease::Conflict>(&decision))
    return {Look::Kind::refused, std::move(conflict->status)};
  // A mismatch is for the next try to say.
  return {Look::Kind::free, seen.gate};
}

bool is_nested_in(const Scene& seen, const lease::OwnerId& owner) {
  const auto counts_more = [&owner](const lease::LockStatus& row) {
    return row.owner == owner.text && row.count > 1;
  };
  return counts_more(seen.gate) || std::ranges::any_of(seen.holds, counts_more);
}

}  // namespace

std::vector<Key> keys_of(const Key& first, const std::vector<Key>& also) {
  std::vector<Key> keys{first};
  keys.insert(keys.end(), also.begin(), also.end());
  return keys;
}

Result<AcquireOutcome> take_together(LockTable& table, const AcquireRequest& request, BootTime sent_at,
                                     std::optional<Mark>& mark, const std::string& attempt) {
  return Taking(table, request, sent_at, mark, attempt).run();
}

Result<std::optional<lease::Lease>> nest_together(LockTable& table, const AcquireRequest& request,
                                                  BootTime sent_at, const std::string& attempt) {
  const lease::OwnerId outer = lease::outermost(*request.outer);
  std::optional<lease::Token> token;
  Rows rows = Rows::locks;
  bool absent = false;
  const auto body = [&]() -> Result<void> {
    for (const Key& key : keys_of(request.key, request.also)) {
      const lease::LeaseRef ref{key, outer, std::nullopt, {}, request.sharing.mode};
      DBLOCK_TRY(token, nest_one(table, ref, request, rows, attempt));
      absent = !token;
      if (absent)
        return fail(Errc::internal, attempt + ": the outer lease is not there");  // undoes the others
    }
    return {};
  };
  const auto done = request.also.empty() ? body() : table.in_transaction(attempt, body);
  if (absent) return std::nullopt;
  if (!done) return std::unexpected(done.error());
  auto lease = lease::granted(request, *token, 0, sent_at, false);
  lease.owner = lease::nested_owner_id(outer);
  if (rows == Rows::locks) lease.sharing = {};
  return lease;
}

// Another's mark ends by itself, if he is gone as well.
void call_off(LockTable& table, const AcquireRequest& request, const Mark& mark) noexcept {
  if (mark.for_others) return;
  for (const Key& key : keys_of(request.key, request.also)) {
    // Where it fails, it ends by itself soon.
    [[maybe_unused]] const auto done = table.let_readers_in(key, mark.until, "cannot let readers in again");
  }
}

Result<std::vector<Key>> release_together(LockTable& table, const lease::LeaseRef& ref, Rows rows,
                                          lease::Actor actor, lease::RunEnd end, const std::string& attempt) {
  std::vector<Key> missing;
  bool nested = false;
  const auto body = [&]() -> Result<void> {
    missing.clear();
    nested = false;
    for (const Key& key : keys_of(ref.key, ref.also)) {
      DBLOCK_TRY(const bool released, table.release(lease::part_of(ref, key), rows, actor, end, attempt));
      if (!released) missing.push_back(key);
    }
    for (const Key& key : missing) {
      DBLOCK_TRY(const auto seen, table.survey(key, true, attempt));
      nested = actor == lease::Actor::holder && seen && is_nested_in(*seen, ref.owner);
      if (!nested) continue;
      missing = {key};
      return fail(Errc::internal, attempt + ": a nested run holds it");  // undoes the others
    }
    return {};
  };
  const auto done = table.in_transaction(attempt, body);
  if (!done && !nested) return std::unexpected(done.error());
  return missing;
}

Result<Look> look_together(LockTable& table, const AcquireRequest& request, const std::string& attempt) {
  std::optional<Look> in_the_way;
  Look last;
  for (const Key& key : keys_of(request.key, request.also)) {
    DBLOCK_TRY(const auto seen, table.survey(key, false, attempt));
    if (!seen) continue;
    last = look_of(decide(*seen, request), *seen);
    // A success under any of the keys outweighs who is in the way of another.
    if (last.kind == Look::Kind::done) return last;
    if (last.kind != Look::Kind::free && !in_the_way) in_the_way = last;
    if (in_the_way && !request.promises.once_per) break;
  }
  return in_the_way ? std::move(*in_the_way) : last;
}

}  // namespace dblock::store
