// The functions of TableLeaseStore that look at locks and past runs, and change nothing.
#include <algorithm>
#include <span>
#include <utility>

#include "store/rules/sharing.hpp"
#include "store/rules/table_lease_store.hpp"

namespace dblock::store {
namespace {

using Call = Database::Call;
using lease::Answer;
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

}  // namespace

Result<Answer> TableLeaseStore::look(const lease::LeaseRequest& request) {
  const Call call(table_->database(), {"look at", request.key});
  DBLOCK_CHECK(call.open());
  if (request.of_pool()) return with_pause(look_at_pool(*table_, request));
  if (!request.plain()) return with_pause(look_together(*table_, request));
  DBLOCK_TRY(auto seen, table_->look(request.key));
  return with_pause(judge(request, std::move(seen)));
}

Result<lease::SeenInLine> TableLeaseStore::look_in_line(const lease::LeaseRequest& request) {
  if (!request.plain()) return LeaseStore::look_in_line(request);
  const Call call(table_->database(), {"look at", request.key});
  DBLOCK_CHECK(call.open());
  DBLOCK_TRY(auto seen, table_->look_in_line(request.key));
  DBLOCK_TRY(auto answer, with_pause(judge(request, std::move(seen.row))));
  return lease::SeenInLine{std::move(answer), std::move(seen.places)};
}

// The answer to an exclusive request of one key, from the lock's own row.
Result<Answer> TableLeaseStore::judge(const lease::LeaseRequest& request, std::optional<LockStatus> seen) {
  if (!seen) return lease::Free{};
  if (seen->sharing.mode != lease::Mode::exclusive) return look_together(*table_, request);
  return answer_for({std::move(*seen), {}}, request);
}

// The row of `ref` among all rows of its lock, also when its lease has ended. Where there is none: another
// holder's row, or else the lock's own.
Result<std::optional<LockStatus>> TableLeaseStore::own_row(const lease::LeaseRef& ref) {
  return row_where(ref.key, [&ref](const LockStatus& row) {
    if (row.owner == ref.owner.text) return !ref.token || row.token == *ref.token;
    return row.slot > 0 && ref.token && row.token == *ref.token;
  });
}

Result<std::optional<LockStatus>> TableLeaseStore::row_where(
    const Key& key, const std::function<bool(const LockStatus&)>& wanted) {
  DBLOCK_CHECK(table_->ensure_open());
  DBLOCK_TRY(auto gate, table_->look(key));
  if (!gate || wanted(*gate) || gate->sharing.mode == lease::Mode::exclusive) return gate;
  DBLOCK_TRY(auto locks, table_->read_rows({key}, false));
  auto& seen = locks.front();
  if (!seen) return std::nullopt;
  for (auto& hold : seen->holds) {
    if (wanted(hold)) return std::move(hold);
  }
  for (auto& hold : seen->holds) {
    if (keeps_the_lock(hold)) return std::move(hold);
  }
  return with_past_runs(*seen);
}

Result<lease::Listing> TableLeaseStore::list(const lease::Selection& selection) {
  const Call call(table_->database(), "cannot list locks");
  DBLOCK_CHECK(call.open());
  lease::Listing listing;
  const auto read = [&]() -> Result<void> {
    DBLOCK_TRY(listing, table_->list(selection));
    return {};
  };
  DBLOCK_CHECK(selection.from_primary ? table_->on_primary(read) : read());
  show_by_holders(listing.locks);
  if (selection.with_transactions) DBLOCK_CHECK(find_transaction(listing));
  return listing;
}

// Not where a lock is held or paused: then a transaction would change no answer, and its fence may belong to
// a living holder.
Result<void> TableLeaseStore::find_transaction(lease::Listing& listing) {
  const auto is_kept = [&listing](const LockStatus& row) {
    return row.refuses_requests() || std::ranges::any_of(listing.pauses, [&row](const lease::Pause& pause) {
             return pause.scope.covers(row.key);
           });
  };
  if (std::ranges::any_of(listing.locks, is_kept)) return {};
  for (auto& row : listing.locks) {
    const auto key = Key::parse(row.key);
    if (!key) continue;
    DBLOCK_TRY(row.kept_by_transaction, table_->database().waits_for_fence(*key));
    if (row.kept_by_transaction) return {};
  }
  return {};
}

Result<lease::History> TableLeaseStore::history(const lease::HistoryQuery& query) {
  const Call call(table_->database(), "cannot read the history");
  DBLOCK_CHECK(call.open());
  return table_->history(query);
}

}  // namespace dblock::store
