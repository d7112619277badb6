#include "store/rules/several_rows.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "lease/line.hpp"
#include "store/parameters.hpp"
#include "store/rows.hpp"
#include "store/rules/sharing.hpp"

namespace dblock::store {
namespace {

using lease::Answer;
using lease::Key;
using lease::LeaseRequest;

using RowsOfLocks = std::vector<std::optional<LockRows>>;

// Where a grant of one key is written: to row `slot` of a lock that was `seen` in this state.
struct GrantTarget {
  lease::Key key;
  LockRows seen;
  std::uint32_t slot = 0;
};

// A server that breaks its row locks cannot be relied on, nor can a proxy that sends statements twice. The
// error rolls the transaction back.
std::unexpected<Error> changed_while_locked(const Database& database) {
  return database.attempt().refuse(Errc::unreachable, "its rows changed while they were locked; try again");
}

Result<void> abandon_locked(LockTable& table, const lease::LockStatus& lease) {
  DBLOCK_TRY(const bool abandoned, abandon(table, lease));
  if (!abandoned) return changed_while_locked(*table.database);
  return {};
}

// Frees leases past their margin, so that a renewal of theirs that was sent in time and comes late matches no
// row. A grant of the same kind as the last one leaves its fellow holders' rows alone: it overwrites the row
// it takes.
Result<void> clear(LockTable& table, GrantTarget& target, const LeaseRequest& request) {
  auto& own_row = target.seen.own_row;
  const bool alone = request.sharing.mode == lease::Mode::exclusive;
  if (!alone && !own_row.owner.empty()) DBLOCK_CHECK(abandon_locked(table, own_row));
  if (!changes_kind(own_row.sharing, request.sharing)) return {};
  for (auto& holder : target.seen.holders) {
    if (holder.owner.empty()) continue;
    DBLOCK_CHECK(abandon_locked(table, holder));
    holder.last = abandoned_run(holder);
  }
  return {};
}

bool has_row(const GrantTarget& target) {
  return target.slot == 0 || std::ranges::find(target.seen.holders, target.slot, &lease::LockStatus::slot) !=
                                 target.seen.holders.end();
}

// Writes what the grant itself does not: rows and fences that are missing. Before a grant of another kind
// also: the end of all jobs' transactions, and all past runs in the lock's own row.
Result<void> make_room(LockTable& table, const GrantTarget& target, const lease::Sharing& asked) {
  const bool there = has_row(target);
  const auto row = row_parameters(target.key, target.slot);
  if (!there) DBLOCK_CHECK(table.run(Verb::add_row, row));
  if (!there || std::ranges::find(target.seen.unfenced, target.slot) != target.seen.unfenced.end())
    DBLOCK_CHECK(table.run(Verb::add_fence, row));
  if (!changes_kind(target.seen.own_row.sharing, asked)) return {};
  DBLOCK_CHECK(table.run(Verb::wait_for_fences, row));
  if (target.slot == 0)
    DBLOCK_CHECK(table.run(Verb::collect_past_runs, past_parameters(with_past_runs(target.seen))));
  return {};
}

Parameters grant_rows_parameters(const lease::LeaseRequest& request, const std::vector<GrantTarget>& targets,
                                 lease::Token token) {
  std::vector<std::vector<Scalar>> rows;
  for (const auto& target : targets) rows.push_back({target.key.bytes(), std::int64_t{target.slot}});
  return grant_parameters(request, request.key) + rows_parameters(rows) +
         Parameters{{"token", Scalar(token.value)}};
}

// Writes a grant to all its targets. The lock's own row of each key takes the token and the sharing in any
// case, and until when others may be waiting (nullopt: nobody is).
Result<void> grant_rows(LockTable& table, const lease::LeaseRequest& request,
                        const std::vector<GrantTarget>& targets, lease::Token token,
                        std::optional<lease::ServerTime> line_until) {
  table.ended.expect(request);
  for (const GrantTarget& target : targets) DBLOCK_CHECK(make_room(table, target, request.sharing));
  const bool alone = request.sharing.mode == lease::Mode::exclusive;
  const auto parameters =
      grant_rows_parameters(request, targets, token) + Parameters{{"line_until", time_or_null(line_until)}};
  if (!alone) DBLOCK_CHECK(table.run(Verb::grant_own_rows, parameters));
  // The statement must report the token, as later each renewal must report its length. Without the report
  // run_reporting() fails, and the transaction is rolled back. Another token is that of another statement's
  // reply.
  const auto undo = [] { return true; };
  DBLOCK_TRY(const auto done,
             table.run_reporting(alone ? Verb::grant_rows : Verb::grant_beside, parameters, undo));
  if (!done || done->changed != targets.size() || done->reported != token.value)
    return changed_while_locked(*table.database);
  return {};
}

class GrantOfSeveral {
 public:
  GrantOfSeveral(LockTable& table, const LeaseRequest& request, BootTime sent_at)
      : table_(table),
        request_(request),
        keys_(keys_of(request.key, request.further_keys)),
        sent_at_(sent_at) {}

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
    DBLOCK_TRY(const RowsOfLocks seen, read_rows(table_, keys_, true));
    places_.clear();
    if (std::ranges::any_of(seen, [](const auto& lock) { return lock && lock->own_row.has_line(); })) {
      DBLOCK_TRY(places_, read_line(table_, request_));
    }
    DBLOCK_CHECK(decide_on(seen));
    if (answer_) return {};
    if (targets_.size() == keys_.size()) return take();
    if (!adds_rows_)
      return table_.database->attempt().refuse(Errc::unreachable,
                                               "its row vanished; is another tool deleting rows?");
    for (std::size_t i = 0; i < keys_.size(); ++i)
      if (!seen[i]) DBLOCK_CHECK(add_lock(table_, keys_[i]));
    return {};
  }

  Result<void> take() {
    lease::Token token;
    for (const GrantTarget& target : targets_) {
      const auto& own_row = target.seen.own_row;
      const auto now = static_cast<std::uint64_t>(own_row.server_time.since_epoch.count());
      token.value = std::max({token.value, own_row.token.value + 1, now});
    }
    for (GrantTarget& target : targets_) DBLOCK_CHECK(clear(table_, target, request_));
    DBLOCK_CHECK(grant_rows(table_, request_, targets_, token, line_of_others()));
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
        DBLOCK_CHECK(delete_places(table_, passed, false));
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

}  // namespace

Result<Answer> take_several(LockTable& table, const LeaseRequest& request, BootTime sent_at) {
  return GrantOfSeveral(table, request, sent_at).run();
}

}  // namespace dblock::store
