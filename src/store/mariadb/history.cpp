#include "store/mariadb/history.hpp"

#include <utility>

#include "base/log.hpp"
#include "store/mariadb/verbs.hpp"
#include "store/parameters.hpp"
#include "store/past_runs.hpp"

namespace dblock::store::mariadb {
namespace {

std::string advised(const Error& error) {
  if (error.native != k_table_denied && error.native != k_no_such_table) return error.message;
  return error.message +
         "; `dblock migrate --history on` makes its table, and with --print-grants USER prints what to grant";
}

Parameters run_parameters(const EndedRun& run) {
  return Parameters{{"key", Scalar(run.key)},
                    {"token", Scalar(run.token.value)},
                    {"owner", Scalar(run.owner)},
                    {"was_released", flag(run.was_released)}} +
         holder_parameters(run.kind, run.holder) + sharing_parameters({run.mode, 1}) +
         end_parameters(run.end);
}

}  // namespace

void EndedRuns::expect(const lease::AcquireRequest& request) {
  expected_.owner = request.owner.text;
  expected_.kind = request.kind;
  expected_.mode = request.sharing.mode;
  expected_.holder = request.holder;
}

void EndedRuns::add(const lease::LeaseRef& ref, lease::RunEnd end, const Changed& changed) {
  if (changed.rows == 0 || changed.insert_id == 0) return;
  EndedRun run = expected_.owner == ref.owner.text ? expected_ : EndedRun{};
  run.key = ref.key.bytes();
  run.token = {changed.insert_id};
  run.owner = ref.owner.text;
  run.end = end;
  runs_.push_back(std::move(run));
}

void EndedRuns::add_forced(const lease::Key& key, const Changed& changed) {
  add({key, {}, std::nullopt}, {lease::Outcome::abandoned, std::nullopt}, changed);
}

void EndedRuns::add_abandoned(const lease::LockStatus& lease, const Changed& changed) {
  if (changed.rows == 0 || changed.insert_id == 0) return;
  runs_.push_back({lease.key,
                   lease.token,
                   lease.owner,
                   false,
                   {lease::Outcome::abandoned, std::nullopt},
                   lease.kind,
                   lease.sharing.mode,
                   lease.holder});
}

// The lock is free already: whatever goes wrong here costs a line of the history and nothing else.
void EndedRuns::record(Connection& connection) {
  const std::string attempt = "cannot record the run in the history";
  for (const auto& run : std::exchange(runs_, {})) {
    auto done = connection.ensure_open(attempt);
    if (done) {
      auto changed = connection.change(render(Verb::record_run, run_parameters(run)), attempt);
      if (!changed) done = std::unexpected(std::move(changed.error()));
    }
    if (done) continue;
    log::info(advised(done.error()));
    return;
  }
}

Result<lease::History> history_with(Connection& connection, const lease::HistoryQuery& query,
                                    const std::string& attempt) {
  lease::History history;
  DBLOCK_TRY(const auto state, connection.read(render(Verb::history_state), attempt));
  if (!state.empty()) {
    history.kept = number(state.front()[0]) != 0;
    history.server_time = {micros(state.front()[1])};
  }
  DBLOCK_TRY(const auto there, connection.read(render(Verb::history_is_there), attempt));
  const bool seen = !there.empty() && number(there.front()[0]) > 0;
  if (!seen && history.kept) {
    return fail(Errc::denied,
                attempt + " in dblock_history: its table is gone, or this account may not read it; " +
                    "`dblock migrate --history on` makes it, and with --print-grants USER prints "
                    "what to grant");
  }
  if (!seen) return history;
  const Parameters parameters{{"since", micros_or_null(query.since)},
                              {"limit", Scalar(static_cast<std::uint64_t>(query.limit + 1))}};
  std::vector<const lease::Key*> keys;
  for (const auto& key : query.keys) keys.push_back(&key);
  if (keys.empty()) keys.push_back(nullptr);
  for (const auto* key : keys) {
    DBLOCK_TRY(const auto rows,
               connection.read(key == nullptr ? render(Verb::all_runs, parameters)
                                              : render(Verb::runs_of_key, parameters + key_parameters(*key)),
                               attempt, Most::list));
    std::vector<lease::RecordedRun> runs;
    for (const auto& row : rows) runs.push_back(read_recorded_run(row));
    merge(history, std::move(runs));
  }
  cut(history, query.limit);
  return history;
}

Result<std::uint64_t> forget_runs_with(Connection& connection, Micros forget_after, bool dry_run,
                                       const std::string& attempt) {
  DBLOCK_TRY(const auto there, connection.read(render(Verb::history_is_there), attempt));
  if (there.empty() || number(there.front()[0]) == 0) return 0;
  const auto parameters = forget_parameters(forget_after, k_forget_runs);
  if (dry_run) {
    DBLOCK_TRY(const auto found, connection.read(render(Verb::count_old_runs, parameters), attempt));
    return found.empty() ? 0 : unsigned_number(found.front()[0]);
  }
  std::uint64_t forgotten = 0;
  for (;;) {
    DBLOCK_TRY(const auto batch, connection.read(render(Verb::select_old_runs, parameters), attempt));
    if (batch.empty()) return forgotten;
    List rows{3, {}};
    for (const auto& row : batch) {
      rows.values.emplace_back(row[0].value_or(""));
      rows.values.emplace_back(Text{row[1].value_or("")});
      rows.values.emplace_back(unsigned_number(row[2]));
    }
    DBLOCK_TRY(const auto changed,
               connection.change(render(Verb::forget_runs, {{"rows", std::move(rows)}}), attempt));
    forgotten += changed.rows;
    if (batch.size() < k_forget_runs || changed.rows == 0) return forgotten;
  }
}

}  // namespace dblock::store::mariadb
