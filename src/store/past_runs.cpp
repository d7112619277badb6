// How rows of dblock_history are read, and the functions of TableLeaseStore for the history.
#include "store/past_runs.hpp"

#include "store/table_lease_store.hpp"

namespace dblock::store {
namespace {

lease::Mode mode_of(const Field& field) {
  if (field == to_string(lease::Mode::shared)) return lease::Mode::shared;
  if (field == to_string(lease::Mode::slot)) return lease::Mode::slot;
  return lease::Mode::exclusive;
}

}  // namespace

lease::RecordedRun read_recorded_run(const Row& row) {
  lease::RecordedRun run;
  std::size_t i = 0;
  run.key = row[i++].value_or("");
  run.token = {unsigned_number(row[i++])};
  run.owner = row[i++].value_or("");
  run.kind = row[i++] == to_string(lease::Kind::acquire) ? lease::Kind::acquire : lease::Kind::run;
  run.mode = mode_of(row[i++]);
  run.holder.host = row[i++].value_or("");
  run.holder.pid = static_cast<std::uint32_t>(unsigned_number(row[i++]));
  run.holder.user = row[i++].value_or("");
  run.holder.command = row[i++].value_or("");
  run.holder.note = row[i++].value_or("");
  run.acquired_at = time(row[i++]);
  run.released_at = time(row[i++]);
  run.recorded_at = time(row[i++]).value_or(lease::ServerTime{});
  if (row[i]) run.outcome = lease::parse_outcome(*row[i]);
  if (row[++i]) run.exit_code = static_cast<int>(number(row[i]));
  return run;
}

void merge(lease::History& history, std::vector<lease::RecordedRun> more) {
  auto& runs = history.runs;
  std::ranges::move(more, std::back_inserter(runs));
  std::ranges::sort(runs, std::ranges::greater{}, [](const lease::RecordedRun& run) {
    return std::pair(run.recorded_at.since_epoch, run.token.value);
  });
}

void cut(lease::History& history, std::size_t limit) {
  history.cut = history.runs.size() > limit;
  if (history.cut)
    history.runs.erase(history.runs.begin() + static_cast<std::ptrdiff_t>(limit), history.runs.end());
}

Result<lease::History> TableLeaseStore::history(const lease::HistoryQuery& query) {
  const LockTable::Call call(*table_);
  const std::string attempt = "cannot read the history";
  DBLOCK_CHECK(table_->ensure_open(attempt));
  return table_->history(query, attempt);
}

void TableLeaseStore::record_ended() noexcept {
  const LockTable::Call call(*table_);
  table_->record_ended();
}

}  // namespace dblock::store
