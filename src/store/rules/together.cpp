#include "store/rules/together.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "lease/line.hpp"
#include "lease/owner_id.hpp"
#include "store/rules/sharing.hpp"

namespace dblock::store {
namespace {

using lease::Answer;
using lease::Key;
using lease::LeaseRequest;

using RowsOfLocks = std::vector<std::optional<LockRows>>;

// Frees leases past their margin, so that a renewal of theirs that was sent in time and comes late matches no
// row. A grant of the same kind as the last one leaves its fellow holders' rows alone: it overwrites the row
// it takes.
Result<void> clear(LockTable& table, GrantTarget& target, const LeaseRequest& request) {
  auto& [gate, holds] = target.seen;
  const bool alone = request.sharing.mode == lease::Mode::exclusive;
  if (!alone && !gate.owner.empty()) DBLOCK_CHECK(table.abandon_locked(gate));
  if (!changes_kind(gate.sharing, request.sharing)) return {};
  for (auto& hold : holds) {
    if (hold.owner.empty()) continue;
    DBLOCK_CHECK(table.abandon_locked(hold));
    hold.last =
        lease::PastRun{hold.acquired_at, std::nullopt, lease::RunOutcome::abandoned, std::nullopt, {}};
  }
  return {};
}

class Taking {
 public:
  Taking(LockTable& table, const LeaseRequest& request, BootTime sent_at)
      : table_(table), request_(request), keys_(keys_of(request.key, request.also)), sent_at_(sent_at) {}

  Result<Answer> run() {
    const auto body = [this] { return transaction(); };
    DBLOCK_CHECK(table_.in_transaction(body));
    adds_rows_ = false;
    if (!answer_) DBLOCK_CHECK(table_.in_transaction(body));
    return std::move(answer_.value());
  }

 private:
  // Rows that are missing are added and committed before the grant. A pause finds no row that is not
  // committed, and on Galera a node may commit such a row before it knows of the pause, but not the grant
  // after it.
  Result<void> transaction() {
    answer_.reset();
    DBLOCK_TRY(const RowsOfLocks seen, table_.read_rows(keys_, true));
    places_.clear();
    if (std::ranges::any_of(seen, [](const auto& lock) { return lock && lock->gate.has_line(); })) {
      DBLOCK_TRY(places_, table_.see_line(request_));
    }
    DBLOCK_CHECK(decide_on(seen));
    if (answer_) return {};
    if (targets_.size() == keys_.size()) return take();
    if (!adds_rows_)
      return table_.database().refuse(Errc::unreachable, "its row vanished; is another tool deleting rows?");
    for (std::size_t i = 0; i < keys_.size(); ++i)
      if (!seen[i]) DBLOCK_CHECK(table_.add(keys_[i]));
    return {};
  }

  Result<void> take() {
    lease::Token token;
    for (const GrantTarget& target : targets_) {
      const auto& gate = target.seen.gate;
      const auto now = static_cast<std::uint64_t>(gate.server_time.since_epoch.count());
      token.value = std::max({token.value, gate.token.value + 1, now});
    }
    for (GrantTarget& target : targets_) DBLOCK_CHECK(clear(table_, target, request_));
    DBLOCK_CHECK(table_.grant_rows(request_, targets_, token, line_of_others()));
    DBLOCK_CHECK(remove_passed());
    auto grant = lease::granted(request_, token, targets_.front().slot, sent_at_);
    grant.lease.rows.clear();
    for (const GrantTarget& target : targets_) {
      if (target.slot > 0) grant.lease.rows.push_back(target.slot);
    }
    answer_ = std::move(grant);
    return {};
  }

  // Until when another may be waiting for one of the locks.
  [[nodiscard]] std::optional<lease::ServerTime> line_of_others() const {
    std::optional<lease::ServerTime> until;
    for (const auto& place : places_)
      if (place.owner != request_.owner)
        until = std::max(until.value_or(lease::ServerTime{}), place.counts_until);
    return until;
  }

  // Removes the places of waiters that did not come. One that is there after all puts its place back.
  Result<void> remove_passed() {
    LeaseRequest passed = request_;
    for (const GrantTarget& target : targets_) {
      if (!passes_others(target.seen, request_, places_)) continue;
      for (const auto* place : lease::places_before(places_, request_, target.key.bytes())) {
        passed.owner = place->owner;
        DBLOCK_CHECK(table_.leave_line(passed, false));
      }
    }
    return {};
  }

  // Sets answer_ where a lock decides the outcome, else targets_ for all locks that have a row.
  Result<void> decide_on(const RowsOfLocks& seen) {
    targets_.clear();
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      if (!seen[i]) continue;
      DBLOCK_TRY(auto answer, answer_for(*seen[i], request_));
      const auto* free = std::get_if<lease::Free>(&answer);
      if (free != nullptr && is_for_others(*seen[i], request_, places_)) {
        lease::Held held{with_past_runs(*seen[i])};
        held.status.waited_for = true;
        answer = std::move(held);
        free = nullptr;
      }
      if (free == nullptr) return refused(i, std::move(answer), seen);
      targets_.push_back({keys_[i], *seen[i], free->slot});
    }
    return {};
  }

  Result<void> refused(std::size_t by, Answer answer, const RowsOfLocks& seen) {
    if (auto* ours = std::get_if<lease::Granted>(&answer)) ours->lease.sent_at = sent_at_;
    answer_ = std::move(answer);
    look_for_success(by, seen);
    return {};
  }

