// The functions of LockTable for grants of more than one row. They run inside a transaction.
#include <algorithm>
#include <tuple>
#include <utility>

#include "store/parameters.hpp"
#include "store/rules/lock_table.hpp"
#include "store/rules/sharing.hpp"

namespace dblock::store {
namespace {

// The state of a row's fence, as lock_rows.sql reports it.
enum class FenceState : std::uint64_t {
  open,     // open, or not looked at because the lease lives; or this database has no fences
  kept,     // locked by a job's transaction that called dblock_assert_held()
  missing,  // the row has no fence
};

bool in_order(const lease::LockStatus& one, const lease::LockStatus& other) {
  return std::tie(one.key, one.slot) < std::tie(other.key, other.slot);
}

// A server that breaks its row locks cannot be relied on, nor can a proxy that sends statements twice. The
// error rolls the transaction back.
std::unexpected<Error> changed_while_locked(const Database& database) {
  return database.refuse(Errc::unreachable, "its rows changed while they were locked; try again");
}

bool has_row(const GrantTarget& target) {
  return target.slot == 0 || std::ranges::find(target.seen.holds, target.slot, &lease::LockStatus::slot) !=
                                 target.seen.holds.end();
}

Parameters grant_rows_parameters(const lease::LeaseRequest& request, const std::vector<GrantTarget>& targets,
                                 lease::Token token) {
  std::vector<std::vector<Scalar>> rows;
  for (const auto& target : targets) rows.push_back({target.key.bytes(), std::int64_t{target.slot}});
  return grant_parameters(request, request.key) + rows_parameters(rows) +
         Parameters{{"token", Scalar(token.value)}};
}

}  // namespace

Result<std::vector<std::optional<LockRows>>> LockTable::read_rows(const std::vector<lease::Key>& keys,
                                                                  bool to_change) {
  const Verb verb = to_change ? Verb::lock_rows : Verb::look_all;
  DBLOCK_TRY(const auto found, run(verb, keys_parameters(keys)));
  if (to_change) unfenced_.clear();
  std::vector<lease::LockStatus> seen;
  for (const auto& row : found.rows) {
    if (!row[0]) continue;
    auto& status = seen.emplace_back(read_status_and_pause(row));
    if (!to_change) continue;
    const auto fence = static_cast<FenceState>(unsigned_number(row[k_status_columns]));
    status.kept_by_transaction = fence == FenceState::kept && !status.refuses_requests();
    if (fence == FenceState::missing) unfenced_.emplace_back(status.key, status.slot);
  }
  std::ranges::sort(seen, in_order);
  return rows_of_locks(keys, std::move(seen));
}

Result<void> LockTable::abandon_locked(const lease::LockStatus& lease) {
  DBLOCK_TRY(const bool abandoned, abandon(lease));
  if (!abandoned) return changed_while_locked(*database_);
  return {};
}

Result<void> LockTable::grant_rows(const lease::LeaseRequest& request,
                                   const std::vector<GrantTarget>& targets, lease::Token token,
                                   std::optional<lease::ServerTime> line_until) {
  ended_.expect(request);
  for (const GrantTarget& target : targets) DBLOCK_CHECK(make_room(target, request.sharing));
  const bool alone = request.sharing.mode == lease::Mode::exclusive;
  const auto parameters =
      grant_rows_parameters(request, targets, token) + Parameters{{"line_until", time_or_null(line_until)}};
  if (!alone) DBLOCK_CHECK(run(Verb::grant_gate, parameters));
  // The statement must report the token, as later each renewal must report its length. Without the report
  // run_reporting() fails, and the transaction is rolled back.
  const auto undo = [] { return true; };
  DBLOCK_TRY(const auto done, run_reporting(alone ? Verb::grant_rows : Verb::grant_beside, parameters, undo));
  if (!done || done->changed != targets.size()) return changed_while_locked(*database_);
  return {};
}

// Writes what the grant itself does not: rows and fences that are missing. Before a grant of another kind
// also: the end of all jobs' transactions, and all past runs in the lock's own row.
Result<void> LockTable::make_room(const GrantTarget& target, const lease::Sharing& asked) {
  const bool there = has_row(target);
  const auto row = row_parameters(target.key, target.slot);
  if (!there) DBLOCK_CHECK(run(Verb::add_row, row));
  if (!there || std::ranges::find(unfenced_, std::pair(target.key.bytes(), target.slot)) != unfenced_.end())
    DBLOCK_CHECK(run(Verb::add_fence, row));
  if (!changes_kind(target.seen.gate.sharing, asked)) return {};
  DBLOCK_CHECK(run(Verb::wait_for_fences, row));
  if (target.slot == 0)
    DBLOCK_CHECK(run(Verb::collect_past_runs, past_parameters(with_past_runs(target.seen))));
  return {};
}

}  // namespace dblock::store
