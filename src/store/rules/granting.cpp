// The functions of TableLeaseStore that grant: they take locks, and nest in the leases of outer runs.
#include "store/rules/table_lease_store.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "lease/owner_id.hpp"
#include "store/rules/sharing.hpp"

namespace dblock::store {
namespace {

using Call = Database::Call;
using lease::Answer;
using lease::Key;
using lease::Lease;
using lease::LockStatus;

// Rounds of "refused, but the row looks free": in each one another holder came and went in between.
constexpr int k_acquire_rounds = 20;

// A waiter that leaves for newer ones: another one that came later was granted the lock.
bool came_too_early(const LockStatus& row, const lease::LeaseRequest& request) {
  return request.line == lease::Line::newest && request.arrival && row.arrived_at > request.arrival;
}

}  // namespace

// The members of a pool one after the other. A reply that is lost ends the try: look() then finds the member
// that was granted, if one was.
Result<Answer> TableLeaseStore::try_acquire(const lease::LeaseRequest& request) {
  std::optional<Answer> best;
  std::optional<Error> mismatch;
  for (const auto& member : lease::members_of(request)) {
    auto answer = try_one(member);
    if (!answer && answer.error().code != Errc::usage) return answer;
    if (answer && !std::holds_alternative<lease::Held>(*answer)) return answer;
    if (!answer) mismatch = std::move(answer.error());
    if (answer && (!best || is_sooner(*answer, *best))) best = std::move(*answer);
  }
  if (best) return std::move(*best);
  return std::unexpected(std::move(*mismatch));
}

Result<Answer> TableLeaseStore::try_one(const lease::LeaseRequest& request) {
  auto answer = take(request);
  const auto* granted = answer ? std::get_if<lease::Granted>(&*answer) : nullptr;
  unproved_ = granted != nullptr ? granted->lease.needs_renewal_proof
                                 : !answer && answer.error().code == Errc::indeterminate;
  if (granted != nullptr) granted_ = request.key;
  if (granted != nullptr && !unproved_) DBLOCK_CHECK(keep_if_safe(granted->lease));
  return answer;
}

Result<Answer> TableLeaseStore::take(const lease::LeaseRequest& request) {
  const Call call(table_->database(), {"acquire", request.key});
  DBLOCK_CHECK(call.open());
  DBLOCK_CHECK(table_->database().safe_to_grant());
  // Any of the statements below may be the one that grants, and none is sent before this moment: so the
  // deadline counts from it.
  const BootTime sent_at = clock_.now();
  auto outcome = request.plain() ? try_alone(request, sent_at) : take_together(*table_, request, sent_at);
  if (outcome) return with_pause(std::move(outcome));
  return fenced_or(request, std::move(outcome.error()));
}

Result<Answer> TableLeaseStore::try_alone(const lease::LeaseRequest& request, BootTime sent_at) {
  for (int round = 0; round < k_acquire_rounds; ++round) {
    if (round > 0) DBLOCK_CHECK(table_->add_missing_fence(request.key));
    DBLOCK_TRY(auto outcome, try_once(request, sent_at, round > 0));
    if (outcome) return std::move(*outcome);
  }
  return table_->database().refuse(Errc::unreachable, "it changed hands at every try; try again");
}

Result<std::optional<Answer>> TableLeaseStore::try_once(const lease::LeaseRequest& request, BootTime sent_at,
                                                        bool again) {
  using enum LockTable::LineIs;
  const auto line = request.arrival ? obeyed : none;
  DBLOCK_TRY(auto token, table_->grant(request, line));
  if (token) return lease::granted(request, *token, 0, sent_at);
  DBLOCK_TRY(auto seen, again ? table_->look_on_primary(request.key) : table_->look(request.key));
  if (!seen) {
    DBLOCK_TRY(token, table_->create(request));
    if (token) return lease::granted(request, *token, 0, sent_at);
    return std::nullopt;
  }
  // The last holders were readers or slot holders: one statement cannot tell whether they are gone.
  if (seen->sharing.mode != lease::Mode::exclusive) return take_together(*table_, request, sent_at);
  const bool is_new = seen->token.value == 0;
  const bool has_line = seen->has_line();
  DBLOCK_TRY(auto answer, answer_for({std::move(*seen), {}}, request));
  // A proxy that replays statements reports 0 rows for a grant that was made. The row shows it (I5).
  if (auto* ours = std::get_if<lease::Granted>(&answer)) ours->lease.sent_at = sent_at;
  auto* const free = std::get_if<lease::Free>(&answer);
  if (free == nullptr) return answer;
  if (is_new || (has_line && line == none)) {
    DBLOCK_TRY(token, is_new ? table_->first_grant(request) : table_->grant(request, obeyed));
    // Whoever stands before did not come.
    if (token && has_line && !placed_) placed_ = request;
    if (token && has_line && !placed_->arrival) placed_->arrival = free->status->server_time;
    if (token) return lease::granted(request, *token, 0, sent_at);
  }
  lease::Held held{std::move(*free->status)};
  if (!came_too_early(held.status, request)) {
    if (!has_line) return std::nullopt;
    if (!again) {
      DBLOCK_TRY(const auto places, table_->see_line(request));
      if (!is_for_others({held.status, {}}, request, places)) return std::nullopt;
    }
  }
  held.status.waited_for = true;
  return held;
}

Result<Answer> TableLeaseStore::fenced_or(const lease::LeaseRequest& request, Error why) {
  for (const Key& key : keys_of(request.key, request.also)) {
    DBLOCK_TRY(const bool kept, table_->database().kept_by_fence(key, why));
    if (!kept) continue;
    DBLOCK_TRY(auto seen, table_->look(key));
    if (!seen) break;
    seen->kept_by_transaction = !seen->refuses_requests();
    return lease::Held{std::move(*seen)};
  }
  return std::unexpected(std::move(why));
}

Result<void> TableLeaseStore::keep_if_safe(const Lease& lease) {
  const auto safe = [&] {
    const Call call(table_->database(), {"acquire", lease.key});
    return table_->database().grant_is_safe();
  }();
  // Where the release fails too, the lease expires by itself.
  if (!safe) [[maybe_unused]]
    const auto released =
        release(lease::ref_to(lease), lease::Actor::holder, {lease::RunOutcome::not_run, {}});
  return safe;
}

Result<std::optional<Lease>> TableLeaseStore::nest(const lease::LeaseRequest& request) {
  auto nested = nest_in(request);
  if (nested && *nested) {
    DBLOCK_CHECK(keep_if_safe(**nested));
    find_rows(**nested);
  }
  return nested;
}

Result<std::optional<Lease>> TableLeaseStore::nest_in(const lease::LeaseRequest& request) {
  const Call call(table_->database(), {"acquire", request.key});
  DBLOCK_CHECK(call.open());
  DBLOCK_CHECK(table_->database().safe_to_grant());
  return nest_together(*table_, request, clock_.now());
}

// Finds the rows of the outer lease, so that the nested run renews by primary key, and knows its slot. Where
// one is not found, every renewal searches all rows of its key.
void TableLeaseStore::find_rows(Lease& lease) {
  if (lease.sharing.mode == lease::Mode::exclusive) return;
  // The job cannot start before this ends.
  const Call call(table_->database(), {"look at", lease.key}, Database::Patience::renewal);
  const lease::OwnerId outer = lease::outermost(lease.owner);
  const auto is_ours = [&](const LockStatus& hold) {
    return hold.owner == outer.text && hold.token == lease.token;
  };
  const auto locks = table_->read_rows(keys_of(lease.key, lease.also), false);
  if (!locks) return;
  for (const auto& seen : *locks) {
    if (!seen) return lease.rows.clear();
    const auto own = std::ranges::find_if(seen->holds, is_ours);
    if (own == seen->holds.end()) return lease.rows.clear();
    lease.rows.push_back(own->slot);
  }
  if (lease.sharing.mode == lease::Mode::slot) lease.slot = lease.rows.front();
}

Result<lease::ServerTime> TableLeaseStore::stand_in_line(const lease::LeaseRequest& request, Micros length,
                                                         bool marks) {
  const Call call(table_->database(), {"wait for", request.key});
  DBLOCK_CHECK(call.open());
  placed_ = request;
  auto arrival = table_->stand_in_line(request, length, marks);
  // A place is no grant: where the reply is lost, it is taken again.
  if (!arrival && arrival.error().code == Errc::indeterminate) arrival.error().code = Errc::unreachable;
  if (arrival) placed_->arrival = *arrival;
  return arrival;
}

Result<std::vector<lease::Place>> TableLeaseStore::see_line(const lease::LeaseRequest& request) {
  const Call call(table_->database(), {"look at the line of", request.key});
  DBLOCK_CHECK(call.open());
  return table_->see_line(request);
}

void TableLeaseStore::leave_line(const lease::LeaseRequest& request) noexcept {
  give_up_places(request, false);
}

void TableLeaseStore::give_up_places(const lease::LeaseRequest& request, bool granted) noexcept {
  placed_.reset();
  // The lease runs meanwhile, if there is one.
  const Call call(table_->database(), {"leave the line of", request.key}, Database::Patience::renewal);
  auto done = call.open();
  if (done) done = table_->leave_line(request, granted);
  if (!done) log::info(done.error().message);
}

}  // namespace dblock::store
