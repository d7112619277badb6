// The functions of LockTable for grants of more than one row. They run inside a transaction.
#include <algorithm>
#include <tuple>
#include <utility>

#include "store/lock_table.hpp"
#include "store/parameters.hpp"
#include "store/sharing.hpp"

namespace dblock::store {
namespace {

// The state of a row's fence, as survey.sql reports it.
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
std::unexpected<Error> changed_while_locked(const std::string& attempt) {
  return fail(Errc::unreachable, attempt + ": its rows changed while they were locked; try again");
}

// True when no holder of the last sharing may hold the lock beside a holder of `asked`.
bool is_of_another_kind(const lease::Sharing& last, const lease::Sharing& asked) {
  return last.mode != asked.mode || (asked.mode == lease::Mode::slot && last.slots != asked.slots);
}

bool has_row(const Place& place) {
  return place.slot == 0 ||
         std::ranges::find(place.seen.holds, place.slot, &lease::LockStatus::slot) != place.seen.holds.end();
}

Parameters put_parameters(const lease::AcquireRequest& request, const std::vector<Place>& places,
                          lease::Token token) {
  List keys;
  List rows{2, {}};
  for (const auto& place : places) {
    keys.values.emplace_back(place.key.bytes());
    rows.values.emplace_back(place.key.bytes());
    rows.values.emplace_back(std::int64_t{place.slot});
  }
  return grant_parameters(request, request.key) +
         Parameters{{"token", Scalar(token.value)}, {"keys", std::move(keys)}, {"rows", std::move(rows)}};
}

}  // namespace

Result<std::vector<std::optional<Scene>>> LockTable::survey(const std::vector<lease::Key>& keys,
                                                            bool to_change, const std::string& attempt) {
  const Verb verb = to_change ? Verb::survey : Verb::look_all;
  DBLOCK_TRY(const auto found, run(verb, keys_parameters(keys), attempt));
  if (to_change) unfenced_.clear();
  std::vector<lease::LockStatus> seen;
  for (const auto& row : found.rows) {
    if (!row[0]) continue;
    auto& status = seen.emplace_back(read_status(row));
    if (!to_change) continue;
    const auto fence = static_cast<FenceState>(unsigned_number(row[k_status_columns]));
    status.fenced = fence == FenceState::kept && !in_the_way(status);
    if (fence == FenceState::missing) unfenced_.emplace_back(status.key, status.slot);
  }
  std::ranges::sort(seen, in_order);
  return scenes_of(keys, std::move(seen));
}

Result<void> LockTable::abandon_locked(const lease::LockStatus& lease, const std::string& attempt) {
  DBLOCK_TRY(const bool abandoned, abandon(lease, attempt));
  if (!abandoned) return changed_while_locked(attempt);
  return {};
}

Result<void> LockTable::put(const lease::AcquireRequest& request, const std::vector<Place>& places,
                            lease::Token token, const std::string& attempt) {
  ended_.expect(request);
  for (const Place& place : places) DBLOCK_CHECK(make_room(place, request.sharing, attempt));
  const bool alone = request.sharing.mode == lease::Mode::exclusive;
  const auto parameters = put_parameters(request, places, token);
  if (!alone) DBLOCK_CHECK(run(Verb::put_gate, parameters, attempt));
  // The statement must report the token, as later each renewal must report its length. Without the report
  // hear() fails, and the transaction is rolled back.
  const auto undo = [] { return true; };
  DBLOCK_TRY(const auto done, hear(alone ? Verb::put : Verb::put_beside, parameters, attempt, undo));
  if (!done || done->changed != places.size()) return changed_while_locked(attempt);
  return {};
}

// Writes what the grant itself does not: rows and fences that are missing. Before a grant of another kind
// also: the end of all jobs' transactions, and all past runs in the lock's own row.
Result<void> LockTable::make_room(const Place& place, const lease::Sharing& asked,
                                  const std::string& attempt) {
  const bool there = has_row(place);
  const auto row = row_parameters(place.key, place.slot);
  if (!there) DBLOCK_CHECK(run(Verb::add, row, attempt));
  if (!there || std::ranges::find(unfenced_, std::pair(place.key.bytes(), place.slot)) != unfenced_.end())
    DBLOCK_CHECK(run(Verb::add_fence, row, attempt));
  const auto& last = place.seen.gate.sharing;
  if (!is_of_another_kind(last, asked)) return {};
  DBLOCK_CHECK(run(Verb::pass_fences, row, attempt));
  if (place.slot == 0) DBLOCK_CHECK(run(Verb::inherit, past_parameters(whole(place.seen)), attempt));
  return {};
}

}  // namespace dblock::store
