#include "store/mariadb/history_statements.hpp"

#include "store/mariadb/literals.hpp"
#include "store/mariadb/statement_parts.hpp"

namespace dblock::store::mariadb {
namespace {

std::string either(std::string_view column, const std::string& otherwise) {
  return cat("COALESCE(seen.", column, ",", otherwise, ")");
}

// Found by the index on the time whatever the optimizer thinks of it.
std::string old_runs(Micros forget_after) {
  return cat("dblock_history FORCE INDEX (dblock_history_time) WHERE recorded_at<", k_now, "-",
             interval(forget_after));
}

}  // namespace

std::string create_history_statement() {
  const auto text = [](std::string_view name, std::string_view length) {
    return cat(name, " VARCHAR(", length, ") CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,");
  };
  const auto word = [](std::string_view name) {
    return cat(name, " VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,");
  };
  return cat(
      "CREATE TABLE IF NOT EXISTS dblock_history (lock_key VARBINARY(255) NOT NULL,"
      "recorded_at DATETIME(6) NOT NULL COMMENT 'the run had ended by then',"
      "token BIGINT UNSIGNED NOT NULL,lock_value VARBINARY(255) NOT NULL COMMENT 'owner id',",
      word("kind"), word("mode"), text("holder_host", "255"), "holder_pid INT UNSIGNED NOT NULL,",
      text("holder_user", "255"), text("holder_command", "2000"), text("holder_note", "1000"),
      "acquired_at DATETIME(6) NOT NULL,released_at DATETIME(6) NULL COMMENT 'NULL: nobody released it',",
      word("outcome"),
      "exit_code INT NULL,PRIMARY KEY (lock_key,recorded_at,token),KEY dblock_history_time (recorded_at)) "
      "ENGINE=InnoDB");
}

std::string begin_history_statement() {
  return cat("INSERT INTO dblock_schema (version,serves,name,applied_at) VALUES (0,0,'history',", k_now, ")");
}

std::string end_history_statement() {
  return "DELETE FROM dblock_schema WHERE version=0";
}

std::string keeps_history_statement() {
  return cat("SELECT ", k_keeps_history);
}

std::string history_state_statement() {
  return cat("SELECT ", k_keeps_history, ",", micros_of(k_now));
}

std::string history_is_there_statement() {
  return "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE() AND "
         "TABLE_NAME='dblock_history'";
}

// The row may be somebody else's by now; then the token tells when the run began, to the microsecond unless a
// clock had been set back.
std::string record_run_statement(const EndedRun& run) {
  const std::string key = bytes_literal(run.key);
  const std::string token = std::to_string(run.token.value);
  const auto& holder = run.holder;
  const std::string began = time_literal(Micros{static_cast<Micros::rep>(run.token.value)});
  return cat(
      "INSERT INTO dblock_history (lock_key,recorded_at,token,lock_value,kind,mode,holder_host,holder_pid,"
      "holder_user,holder_command,holder_note,acquired_at,released_at,outcome,exit_code) SELECT ",
      key, ",", either("update_time", std::string(k_now)), ",", token, ",", bytes_literal(run.owner), ",",
      either("kind", quoted(lease::to_string(run.kind))), ",",
      either("mode", quoted(lease::to_string(run.mode))), ",",
      either("holder_host", text_literal(holder.host, k_name_bytes)), ",",
      either("holder_pid", std::to_string(holder.pid)), ",",
      either("holder_user", text_literal(holder.user, k_name_bytes)), ",",
      either("holder_command", text_literal(holder.command, k_command_bytes)), ",",
      either("holder_note", text_literal(holder.note, k_note_bytes)), ",", either("last_acquired_at", began),
      ",", run.was_released ? either("last_released_at", std::string(k_now)) : "NULL", ",",
      quoted(lease::to_string(run.end.outcome)), ",",
      run.end.exit_code ? std::to_string(*run.end.exit_code) : "NULL",
      " FROM (SELECT 1 AS one) AS one LEFT JOIN dblock_lock AS seen FORCE INDEX (PRIMARY) ON seen.lock_key=",
      key, " AND seen.token=", token, " AND (seen.slot>0 OR seen.mode='exclusive')");
}

std::string select_runs_statement(const lease::Key* key, std::optional<Micros> since, std::size_t limit) {
  std::string where;
  if (key != nullptr) where = " WHERE " + key_is(key->bytes());
  if (since) where += cat(where.empty() ? " WHERE " : " AND ", "recorded_at>=", k_now, "-", interval(*since));
  return cat(
      "SELECT lock_key,token,lock_value,kind,mode,holder_host,holder_pid,holder_user,holder_command,"
      "holder_note,",
      micros_of("acquired_at"), ",", micros_of("released_at"), ",", micros_of("recorded_at"),
      ",outcome,exit_code FROM dblock_history FORCE INDEX (",
      key == nullptr ? "dblock_history_time" : "PRIMARY", ")", where, " ORDER BY ",
      key == nullptr ? "" : "lock_key DESC,", "recorded_at DESC LIMIT ", std::to_string(limit));
}

std::string count_old_runs_statement(Micros forget_after) {
  return "SELECT COUNT(*) FROM " + old_runs(forget_after);
}

std::string select_old_runs_statement(Micros forget_after, std::size_t limit) {
  return cat("SELECT lock_key,", micros_of("recorded_at"), ",token FROM ", old_runs(forget_after),
             " ORDER BY recorded_at LIMIT ", std::to_string(limit));
}

std::string forget_runs_statement(const std::vector<Row>& batch) {
  std::vector<std::string> matches;
  for (const auto& row : batch) {
    matches.push_back(cat("(", key_is(row[0].value_or("")), " AND recorded_at=", time_literal(micros(row[1])),
                          " AND ", token_is({unsigned_number(row[2])}), ")"));
  }
  return cat("DELETE FROM dblock_history WHERE (", joined(matches, " OR "), ")");
}

}  // namespace dblock::store::mariadb
