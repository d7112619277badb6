#include "store/rules/lock_table.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "store/parameters.hpp"
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

}  // namespace

Result<bool> LockTable::changes_one(Verb verb, const Parameters& parameters) {
  DBLOCK_TRY(const auto done, run(verb, parameters));
  return done.changed == 1;
}

Result<std::optional<Effect>> LockTable::run_reporting(Verb verb, const Parameters& parameters,
                                                       const std::function<Result<bool>()>& undo) {
  DBLOCK_TRY(auto done, run(verb, parameters));
  if (done.changed == 0) return std::nullopt;
  if (done.reported) return std::optional(std::move(done));
  [[maybe_unused]] const auto undone = undo();
  return database->attempt().refuse(
      Errc::schema, "the server does not tell the token; drop the triggers on dblock's tables");
}

Result<void> LockTable::in_transaction(const Database::Body& body) {
  const auto ended_before = ended.size();
  auto done = database->in_transaction([&] {
    ended.back_to(ended_before);  // forgets the runs of a try that the server rolled back
    return body();
  });
  if (!done) ended.back_to(ended_before);
  return done;
}

std::optional<lease::Token> token_of(const std::optional<Effect>& done) {
  if (!done) return std::nullopt;
  return lease::Token{*done->reported};
}

Result<std::optional<lease::LockStatus>> read_own_row(LockTable& table, const lease::Key& key) {
  DBLOCK_TRY(const auto seen, table.run(Verb::look, key_parameters(key)));
  return read_look(seen.rows);
}

Result<std::vector<std::optional<LockRows>>> read_rows(LockTable& table, const std::vector<lease::Key>& keys,
                                                       bool to_change) {
  const Verb verb = to_change ? Verb::lock_rows : Verb::look_all;
  DBLOCK_TRY(const auto found, table.run(verb, keys_parameters(keys)));
  std::vector<std::pair<std::string, std::uint32_t>> unfenced;
  std::vector<lease::LockStatus> seen;
  for (const auto& row : found.rows) {
    if (!row[0]) continue;
    auto& status = seen.emplace_back(read_status_and_pause(row));
    if (!to_change) continue;
    const auto fence = static_cast<FenceState>(unsigned_number(row[k_status_columns]));
    status.kept_by_transaction = fence == FenceState::kept && !status.refuses_requests();
    if (fence == FenceState::missing) unfenced.emplace_back(status.key, status.slot);
  }
  std::ranges::sort(seen, in_order);
  auto locks = rows_of_locks(keys, std::move(seen));
  for (const auto& [key, slot] : unfenced) {
    const auto lock =
        std::ranges::find_if(locks, [&key](const auto& one) { return one && one->own_row.key == key; });
    if (lock != locks.end()) (*lock)->unfenced.push_back(slot);
  }
  return locks;
}

Result<void> add_lock(LockTable& table, const lease::Key& key) {
  DBLOCK_TRY(const bool added, table.changes_one(Verb::add_row, row_parameters(key, 0)));
  return added ? add_missing_fence(table, key) : Result<void>{};
}

Result<void> add_missing_fence(LockTable& table, const lease::Key& key) {
  DBLOCK_CHECK(table.run(Verb::add_fence, row_parameters(key, 0)));
  return {};
}

Result<bool> release_row(LockTable& table, const lease::LeaseRef& ref, lease::Actor actor,
                         lease::RunEnd end) {
  DBLOCK_TRY(const auto done, table.run(Verb::release, ref_parameters(ref, actor) + end_parameters(end)));
  table.ended.add(ref, end, done);
  return done.changed == 1;
}

Result<bool> abandon(LockTable& table, const lease::LockStatus& lease) {
  DBLOCK_TRY(const auto done, table.run(Verb::abandon, seen_parameters(lease)));
  table.ended.add_abandoned(lease, done);
  return done.changed == 1;
}

Result<lease::ServerTime> read_time(LockTable& table) {
  DBLOCK_TRY(const auto time, table.run(Verb::server_time));
  return lease::ServerTime{time.rows.empty() ? Micros{0} : micros(time.rows.front()[0])};
}

}  // namespace dblock::store
