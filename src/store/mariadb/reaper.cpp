#include "store/mariadb/reaper.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "store/mariadb/verbs.hpp"
#include "store/parameters.hpp"

namespace dblock::store::mariadb {
namespace {

// Rows deleted by one statement: few enough that its row locks delay nobody, enough to get on.
constexpr std::size_t k_batch = 200;

Result<void> free_expired(Connection& connection, EndedRuns& ended, bool dry_run,
                          std::vector<lease::LockStatus>& freed, const std::string& attempt) {
  DBLOCK_TRY(const auto found, connection.read(render(Verb::expired), attempt, Most::list));
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
  DBLOCK_TRY(const auto found,
             connection.read(render(Verb::count_idle, forget_parameters(forget_after, k_batch)), attempt));
  return found.empty() ? 0 : unsigned_number(found.front()[0]);
}

Result<std::uint64_t> forget_idle(Connection& connection, Micros forget_after, const std::string& attempt) {
  std::uint64_t forgotten = 0;
  const auto parameters = forget_parameters(forget_after, k_batch);
  for (;;) {
    DBLOCK_TRY(const auto found, connection.read(render(Verb::select_idle, parameters), attempt));
    if (found.empty()) return forgotten;
    List rows{3, {}};
    List locks;
    for (const auto& row : found) {
      rows.values.emplace_back(row[0].value_or(""));
      rows.values.emplace_back(unsigned_number(row[1]));
      rows.values.emplace_back(unsigned_number(row[2]));
      if (unsigned_number(row[1]) == 0) locks.values.emplace_back(row[0].value_or(""));
    }
    if (!locks.values.empty()) {
      const auto of_locks = parameters + Parameters{{"keys", std::move(locks)}};
      DBLOCK_CHECK(connection.change(render(Verb::forget_fences, of_locks), attempt));
    }
    const auto batch = parameters + Parameters{{"rows", std::move(rows)}};
    DBLOCK_TRY(const auto changed, connection.change(render(Verb::forget, batch), attempt));
    forgotten += changed.rows;
    // The last of them, or rows that something else keeps changing: the next reap sees to those.
    if (found.size() < k_batch || changed.rows == 0) return forgotten;
  }
}

}  // namespace

Result<bool> abandon_with(Connection& connection, EndedRuns& ended, const lease::LockStatus& lease,
                          const std::string& attempt) {
  DBLOCK_TRY(const auto changed, connection.change(render(Verb::abandon, seen_parameters(lease)), attempt));
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
  DBLOCK_TRY(report.forgotten,
             forget(connection, std::max(request.forget_after, k_least_idle_time), attempt));
  if (request.forget_history) {
    DBLOCK_TRY(report.forgotten_runs,
               forget_runs_with(connection, *request.forget_history, request.dry_run, attempt));
  }
  return report;
}

}  // namespace dblock::store::mariadb
