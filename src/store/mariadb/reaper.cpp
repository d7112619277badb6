#include "store/mariadb/reaper.hpp"

#include <utility>
#include <vector>

namespace dblock::store::mariadb {
namespace {

// Rows deleted by one statement: few enough that its row locks delay nobody, enough to get on.
constexpr std::size_t k_batch = 200;

Result<std::vector<lease::LockStatus>> abandoned(Connection& connection, bool dry_run,
                                                 const std::string& attempt) {
  DBLOCK_TRY(const auto rows, connection.read(expired_statement(), attempt));
  std::vector<lease::LockStatus> freed;
  for (const auto& row : rows) {
    auto seen = read_status(row);
    if (!dry_run) {
      DBLOCK_TRY(const auto changed, connection.change(abandon_statement(seen), attempt));
      if (changed.rows == 0) continue;  // taken over or released since it was read
    }
    freed.push_back(std::move(seen));
  }
  return freed;
}

Result<std::uint64_t> count_idle(Connection& connection, Micros forget_after, const std::string& attempt) {
  DBLOCK_TRY(const auto rows, connection.read(count_idle_statement(forget_after), attempt));
  return rows.empty() ? 0 : unsigned_number(rows.front().front());
}

Result<std::uint64_t> forget_idle(Connection& connection, Micros forget_after, const std::string& attempt) {
  std::uint64_t forgotten = 0;
  for (;;) {
    DBLOCK_TRY(const auto rows, connection.read(select_idle_statement(forget_after, k_batch), attempt));
    std::vector<IdleRow> batch;
    for (const auto& row : rows) batch.push_back({row[0].value_or(""), unsigned_number(row[1])});
    if (batch.empty()) return forgotten;
    DBLOCK_TRY(const auto changed, connection.change(forget_statement(batch, forget_after), attempt));
    forgotten += changed.rows;
    // The last of them, or rows that something else keeps changing: the next reap sees to those.
    if (batch.size() < k_batch || changed.rows == 0) return forgotten;
  }
}

}  // namespace

Result<lease::ReapReport> reap_with(Connection& connection, const lease::ReapRequest& request,
                                    const std::string& attempt) {
  lease::ReapReport report;
  DBLOCK_TRY(report.abandoned, abandoned(connection, request.dry_run, attempt));
  DBLOCK_TRY(report.forgotten, request.dry_run ? count_idle(connection, request.forget_after, attempt)
                                               : forget_idle(connection, request.forget_after, attempt));
  return report;
}

}  // namespace dblock::store::mariadb
