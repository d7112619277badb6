// Granting: takes one lock for an exclusive holder in one statement, and leaves grants of more than one row
// to take_several().
#include <algorithm>
#include <utility>

#include "store/parameters.hpp"
#include "store/rules/several_rows.hpp"
#include "store/rules/sharing.hpp"
#include "store/rules/table_lease_store.hpp"

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

// Grants one exclusive lock by one of three statements: `grant`, which refuses where anybody may be waiting,
// `grant_in_line`, which reads the line, or `first_grant`, for a row that was never granted. nullopt: the
// row, or its fence, is missing, or the row is not free to grant.
Result<std::optional<lease::Token>> grant_by(LockTable& table, Verb verb,
                                             const lease::LeaseRequest& request) {
  table.ended.expect(request);
  const auto undo = [&] {
    const lease::RunEnd not_run{lease::RunOutcome::not_run, std::nullopt};
    return release_row(table, ref_to(request), lease::Actor::holder, not_run);
  };
  DBLOCK_TRY(const auto done, table.run_reporting(verb, grant_parameters(request, request.key), undo));
  return token_of(done);
}

// The same for a key without a row. nullopt when another process has taken the lock meanwhile.
//
// One statement of a server cannot add both a held row and its fence. So this adds a free row and its fence,
// and then grants.
Result<std::optional<lease::Token>> create(LockTable& table, const lease::LeaseRequest& request) {
  std::optional<lease::Token> token;
  const auto add_and_grant = [&]() -> Result<void> {
    DBLOCK_CHECK(add_lock(table, request.key));
    DBLOCK_TRY(token, grant_by(table, Verb::first_grant, request));
    return {};
  };
  DBLOCK_CHECK(table.database->in_transaction_if_cheaper(add_and_grant));
  return token;
}

// Reads the lock's own row from the server that takes the writes.
Result<std::optional<lease::LockStatus>> read_own_row_on_primary(LockTable& table, const lease::Key& key) {
  DBLOCK_TRY(const auto seen, table.database->run_on_primary(Verb::look, key_parameters(key)));
  return read_look(seen.rows);
}

// Turns a try that failed with `why` into Held, where it had waited for a transaction that called
// dblock_assert_held(). Else returns `why`.
Result<Answer> fenced_or(LockTable& table, const lease::LeaseRequest& request, Error why) {
  for (const Key& key : keys_of(request.key, request.further_keys)) {
    DBLOCK_TRY(const bool kept, table.database->kept_by_fence(key, why));
    if (!kept) continue;
    DBLOCK_TRY(auto seen, read_own_row(table, key));
    if (!seen) break;
    seen->kept_by_transaction = !seen->refuses_requests();
    return lease::Held{std::move(*seen)};
  }
  return std::unexpected(std::move(why));
}

// Why a row that looks free was refused to the request: others come before it. nullopt: for no reason that
// lasts. `again`: not the first refusal that the row contradicts.
Result<std::optional<Answer>> held_for_others(LockTable& table, const lease::LeaseRequest& request,
                                              LockStatus row, bool again) {
  if (!came_too_early(row, request)) {
    if (!row.has_line()) return std::nullopt;
    if (!again) {
      DBLOCK_TRY(const auto places, read_line(table, request));
      if (!is_for_others({row, {}}, request, places)) return std::nullopt;
    }
  }
  row.waited_for = true;
  return lease::Held{std::move(row)};
}

// A grant may have been made without a confirmed reply.
bool is_unproved(const Result<Answer>& answer) {
  if (!answer) return answer.error().code == Errc::indeterminate;
  const auto* granted = std::get_if<lease::Granted>(&*answer);
  return granted != nullptr && granted->lease.needs_renewal_proof;
}

}  // namespace

