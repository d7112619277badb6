// The functions of LockTable for the history of runs.
#include "store/lock_table.hpp"
#include "store/parameters.hpp"
#include "store/past_runs.hpp"

namespace dblock::store {

Result<lease::History> LockTable::history(const lease::HistoryQuery& query, const std::string& attempt) {
  lease::History history;
  DBLOCK_TRY(const auto state, run(Verb::history_state, {}, attempt));
  if (!state.rows.empty()) {
    history.kept = number(state.rows.front()[0]) != 0;
    history.server_time = {micros(state.rows.front()[1])};
  }
  DBLOCK_TRY(const auto tables, count(Verb::history_is_there, Micros{0}, attempt));
  if (tables == 0 && history.kept) {
    return fail(Errc::denied,
                attempt + " in dblock_history: its table is gone, or this account may not read it; " +
                    "`dblock migrate --history on` makes it, and with --print-grants USER prints "
                    "what to grant");
  }
  if (tables == 0) return history;
  const Parameters asked{{"since", micros_or_null(query.since)},
                         {"limit", Scalar(static_cast<std::int64_t>(query.limit) + 1)}};
  const auto add = [&](Verb verb, const Parameters& parameters) -> Result<void> {
    DBLOCK_TRY(const auto found, run(verb, parameters, attempt));
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

Result<std::uint64_t> LockTable::forget_runs(Micros forget_after, bool dry_run, const std::string& attempt) {
  DBLOCK_TRY(const auto tables, count(Verb::history_is_there, Micros{0}, attempt));
  if (tables == 0) return 0;
  if (dry_run) return count(Verb::count_old_runs, forget_after, attempt);
  const auto some = forget_parameters(forget_after, k_forget_runs);
  std::uint64_t forgotten = 0;
  for (;;) {
    DBLOCK_TRY(const auto old, run(Verb::select_old_runs, some, attempt));
    if (old.rows.empty()) return forgotten;
    List keys;
    List rows{3, {}};
    for (const auto& row : old.rows) {
      keys.values.emplace_back(row[0].value_or(""));
      rows.values.emplace_back(row[0].value_or(""));
      rows.values.emplace_back(Text{row[1].value_or("")});
      rows.values.emplace_back(unsigned_number(row[2]));
    }
    DBLOCK_TRY(const auto gone,
               run(Verb::forget_runs, some + Parameters{{"keys", std::move(keys)}, {"rows", std::move(rows)}},
                   attempt));
    forgotten += gone.changed;
    if (old.rows.size() < k_forget_runs || gone.changed == 0) return forgotten;
  }
}

}  // namespace dblock::store