  // A success under any of the keys is the answer, even where another key is held.
  void look_for_success(std::size_t after, const RowsOfLocks& seen) {
    if (!request_.promises.once_per) return;
    for (std::size_t i = after + 1; i < keys_.size(); ++i) {
      if (!seen[i]) continue;
      auto lock = with_past_runs(*seen[i]);
      if (!lock.done_within(*request_.promises.once_per)) continue;
      answer_ = lease::Done{std::move(lock)};
      return;
    }
  }

  LockTable& table_;
  const LeaseRequest& request_;
  const std::vector<Key> keys_;
  const BootTime sent_at_;
  std::vector<lease::Place> places_;  // of those who wait, where somebody may
  std::vector<GrantTarget> targets_;
  std::optional<Answer> answer_;
  bool adds_rows_ = true;  // else a missing row is an error
};

// Any request may nest in an exclusive lease; in a shared or slot lease only a request that asks for the
// same. Sets `sharing` to how the outer lease is held.
Result<std::optional<lease::Token>> nest_one(LockTable& table, const Key& key, const lease::OwnerId& outer,
                                             const LeaseRequest& request, lease::Sharing& sharing) {
  lease::LeaseRef ref{key, outer, std::nullopt, {}, lease::Mode::exclusive};
  sharing = {};
  DBLOCK_TRY(auto token, table.nest(ref, sharing, request.terms.ttl));
  if (token || request.sharing.mode == lease::Mode::exclusive) return token;
  sharing = request.sharing;
  ref.mode = sharing.mode;
  return table.nest(ref, sharing, request.terms.ttl);
}

}  // namespace

Result<Answer> take_together(LockTable& table, const LeaseRequest& request, BootTime sent_at) {
  return Taking(table, request, sent_at).run();
}

Result<std::optional<lease::Lease>> nest_together(LockTable& table, const LeaseRequest& request,
                                                  BootTime sent_at) {
  const lease::OwnerId outer = lease::outermost(*request.outer);
  std::optional<lease::Token> token;
  lease::Sharing sharing;
  bool absent = false;
  const auto body = [&]() -> Result<void> {
    for (const Key& key : keys_of(request.key, request.also)) {
      DBLOCK_TRY(token, nest_one(table, key, outer, request, sharing));
      absent = !token;
      if (absent) return fail(Errc::internal, "");  // rolls back the keys that were counted
    }
    return {};
  };
  const auto done = request.also.empty() ? body() : table.in_transaction(body);
  if (absent) return std::nullopt;
  if (!done) return std::unexpected(done.error());
  auto lease = lease::granted(request, *token, 0, sent_at).lease;
  lease.owner = lease::nested_owner_id(outer);
  lease.sharing = sharing;
  return lease;
}

Result<Answer> look_together(LockTable& table, const LeaseRequest& request) {
  std::optional<Answer> refusal;
  Answer last = lease::Free{};
  DBLOCK_TRY(const auto locks, table.read_rows(keys_of(request.key, request.also), false));
  for (const auto& seen : locks) {
    if (!seen) continue;
    // An error (a mode that does not go with the holders') counts as free here: the next try reports it.
    last = answer_for(*seen, request).value_or(lease::Free{0, with_past_runs(*seen)});
    // A success under any of the keys is the answer, even where another key is held.
    if (std::holds_alternative<lease::Done>(last)) return last;
    if (!std::holds_alternative<lease::Free>(last) && !refusal) refusal = last;
    if (refusal && !request.promises.once_per) break;
  }
  return refusal ? std::move(*refusal) : last;
}

namespace {

bool is_free_member(const Answer& answer) {
  return std::holds_alternative<lease::Free>(answer);
}

// The request can choose: it holds no member yet, and more than one is free.
bool several_are_free(const std::vector<Answer>& answers) {
  return std::ranges::count_if(answers, is_free_member) > 1 &&
         std::ranges::none_of(
             answers, [](const Answer& answer) { return std::holds_alternative<lease::Granted>(answer); });
}

}  // namespace

Result<Answer> look_at_pool(LockTable& table, const LeaseRequest& request) {
  const auto members = lease::members_of(request);
  auto keys = keys_of(request.key, request.any);
  std::ranges::sort(keys);
  DBLOCK_TRY(const auto locks, table.read_rows(keys, false));
  const auto rows_of = [&](const LeaseRequest& member) -> const std::optional<LockRows>& {
    return locks[static_cast<std::size_t>(std::ranges::lower_bound(keys, member.key) - keys.begin())];
  };
  std::vector<Answer> answers;
  for (const auto& member : members) {
    const auto& seen = rows_of(member);
    // As in look_together() an error counts as free.
    Answer answer = lease::Free{};
    if (seen) answer = answer_for(*seen, member).value_or(lease::Free{0, with_past_runs(*seen)});
    answers.push_back(std::move(answer));
  }
  if (!several_are_free(answers)) return best_of(std::move(answers));
  // Of several free members one that is for nobody else comes first.
  DBLOCK_TRY(const auto places, table.see_line(request));
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto& seen = rows_of(members[i]);
    if (is_free_member(answers[i]) && !(seen && is_for_others(*seen, members[i], places)))
      return std::move(answers[i]);
  }
  return best_of(std::move(answers));
}

}  // namespace dblock::store
