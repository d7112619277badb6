#include "store/sqlite/history.hpp"

#include <utility>

#include "store/past_runs.hpp"
#include "store/sqlite/boot.hpp"

namespace dblock::store::sqlite {
namespace {

// By its primary key the runs of one lock lie in the order of their ends.
constexpr const char* k_create_history =
    "CREATE TABLE IF NOT EXISTS dblock_history (lock_key TEXT,recorded_at INT,token INT,lock_value TEXT,kind "
    "TEXT,"
    "mode TEXT,holder_host TEXT,holder_pid INT,holder_user TEXT,holder_command TEXT,holder_note TEXT,"
    "acquired_at INT,released_at INT,outcome TEXT,exit_code INT,PRIMARY KEY (lock_key,recorded_at,token)) "
    "STRICT,WITHOUT ROWID;"
    "CREATE INDEX IF NOT EXISTS dblock_history_time ON dblock_history (recorded_at);";

// Grants and whatever frees a row set its last outcome, a renewal does not and is spared the look. Another
// token under a holder: the lease before was taken over.
constexpr const char* k_begin =
    "CREATE TRIGGER IF NOT EXISTS dblock_lock_ended AFTER UPDATE OF last_outcome ON dblock_lock "
    "WHEN OLD.lock_value IS NOT NULL AND (NEW.lock_value IS NULL OR NEW.token<>OLD.token) BEGIN "
    "INSERT INTO dblock_history VALUES "
    "(OLD.lock_key,NEW.update_time,OLD.token,OLD.lock_value,OLD.kind,OLD.mode,"
    "OLD.holder_host,OLD.holder_pid,OLD.holder_user,OLD.holder_command,OLD.holder_note,NEW.last_acquired_at,"
    "NEW.last_released_at,NEW.last_outcome,NEW.last_exit_code); END;";
constexpr const char* k_end = "DROP TRIGGER IF EXISTS dblock_lock_ended;";

constexpr std::string_view k_has_trigger =
    "SELECT count(*) FROM sqlite_schema WHERE type='trigger' AND name='dblock_lock_ended'";
constexpr std::string_view k_has_table =
    "SELECT count(*) FROM sqlite_schema WHERE type='table' AND name='dblock_history'";

#define DBLOCK_SQL_RUNS(index)                                                                    \
  "SELECT lock_key,token,lock_value,kind,mode,holder_host,holder_pid,holder_user,holder_command," \
  "holder_note,acquired_at,released_at,recorded_at,outcome,exit_code FROM dblock_history" index " WHERE "
constexpr std::string_view k_all_runs = DBLOCK_SQL_RUNS(
    " INDEXED BY dblock_history_time") "recorded_at>=:since ORDER BY recorded_at DESC LIMIT :limit";
constexpr std::string_view k_runs_of_key =
    DBLOCK_SQL_RUNS("") "lock_key=:key AND recorded_at>=:since ORDER BY recorded_at DESC LIMIT :limit";
#undef DBLOCK_SQL_RUNS

#define DBLOCK_SQL_OLD \
  "FROM dblock_history INDEXED BY dblock_history_time WHERE recorded_at<:wall-:forget_after"
constexpr std::string_view k_count_old = "SELECT count(*) " DBLOCK_SQL_OLD;
constexpr std::string_view k_forget =
    "DELETE FROM dblock_history WHERE (lock_key,recorded_at,token) IN (SELECT "
    "lock_key,recorded_at,token " DBLOCK_SQL_OLD " ORDER BY recorded_at LIMIT :limit)";
#undef DBLOCK_SQL_OLD

Result<std::int64_t> count(Connection& connection, std::string_view sql, const Parameters& parameters,
                           const std::string& attempt) {
  DBLOCK_TRY(const auto rows, connection.run(sql, parameters, attempt, Phase::read));
  return rows.empty() ? 0 : number(rows.front()[0]);
}

}  // namespace

Result<bool> keeps_history(Connection& connection, const std::string& attempt) {
  DBLOCK_TRY(const auto triggers, count(connection, k_has_trigger, {}, attempt));
  return triggers > 0;
}

Result<void> keep_history(Connection& connection, bool on, const std::string& attempt) {
  return connection.in_transaction(attempt, [&]() -> Result<void> {
    if (on) DBLOCK_CHECK(connection.run_script(k_create_history, attempt));
    DBLOCK_CHECK(connection.run_script(on ? k_begin : k_end, attempt));
    // A transaction without a changed row would be rolled back.
    return connection.run_script("UPDATE dblock_state SET changes=changes", attempt);
  });
}

Result<lease::History> history_with(Connection& connection, const lease::HistoryQuery& query,
                                    const std::string& attempt) {
  lease::History history;
  DBLOCK_TRY(history.kept, keeps_history(connection, attempt));
  DBLOCK_TRY(const auto tables, count(connection, k_has_table, {}, attempt));
  history.server_time = {wall_now()};
  if (tables == 0) return history;
  const std::int64_t since = query.since ? (wall_now() - *query.since).count() : 0;
  const auto add = [&](std::string_view sql, const std::string& key) -> Result<void> {
    const Parameters parameters{
        {":key", key}, {":since", since}, {":limit", static_cast<std::int64_t>(query.limit) + 1}};
    DBLOCK_TRY(const auto rows, connection.run(sql, parameters, attempt, Phase::read));
    std::vector<lease::RecordedRun> runs;
    for (const auto& row : rows) runs.push_back(read_recorded_run(row));
    merge(history, std::move(runs));
    return {};
  };
  if (query.keys.empty()) DBLOCK_CHECK(add(k_all_runs, ""));
  for (const auto& key : query.keys) DBLOCK_CHECK(add(k_runs_of_key, key.bytes()));
  cut(history, query.limit);
  return history;
}

Result<std::uint64_t> forget_runs_with(Connection& connection, Micros forget_after, bool dry_run,
                                       const std::string& attempt) {
  DBLOCK_TRY(const auto tables, count(connection, k_has_table, {}, attempt));
  if (tables == 0) return 0;
  const Parameters parameters{{":forget_after", forget_after.count()},
                              {":limit", static_cast<std::int64_t>(k_forget_runs)}};
  if (dry_run) {
    DBLOCK_TRY(const auto old, count(connection, k_count_old, parameters, attempt));
    return static_cast<std::uint64_t>(old);
  }
  std::uint64_t forgotten = 0;
  for (;;) {
    DBLOCK_TRY(const auto done, connection.change(k_forget, parameters, attempt));
    forgotten += done.changed;
    if (done.changed < k_forget_runs) return forgotten;
  }
}

}  // namespace dblock::store::sqlite
