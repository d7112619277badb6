#include "store/mariadb/reaper.hpp"

#include <utility>
#include <vector>

#include "store/mariadb/hold_statements.hpp"

namespace dblock::store::mariadb {
namespace {

// Rows deleted by one statement: few enough that its row locks delay nobody, enough to get on.
constexpr std::size_t k_batch = 200;

Result<void> free_expired(Connection& connection, EndedRuns& ended, Rows rows, bool dry_run,
                          std::vector<lease::LockStatus>& freed, const std::string& attempt) {
  DBLOCK_TRY(const auto found, connection.read(expired_statement(rows), attempt, Most::list));
  for (const auto& row : found) {
    auto seen = read_status(row);
    if (!dry_run) {
      DBLOCK_TRY(const bool still_there, abandon_with(connection, ended, seen, rows, attempt));
      if (!still_there) continue;  // taken over or released since it was read
    }
    freed.push_back(std::move(seen));
  }
  return {};
}

Result<std::uint64_t> count_idle(Connection& connection, Rows rows, Micros forget_after,
                                 const std::string& attempt) {
  DBLOCK_TRY(const auto found, connection.read(count_idle_statement(rows, forget_after), attempt));
  return found.empty() ? 0 : unsigned_number(found.front()[0]);
}

Result<std::uint64_t> forget_idle(Connection& connection, Rows rows, Micros forget_after,
                                  const std::string& attempt) {
  std::uint64_t forgotten = 0;
  for (;;) {
    DBLOCK_TRY(const auto found,
               connection.read(select_idle_statement(rows, forget_after, k_batch), attempt));
    std::vector<IdleRow> batch;
    for (const auto& row : found)
      batch.push_back({row[0].value_or(""), unsigned_number(row[1]), unsigned_number(row[2])});
    if (batch.empty()) return forgotten;
    if (rows == Rows::locks)
      DBLOCK_CHECK(connection.change(forget_fences_statement(batch, forget_after), attempt));
    DBLOCK_TRY(const auto changed, connection.change(forget_statement(rows, batch, forget_after), attempt));
    forgotten += changed.rows;
    // The last of them, or rows that something else keeps changing: the next reap sees to those.
    if (batch.size() < k_batch || changed.rows == 0) return forgotten;
  }
}

}  // namespace

Result<bool> abandon_with(Connection& connection, EndedRuns& ended, const lease::LockStatus& lease, Rows rows,
                          const std::string& attempt) {
  DBLOCK_TRY(const auto changed, connection.change(abandon_statement(lease, rows), attempt));
  ended.add_abandoned(rows, lease, changed);
  if (changed.rows == 1 && rows == Rows::holds)
    DBLOCK_CHECK(connection.change(record_abandoned_statement(lease), attempt));
  return changed.rows == 1;
}

Result<lease::ReapReport> reap_with(Connection& connection, EndedRuns& ended,
                                    const lease::ReapRequest& request, const std::string& attempt) {
  lease::ReapReport report;
  for (const Rows rows : {Rows::locks, Rows::holds})
    DBLOCK_CHECK(free_expired(connection, ended, rows, request.dry_run, report.abandoned, attempt));
  ended.record(connection);
  DBLOCK_CHECK(connection.ensure_open(attempt));
  const auto forget = request.dry_run ? count_idle : forget_idle;
  for (const Rows rows : {Rows::locks, Rows::holds}) {
    DBLOCK_TRY(const auto count, forget(connection, rows, request.forget_after, attempt));
    report.forgotten += count;
  }
  if (request.forget_history) {
    DBLOCK_TRY(report.forgotten_runs,
               forget_runs_with(connection, *request.forget_history, request.dry_run, attempt));
  }
  return report;
}

}  // namespace dblock::store::mariadb