// The members of a pool one after the other. A reply that is lost ends the try: look() then finds the member
// that was granted, if one was.
Result<Answer> TableLeaseStore::try_acquire(const lease::LeaseRequest& request) {
  std::optional<Answer> best;
  std::optional<Error> mismatch;
  for (const auto& member : lease::members_of(request)) {
    auto answer = try_member(member);
    unproved_ = is_unproved(answer);
    if (const auto* granted = answer ? std::get_if<lease::Granted>(&*answer) : nullptr) {
      granted_ = member.key;
      if (!unproved_) DBLOCK_CHECK(keep_if_safe(granted->lease));
    }
    if (!answer && answer.error().code != Errc::usage) return answer;
    if (answer && !std::holds_alternative<lease::Held>(*answer)) return answer;
    if (!answer) mismatch = std::move(answer.error());
    if (answer && (!best || is_sooner(*answer, *best))) best = std::move(*answer);
  }
  if (best) return std::move(*best);
  return std::unexpected(std::move(*mismatch));
}

Result<Answer> TableLeaseStore::try_member(const lease::LeaseRequest& request) {
  const Call call(*table_.database, {"acquire", request.key});
  DBLOCK_CHECK(call.open());
  DBLOCK_CHECK(table_.database->safe_to_grant());
  // Any of the statements below may be the one that grants, and none is sent before this moment: so the
  // deadline counts from it.
  const BootTime sent_at = clock_.now();
  auto outcome = request.plain() ? try_own_row(request, sent_at) : take_several(table_, request, sent_at);
  if (outcome) return with_pause(table_, std::move(outcome));
  return fenced_or(table_, request, std::move(outcome.error()));
}

Result<Answer> TableLeaseStore::try_own_row(const lease::LeaseRequest& request, BootTime sent_at) {
  const Verb verb = request.arrival ? Verb::grant_in_line : Verb::grant;
  for (int round = 0; round < k_acquire_rounds; ++round) {
    const bool again = round > 0;
    if (again) DBLOCK_CHECK(add_missing_fence(table_, request.key));
    DBLOCK_TRY(auto token, grant_by(table_, verb, request));
    if (token) return lease::granted(request, *token, 0, sent_at);
    DBLOCK_TRY(auto seen,
               again ? read_own_row_on_primary(table_, request.key) : read_own_row(table_, request.key));
    if (!seen) {
      DBLOCK_TRY(token, create(table_, request));
      if (token) return lease::granted(request, *token, 0, sent_at);
      continue;
    }
    // The last holders were readers or slot holders: one statement cannot tell whether they are gone.
    if (seen->sharing.mode != lease::Mode::exclusive) return take_several(table_, request, sent_at);
    DBLOCK_TRY(auto answer, answer_for({std::move(*seen), {}}, request));
    // A proxy that replays statements reports 0 rows for a grant that was made. The row shows it (I5).
    if (auto* ours = std::get_if<lease::Granted>(&answer)) ours->lease.sent_at = sent_at;
    auto* const free = std::get_if<lease::Free>(&answer);
    if (free == nullptr) return answer;
    const LockStatus& row = *free->status;
    const bool is_new = row.token.value == 0;
    if (is_new || (row.has_line() && verb == Verb::grant)) {
      DBLOCK_TRY(token, grant_by(table_, is_new ? Verb::first_grant : Verb::grant_in_line, request));
      // Whoever stands before did not come.
      if (token && row.has_line() && !placed_) placed_ = request;
      if (token && row.has_line() && !placed_->arrival) placed_->arrival = row.server_time;
      if (token) return lease::granted(request, *token, 0, sent_at);
    }
    DBLOCK_TRY(auto held, held_for_others(table_, request, std::move(*free->status), again));
    if (held) return std::move(*held);
  }
  return table_.database->attempt().refuse(Errc::unreachable, "it changed hands at every try; try again");
}

Result<void> TableLeaseStore::keep_if_safe(const Lease& lease) {
  const auto safe = [&] {
    const Call call(*table_.database, {"acquire", lease.key});
    return table_.database->grant_is_safe();
  }();
  // Where the release fails too, the lease expires by itself.
  if (!safe) [[maybe_unused]]
    const auto released =
        release(lease::ref_to(lease), lease::Actor::holder, {lease::RunOutcome::not_run, {}});
  return safe;
}

}  // namespace dblock::store
