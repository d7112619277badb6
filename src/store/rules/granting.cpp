// The functions of TableLeaseStore that grant: they take locks, and nest in the leases of outer runs.
#include "store/rules/table_lease_store.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "lease/owner_id.hpp"
#include "store/rules/sharing.hpp"

namespace dblock::store {
namespace {

using Call = LockTable::Call;
using lease::Answer;
using lease::Key;
using lease::Lease;
using lease::LockStatus;

// Rounds of "refused, but the row looks free": in each one another holder came and went in between.
constexpr int k_acquire_rounds = 20;

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
  if (granted != nullptr && !unproved_) DBLOCK_CHECK(keep_if_safe(granted->lease));
  return answer;
}

Result<Answer> TableLeaseStore::take(const lease::LeaseRequest& request) {
  const Call call(*table_);
  const std::string attempt = attempt_to("acquire", request.key);
  DBLOCK_CHECK(table_->ensure_open(attempt));
  DBLOCK_CHECK(table_->database().safe_to_grant(attempt));
  // Any of the statements below may be the one that grants, and none is sent before this moment: so the
  // deadline counts from it.
  const BootTime sent_at = clock_.now();
  auto outcome = request.plain() ? try_alone(request, sent_at, attempt)
                                 : take_together(*table_, request, sent_at, intent_, attempt);
  if (outcome) return with_pause(std::move(outcome), attempt);
  return fenced_or(request, std::move(outcome.error()), attempt);
}

Result<Answer> TableLeaseStore::try_alone(const lease::LeaseRequest& request, BootTime sent_at,
                                          const std::string& attempt) {
  for (int round = 0; round < k_acquire_rounds; ++round) {
    if (round > 0) DBLOCK_CHECK(table_->add_missing_fence(request.key, attempt));
    DBLOCK_TRY(auto outcome, try_once(request, sent_at, round > 0, attempt));
    if (outcome) return std::move(*outcome);
  }
  return fail(Errc::unreachable, attempt + ": it changed hands at every try; try again");
}

Result<std::optional<Answer>> TableLeaseStore::try_once(const lease::LeaseRequest& request, BootTime sent_at,
                                                        bool again, const std::string& attempt) {
  DBLOCK_TRY(auto token, table_->grant(request, attempt));
  if (token) return lease::granted(request, *token, 0, sent_at);
  DBLOCK_TRY(auto seen,
             again ? table_->look_on_primary(request.key, attempt) : table_->look(request.key, attempt));
  if (!seen) {
    DBLOCK_TRY(token, table_->create(request, attempt));
    if (token) return lease::granted(request, *token, 0, sent_at);
    return std::nullopt;
  }
  // The last holders were readers or slot holders: one statement cannot tell whether they are gone.
  if (seen->sharing.mode != lease::Mode::exclusive)
    return take_together(*table_, request, sent_at, intent_, attempt);
  DBLOCK_TRY(auto answer, answer_for({std::move(*seen), {}}, request));
  // A proxy that replays statements reports 0 rows for a grant that was made. The row shows it (I5).
  if (auto* ours = std::get_if<lease::Granted>(&answer)) ours->lease.sent_at = sent_at;
  const auto* const free = std::get_if<lease::Free>(&answer);
  if (free == nullptr) return answer;
  if (free->status->token.value > 0) return std::nullopt;
  DBLOCK_TRY(token, table_->first_grant(request, attempt));
  if (token) return lease::granted(request, *token, 0, sent_at);
  return std::nullopt;
}

Result<Answer> TableLeaseStore::fenced_or(const lease::LeaseRequest& request, Error why,
                                          const std::string& attempt) {
  for (const Key& key : keys_of(request.key, request.also)) {
    DBLOCK_TRY(const bool kept, table_->database().kept_by_fence(key, why, attempt));
    if (!kept) continue;
    DBLOCK_TRY(auto seen, table_->look(key, attempt));
    if (!seen) break;
    seen->kept_by_transaction = !refuses_requests(*seen);
    return lease::Held{std::move(*seen)};
  }
  return std::unexpected(std::move(why));
}

Result<void> TableLeaseStore::keep_if_safe(const Lease& lease) {
  const auto safe = [&] {
    const Call call(*table_);
    return table_->database().grant_is_safe(attempt_to("acquire", lease.key));
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
  const Call call(*table_);
  const std::string attempt = attempt_to("acquire", request.key);
  DBLOCK_CHECK(table_->ensure_open(attempt));
  DBLOCK_CHECK(table_->database().safe_to_grant(attempt));
  return nest_together(*table_, request, clock_.now(), attempt);
}

// Finds the rows of the outer lease, so that the nested run renews by primary key, and knows its slot. Where
// one is not found, every renewal searches all rows of its key.
void TableLeaseStore::find_rows(Lease& lease) {
  if (lease.sharing.mode == lease::Mode::exclusive) return;
  const Call call(*table_, Database::Patience::renewal);  // the job cannot start before this ends
  const std::string attempt = attempt_to("look at", lease.key);
  const lease::OwnerId outer = lease::outermost(lease.owner);
  const auto is_ours = [&](const LockStatus& hold) {
    return hold.owner == outer.text && hold.token == lease.token;
  };
  const auto locks = table_->read_rows(keys_of(lease.key, lease.also), false, attempt);
  if (!locks) return;
  for (const auto& seen : *locks) {
    if (!seen) return lease.rows.clear();
    const auto own = std::ranges::find_if(seen->holds, is_ours);
    if (own == seen->holds.end()) return lease.rows.clear();
    lease.rows.push_back(own->slot);
  }
  if (lease.sharing.mode == lease::Mode::slot) lease.slot = lease.rows.front();
}

Result<lease::LeaseStore::Promise> TableLeaseStore::promise(const lease::LeaseRequest& request, bool newest) {
  const Call call(*table_);
  const std::string attempt = attempt_to("acquire", request.key);
  DBLOCK_CHECK(table_->ensure_open(attempt));
  DBLOCK_TRY(const bool promised, table_->promise(request.key, request.owner, newest, attempt));
  if (promised) promised_ = request.key;
  if (promised) return Promise{request.owner, {}};
  DBLOCK_TRY(const auto seen, table_->look(request.key, attempt));
  if (!seen || !seen->promised_to_another(request.owner.text)) return Promise{};
  return Promise{{seen->promised_to}, *seen->promised_until};
}

void TableLeaseStore::withdraw_intent(const lease::LeaseRequest& request) noexcept {
  if (promised_) {
    const Call call(*table_);
    // Where this fails, the promise ends by itself soon.
    const auto done =
        table_->withdraw_promise(*promised_, request.owner, attempt_to("stop waiting for", *promised_));
    if (!done) log::info(done.error().message);
    promised_.reset();
  }
  if (!intent_) return;
  const Call call(*table_);
  store::withdraw_intent(*table_, request, *intent_);
  intent_.reset();
}

}  // namespace dblock::store
