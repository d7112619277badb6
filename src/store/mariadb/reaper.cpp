#include "store/mariadb/reaper.hpp"

#include <utility>
#include <vector>

#include "store/mariadb/statements.hpp"

namespace dblock::store::mariadb {
namespace {

// Rows deleted by one statement: few enough that its row locks delay nobody, enough to get on.
constexpr std::size_t k_batch = 200;

Result<void> free_expired(Connection& connection, EndedRuns& ended, bool dry_run,
                          std::vector<lease::LockStatus>& freed, const std::string& attempt) {
  DBLOCK_TRY(const auto found, connection.read(expired_statement(), attempt, Most::list));
  for (const auto& row : found) {
    auto seen = read_status(row);
    if (!dry_run) {
      DBLOCK_TRY(const bool still_there, abandon_with(connection, ended, seen, attempt));
      if (!still_there) continue;  // taken over or released since it was read
    }
    freed.push_back(std::move(seen));
  }
  return {};
}

Result<std::uint64_t> count_idle(Connection& connection, Micros forget_after, const std::string& attempt) {
  DBLOCK_TRY(const auto found, connection.read(count_idle_statement(forget_after), attempt));
  return found.empty() ? 0 : unsigned_number(found.front()[0]);
}

Result<std::uint64_t> forget_idle(Connection& connection, Micros forget_after, const std::string& attempt) {
  std::uint64_t forgotten = 0;
  for (;;) {
    DBLOCK_TRY(const auto found, connection.read(select_idle_statement(forget_after, k_batch), attempt));
    std::vector<IdleRow> batch;
    std::vector<IdleRow> locks;
    for (const auto& row : found) {
      batch.push_back({row[0].value_or(""), static_cast<std::uint32_t>(unsigned_number(row[1])),
                       unsigned_number(row[2])});
      if (batch.back().slot == 0) locks.push_back(batch.back());
    }
    if (batch.empty()) return forgotten;
    if (!locks.empty())
      DBLOCK_CHECK(connection.change(forget_fences_statement(locks, forget_after), attempt));
    DBLOCK_TRY(const auto changed, connection.change(forget_statement(batch, forget_after), attempt));
    forgotten += changed.rows;
    // The last of them, or rows that something else keeps changing: the next reap sees to those.
    if (batch.size() < k_batch || changed.rows == 0) return forgotten;
  }
}

}  // namespace

Result<bool> abandon_with(Connection& connection, EndedRuns& ended, const lease::LockStatus& lease,
                          const std::string& attempt) {
  DBLOCK_TRY(const auto changed, connection.change(abandon_statement(lease), attempt));
  ended.add_abandoned(lease, changed);
  return changed.rows == 1;
}

Result<lease::ReapReport> reap_with(Connection& connection, EndedRuns& ended,
                                    const lease::ReapRequest& request, const std::string& attempt) {
  lease::ReapReport report;
  DBLOCK_CHECK(free_expired(connection, ended, request.dry_run, report.abandoned, attempt));
  ended.record(connection);
  DBLOCK_CHECK(connection.ensure_open(attempt));
  const auto forget = request.dry_run ? count_idle : forget_idle;
  DBLOCK_TRY(report.forgotten, forget(connection, request.forget_after, attempt));
  if (request.forget_history) {
    DBLOCK_TRY(report.forgotten_runs,
               forget_runs_with(connection, *request.forget_history, request.dry_run, attempt));
  }
  return report;
}

}  // namespace dblock::store::mariadb
