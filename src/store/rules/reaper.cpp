// Reaping: free expired leases, and delete locks that are idle for long.
#include <algorithm>
#include <utility>

#include "store/parameters.hpp"
#include "store/rules/table_lease_store.hpp"

namespace dblock::store {
namespace {

constexpr const char* k_attempt = "cannot reap locks";

// Locks deleted by one statement: few enough that its row locks delay no other statement, enough to get on.
constexpr std::size_t k_batch = 200;

// keys, and rows of key and version
Parameters locks_of(const std::vector<Row>& idle) {
  std::vector<std::vector<Scalar>> rows;
  for (const auto& row : idle) rows.push_back({row[0].value_or(""), unsigned_number(row[1])});
  return rows_parameters(rows);
}

Result<void> free_expired(LockTable& table, bool dry_run, std::vector<lease::LockStatus>& freed) {
  DBLOCK_TRY(const auto found, table.run(Verb::expired));
  for (const auto& row : found.rows) {
    auto seen = read_status(row);
    if (!dry_run) {
      DBLOCK_TRY(const bool still_there, abandon(table, seen));
      if (!still_there) continue;  // taken over or released since the row was read
    }
    freed.push_back(std::move(seen));
  }
  return {};
}

Result<std::uint64_t> forget_idle(LockTable& table, Micros forget_after) {
  const auto some = forget_parameters(forget_after, k_batch);
  std::uint64_t forgotten = 0;
  bool more = true;
  const auto forget = [&]() -> Result<void> {
    DBLOCK_TRY(const auto idle, table.run(Verb::select_idle, some));
    more = idle.rows.size() == k_batch;
    if (idle.rows.empty()) return {};
    const auto locks = some + locks_of(idle.rows);
    DBLOCK_CHECK(table.run(Verb::forget_fences, locks));
    DBLOCK_TRY(const auto gone, table.run(Verb::forget, locks));
    forgotten += gone.changed;
    // Nothing was deleted: other processes have taken these locks meanwhile. The next reap sees to them.
    more = more && gone.changed > 0;
    std::uint64_t highest = 0;
    for (const auto& row : gone.rows) highest = std::max(highest, unsigned_number(row[0]));
    DBLOCK_CHECK(table.run(Verb::raise_floor, {{"token", Scalar(highest)}}));
    return {};
  };
  while (more) DBLOCK_CHECK(table.database->in_transaction_if_cheaper(forget));
  return forgotten;
}

}  // namespace

Result<lease::ReapReport> TableLeaseStore::reap(const lease::ReapOptions& options) {
  lease::ReapReport report;
  {
    const Database::Call call(*table_.database, k_attempt);
    DBLOCK_CHECK(call.open());
    DBLOCK_CHECK(free_expired(table_, options.dry_run, report.abandoned));
  }
  table_.ended.record(*table_.database);
  const Database::Call call(*table_.database, k_attempt);
  DBLOCK_CHECK(call.open());
  if (!options.dry_run) DBLOCK_CHECK(table_.run(Verb::forget_places));
  const Micros old = std::max(options.forget_after, k_least_idle_time);
  DBLOCK_TRY(report.forgotten,
             options.dry_run ? read_count(table_, Verb::count_idle, old) : forget_idle(table_, old));
  if (options.forget_history) {
    DBLOCK_TRY(report.forgotten_runs, forget_runs(table_, *options.forget_history, options.dry_run));
  }
  return report;
}

}  // namespace dblock::store
