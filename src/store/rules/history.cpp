#include "store/rules/history.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/log.hpp"
#include "store/parameters.hpp"
#include "store/rows.hpp"
#include "store/rules/table_lease_store.hpp"

namespace dblock::store {
namespace {

Parameters run_parameters(const EndedRun& run) {
  return Parameters{{"key", Scalar(run.key)},
                    {"token", Scalar(run.token.value)},
                    {"owner", Scalar(run.owner)},
                    {"was_released", flag(run.was_released)}} +
         holder_parameters(run.kind, run.holder) + sharing_parameters({run.mode, 1}) +
         end_parameters(run.end);
}

// The columns of {run} in sql/verbs/*/terms.sql.
lease::RecordedRun read_recorded_run(const Row& row) {
  lease::RecordedRun run;
  std::size_t i = 0;
  run.key = row[i++].value_or("");
  run.token = {unsigned_number(row[i++])};
  run.owner = row[i++].value_or("");
  run.kind = lease::parse_kind(row[i++].value_or(""));
  run.mode = read_mode(row[i++]);
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
  if (row[++i]) run.attempts = static_cast<std::uint32_t>(unsigned_number(row[i]));
  return run;
}

// Adds more runs, keeping the order.
void merge(lease::History& history, std::vector<lease::RecordedRun> more) {
  auto& runs = history.runs;
  std::ranges::move(more, std::back_inserter(runs));
  std::ranges::sort(runs, std::ranges::greater{}, [](const lease::RecordedRun& run) {
    return std::pair(run.recorded_at.since_epoch, run.token.value);
  });
}

// Drops the runs beyond `limit`, and sets History::cut where there were any.
void cut(lease::History& history, std::size_t limit) {
  history.cut = history.runs.size() > limit;
  if (history.cut)
    history.runs.erase(history.runs.begin() + static_cast<std::ptrdiff_t>(limit), history.runs.end());
}

}  // namespace

void EndedRuns::expect(const lease::LeaseRequest& request) {
  expected_.owner = request.owner.text;
  expected_.kind = request.kind;
  expected_.mode = request.sharing.mode;
  expected_.holder = request.holder;
}

void EndedRuns::add(const lease::LeaseRef& ref, lease::RunEnd end, const Effect& done) {
  if (done.changed == 0 || !done.reported) return;
  EndedRun run = expected_.owner == ref.owner.text ? expected_ : EndedRun{};
  run.key = ref.key.bytes();
  run.token = {*done.reported};
  run.owner = ref.owner.text;
  run.end = end;
  runs_.push_back(std::move(run));
}

void EndedRuns::add_forced(const lease::Key& key, const Effect& done) {
  add({key, {}, std::nullopt}, {lease::RunOutcome::abandoned, std::nullopt}, done);
}

void EndedRuns::add_abandoned(const lease::LockStatus& lease, const Effect& done) {
  if (done.changed == 0 || !done.reported) return;
  runs_.push_back({lease.key,
                   lease.token,
                   lease.owner,
                   false,
                   {lease::RunOutcome::abandoned, std::nullopt},
                   lease.kind,
                   lease.sharing.mode,
                   lease.holder});
}

// The lock is free already: a failure here costs records of the history and nothing else.
void EndedRuns::record(Database& database) {
  if (runs_.empty()) return;
  const Database::Call call(database, "cannot record the run in the history");
  for (const auto& run : std::exchange(runs_, {})) {
    auto done = call.open();
    if (done) {
      auto recorded = database.run(Verb::record_run, run_parameters(run));
      if (!recorded) done = std::unexpected(std::move(recorded.error()));
    }
    if (done) continue;
    log::warning(done.error().message);
    return;
  }
}

Result<lease::History> TableLeaseStore::history(const lease::HistoryQuery& query) {
  const Database::Call call(*table_.database, "cannot read the history");
  DBLOCK_CHECK(call.open());
  lease::History history;
  DBLOCK_TRY(const auto state, table_.run(Verb::history_state));
  if (!state.rows.empty()) {
    history.kept = number(state.rows.front()[0]) != 0;
    history.server_time = {micros(state.rows.front()[1])};
  }
  DBLOCK_TRY(const auto tables, read_count(table_, Verb::history_is_there, Micros{0}));
  if (tables == 0 && history.kept) {
    return fail(Errc::denied,
                table_.database->attempt().text() +
                    " in dblock_history: its table is gone, or this account may not read it; " +
                    "`dblock migrate --history on` makes it, and with --print-grants USER prints "
                    "what to grant");
  }
  if (tables == 0) return history;
  const Parameters asked = history_parameters(query);
  const auto add = [&](Verb verb, const Parameters& parameters) -> Result<void> {
    DBLOCK_TRY(const auto found, table_.run(verb, parameters));
    std::vector<lease::RecordedRun> runs;
    for (const auto& row : found.rows) runs.push_back(read_recorded_run(row));
    merge(history, std::move(runs));
    return {};
  };
  if (query.keys.empty()) DBLOCK_CHECK(add(Verb::all_runs, asked));
  for (const auto& key : query.keys) DBLOCK_CHECK(add(Verb::runs_of_key, asked + key_parameters(key)));
  cut(history, query.limit);
  return history;
}

Result<std::uint64_t> read_count(LockTable& table, Verb verb, Micros old) {
  DBLOCK_TRY(const auto found, table.run(verb, forget_parameters(old, k_forget_runs)));
  return found.rows.empty() ? 0 : unsigned_number(found.rows.front()[0]);
}

Result<std::uint64_t> forget_runs(LockTable& table, Micros forget_after, bool dry_run) {
  DBLOCK_TRY(const auto tables, read_count(table, Verb::history_is_there, Micros{0}));
  if (tables == 0) return 0;
  if (dry_run) return read_count(table, Verb::count_old_runs, forget_after);
  const auto some = forget_parameters(forget_after, k_forget_runs);
  std::uint64_t forgotten = 0;
  for (;;) {
    DBLOCK_TRY(const auto old, table.run(Verb::select_old_runs, some));
    if (old.rows.empty()) return forgotten;
    std::vector<std::vector<Scalar>> runs;
    for (const auto& row : old.rows)
      runs.push_back({row[0].value_or(""), Text{row[1].value_or("")}, unsigned_number(row[2])});
    DBLOCK_TRY(const auto gone, table.run(Verb::forget_runs, some + rows_parameters(runs)));
    forgotten += gone.changed;
    if (old.rows.size() < k_forget_runs || gone.changed == 0) return forgotten;
  }
}

}  // namespace dblock::store
