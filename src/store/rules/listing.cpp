// Listing: the rows that people and monitoring are shown.
#include <algorithm>
#include <span>
#include <utility>

#include "store/parameters.hpp"
#include "store/rules/sharing.hpp"
#include "store/rules/table_lease_store.hpp"

namespace dblock::store {
namespace {

using Call = Database::Call;
using lease::Key;
using lease::LockStatus;

// Keeps one row for each holder of a lock, or else the lock's own row, and gives each the past runs of all
// rows of the lock, and the time since which all are free. Drops the free rows of readers and slots.
// REQUIRES: `rows` are ordered by key and slot.
void show_by_holders(std::vector<LockStatus>& rows) {
  std::vector<LockStatus> shown;
  for (std::size_t first = 0, next = 0; first < rows.size(); first = next) {
    while (next < rows.size() && rows[next].key == rows[first].key) ++next;
    const std::span lock(&rows[first], next - first);
    LockStatus past = lock.front();
    lease::ServerTime free_since{};
    for (const auto& row : lock) {
      merge_past_runs(past, row);
      free_since = std::max(free_since, row.free_since());
    }
    const bool by_others =
        std::ranges::any_of(lock, [](const LockStatus& row) { return row.slot > 0 && keeps_the_lock(row); });
    for (auto& row : lock) {
      if (row.slot > 0 ? !keeps_the_lock(row) : by_others && row.owner.empty()) continue;
      row.last = past.last;
      row.last_success = past.last_success;
      row.refused_until = free_since;
      shown.push_back(std::move(row));
    }
  }
  rows = std::move(shown);
}

// The selected rows. Free rows of readers and slots are among them, unless only held locks are asked for,
// and so are locks without a row for which somebody waits.
Result<lease::Listing> read_listing(LockTable& table, const lease::Selection& selection) {
  const bool all_keys = selection.keys.empty() && selection.prefix.value_or("").empty();
  const Verb among = selection.keys.empty() ? Verb::list_range : Verb::list_keys;
  const Verb verb = all_keys && selection.held_only ? Verb::list_held : among;
  lease::Listing listing;
  if (selection.with_pauses) {
    DBLOCK_TRY(listing.pauses, read_pauses(table));
  }
  DBLOCK_TRY(const auto found, table.run(verb, selection_parameters(selection)));
  listing.locks.reserve(found.rows.size());
  for (const auto& row : found.rows) listing.locks.push_back(read_status(row));
  if (listing.locks.empty()) {
    DBLOCK_TRY(listing.server_time, read_time(table));
    if (selection.held_only) return listing;
  } else {
    listing.server_time = listing.locks.front().server_time;
  }
  DBLOCK_CHECK(add_waiters(table, selection, listing));
  return listing;
}

// Not where a lock is held or paused: then a transaction would change no answer, and its fence may belong to
// a living holder.
Result<void> find_transaction(LockTable& table, lease::Listing& listing) {
  const auto is_kept = [&listing](const LockStatus& row) {
    return row.refuses_requests() || std::ranges::any_of(listing.pauses, [&row](const lease::Pause& pause) {
             return pause.scope.covers(row.key);
           });
  };
  if (std::ranges::any_of(listing.locks, is_kept)) return {};
  for (auto& row : listing.locks) {
    const auto key = Key::parse(row.key);
    if (!key) continue;
    DBLOCK_TRY(row.kept_by_transaction, table.database->waits_for_fence(*key));
    if (row.kept_by_transaction) return {};
  }
  return {};
}

}  // namespace

Result<lease::Listing> TableLeaseStore::list(const lease::Selection& selection) {
  const Call call(*table_.database, "cannot list locks");
  DBLOCK_CHECK(call.open());
  lease::Listing listing;
  const auto read = [&]() -> Result<void> {
    DBLOCK_TRY(listing, read_listing(table_, selection));
    return {};
  };
  DBLOCK_CHECK(selection.from_primary ? table_.database->on_primary(read) : read());
  show_by_holders(listing.locks);
  if (selection.with_transactions) DBLOCK_CHECK(find_transaction(table_, listing));
  return listing;
}

}  // namespace dblock::store
