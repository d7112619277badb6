#include "store/sqlite/history.hpp"

#include <utility>

#include "store/parameters.hpp"
#include "store/past_runs.hpp"
#include "store/sqlite/boot.hpp"
#include "store/sqlite/verbs.hpp"

namespace dblock::store::sqlite {
namespace {

Result<std::int64_t> count(Connection& connection, Verb verb, const Parameters& parameters,
                           const std::string& attempt) {
  DBLOCK_TRY(const auto rows, connection.run(sql(verb), parameters, attempt, Phase::read));
  return rows.empty() ? 0 : number(rows.front()[0]);
}

}  // namespace

Result<bool> keeps_history(Connection& connection, const std::string& attempt) {
  DBLOCK_TRY(const auto triggers, count(connection, Verb::keeps_history, {}, attempt));
  return triggers > 0;
}

Result<void> keep_history(Connection& connection, bool on, const std::string& attempt) {
  return connection.in_transaction(attempt, [&]() -> Result<void> {
    const std::vector<Verb> begin{Verb::create_history, Verb::create_history_index, Verb::begin_history};
    for (const Verb verb : on ? begin : std::vector{Verb::end_history})
      DBLOCK_CHECK(connection.run_script(std::string(sql(verb)), attempt));
    // A transaction without a changed row would be rolled back.
    return connection.run_script("UPDATE dblock_state SET changes=changes", attempt);
  });
}

Result<lease::History> history_with(Connection& connection, const lease::HistoryQuery& query,
                                    const std::string& attempt) {
  lease::History history;
  DBLOCK_TRY(history.kept, keeps_history(connection, attempt));
  DBLOCK_TRY(const auto tables, count(connection, Verb::history_is_there, {}, attempt));
  history.server_time = {wall_now()};
  if (tables == 0) return history;
  const auto add = [&](Verb verb, const std::string& key) -> Result<void> {
    const Parameters parameters{{"key", Scalar(key)},
                                {"since", micros_or_null(query.since)},
                                {"limit", Scalar(static_cast<std::int64_t>(query.limit) + 1)}};
    DBLOCK_TRY(const auto rows, connection.run(sql(verb), parameters, attempt, Phase::read));
    std::vector<lease::RecordedRun> runs;
    for (const auto& row : rows) runs.push_back(read_recorded_run(row));
    merge(history, std::move(runs));
    return {};
  };
  if (query.keys.empty()) DBLOCK_CHECK(add(Verb::all_runs, ""));
  for (const auto& key : query.keys) DBLOCK_CHECK(add(Verb::runs_of_key, key.bytes()));
  cut(history, query.limit);
  return history;
}

Result<std::uint64_t> forget_runs_with(Connection& connection, Micros forget_after, bool dry_run,
                                       const std::string& attempt) {
  DBLOCK_TRY(const auto tables, count(connection, Verb::history_is_there, {}, attempt));
  if (tables == 0) return 0;
  const auto parameters = forget_parameters(forget_after, k_forget_runs);
  if (dry_run) {
    DBLOCK_TRY(const auto old, count(connection, Verb::count_old_runs, parameters, attempt));
    return static_cast<std::uint64_t>(old);
  }
  std::uint64_t forgotten = 0;
  for (;;) {
    DBLOCK_TRY(const auto done, connection.change(sql(Verb::forget_runs), parameters, attempt));
    forgotten += done.changed;
    if (done.changed < k_forget_runs) return forgotten;
  }
}

}  // namespace dblock::store::sqlite
