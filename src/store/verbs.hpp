// The statements of sql/verbs, by the names of their files, and their parameters. Each store has its own SQL
// for a statement; the comment in its file says what it does.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dblock::store {

enum class Verb : std::uint8_t {
  // leases of one lock, or of several
  grant,
  grant_in_line,
  first_grant,
  renew,
  nest,
  unnest,
  release,
  release_rows,
  release_keys,
  revoke,
  free_now,
  abandon,
  // steps of a grant of more than one row
  lock_rows,
  add_row,
  add_fence,
  wait_for_fences,
  collect_past_runs,
  grant_rows,
  grant_own_rows,
  grant_beside,
  // reading
  look,
  look_all,
  look_in_line,
  list_keys,
  list_range,
  list_held,
  server_time,
  takes_no_writes,
  this_server,
  account_sessions,
  try_fence,
  ask_fences,
  try_row,
  // reaping
  expired,
  count_idle,
  select_idle,
  forget_fences,
  forget,
  raise_floor,
  // the line
  add_place,
  keep_places,
  mark_line,
  see_line,
  list_places,
  leave_line,
  pass_line,
  forget_places,
  // pauses
  list_pauses,
  change_pause,
  add_pause,
  end_pause,
  forget_pauses,
  some_locks,
  mark_paused,
  // the schema
  newest_version,
  applied_versions,
  record_migration,
  // MariaDB and MySQL: sessions and the wake-up
  session_mode,
  session_mode_with_presence,
  sleep_mariadb,
  sleep_mysql,
  scarce_mariadb,
  scarce_mysql,
  set_idle_time,
  default_idle_time,
  // MariaDB and MySQL: migrations, replication, and what doctor asks
  migrate_alone,
  installed_procedures,
  view_is_there,
  semi_sync_status,
  semi_sync_variables,
  is_group_member,
  group_is_configured,
  catch_up_in_group,
  read_now_in_group,
  list_group_members,
  table_engine,
  key_type,
  try_named_lock,
  // SQLite: the file, and how often it was changed
  count_objects,
  count_changes,
  record_changes,
  touch,
  // the history of runs
  create_history,
  create_history_index,
  begin_history,
  end_history,
  history_state,
  history_is_there,
  record_run,
  runs_of_key,
  all_runs,
  count_old_runs,
  select_old_runs,
  forget_runs,
};

// The names of all parameters. A statement that reports a token or a length has `mark` as a parameter too
// (store/mariadb/sql.hpp), one that changes a lock's row `proves_writes` and `proves_membership`, and
// `release` also `wakes`.
inline constexpr std::array<std::string_view, 76> k_parameters{
    "key", "keys", "slot", "first_slot", "last_slot", "rows", "owner", "token", "of_kind", "leaves_nested",
    "kind", "mode", "slots", "ttl", "margin", "heartbeat", "min_hold", "period", "look_back", "look_ahead",
    "host", "pid", "user", "command", "note", "mark", "until", "outcome", "exit_code", "attempts", "cooldown",
    "was_released", "is_success", "is_failure", "last_acquired", "last_released", "last_outcome",
    "last_exit_code", "failures", "success_acquired", "success_released", "from", "to", "held_only",
    "own_rows_only", "limit", "forget_after", "since", "pause_key", "is_prefix", "made_at", "by",
    "replaceable", "arrival", "length", "line", "waits_elsewhere", "line_until", "newest", "tells_job",
    "ended_ago", "before", "without", "idle", "table", "version", "serves", "name", "changes",
    "proves_writes", "proves_membership", "wakes",
    // SQLite only: set for every statement
    "boot", "wall", "offset", "boot_id"};

// The next `:name` in a statement, from `at` on.
struct ParameterAt {
  std::size_t colon = std::string_view::npos;  // npos: there is none
  std::string_view name;
};
[[nodiscard]] constexpr ParameterAt find_parameter(std::string_view sql, std::size_t at) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  for (; at + 1 < sql.size(); ++at) {
    if (sql[at] != ':' || !is_letter(sql[at + 1])) continue;
    std::size_t end = at + 1;
    while (end < sql.size() && is_letter(sql[end])) ++end;
    return {at, sql.substr(at + 1, end - at - 1)};
  }
  return {};
}

// The first `[name|text]` in a statement: text for the case that the parameter is given. Only MariaDB's.
struct OptionAt {
  std::size_t begin = std::string_view::npos;  // npos: there is none
  std::size_t end = std::string_view::npos;
  std::string_view name;
  std::string_view text;
};
[[nodiscard]] constexpr OptionAt find_option(std::string_view sql) {
  const auto begin = sql.find('[');
  const auto bar = sql.find('|', begin);
  const auto end = sql.find(']', bar);
  if (begin == std::string_view::npos || end == std::string_view::npos) return {};
  return {begin, end + 1, sql.substr(begin + 1, bar - begin - 1), sql.substr(bar + 1, end - bar - 1)};
}

// Returns `sql` itself. Text with an unknown parameter does not compile, since unknown_parameter() is no
// constant.
void unknown_parameter();
[[nodiscard]] consteval std::string_view checked(std::string_view sql) {
  std::string_view rest = sql;
  for (auto next = find_option(rest); next.begin != std::string_view::npos; next = find_option(rest)) {
    if (std::ranges::find(k_parameters, next.name) == k_parameters.end()) unknown_parameter();
    rest.remove_prefix(next.end);
  }
  for (auto next = find_parameter(sql, 0); next.colon != std::string_view::npos;
       next = find_parameter(sql, next.colon + 1)) {
    if (std::ranges::find(k_parameters, next.name) == k_parameters.end()) unknown_parameter();
  }
  return sql;
}

// A word of dblock's own, as stored in columns such as mode: lower-case letters and `_`.
struct Word {
  std::string_view text;
};
// UTF-8 for people.
struct Text {
  std::string text;
};
// A string holds bytes: a key, an owner id.
using Scalar = std::variant<std::nullptr_t, std::int64_t, std::uint64_t, Word, Text, std::string>;
// A list for IN: of values, or of rows with `columns` values each.
struct List {
  std::size_t columns = 1;
  std::vector<Scalar> values;
};
using Value = std::variant<Scalar, List>;

struct Parameter {
  std::string_view name;  // "key"
  Value value;
};
// A statement takes the parameters that it names; it ignores the others.
using Parameters = std::vector<Parameter>;

[[nodiscard]] inline const Value* value_of(const Parameters& parameters, std::string_view name) {
  const auto found = std::ranges::find(parameters, name, &Parameter::name);
  return found == parameters.end() ? nullptr : &found->value;
}

}  // namespace dblock::store
