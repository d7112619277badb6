// What each statement is, as far as the stores must know: one list, which nobody works out again from a
// statement's text. The build holds it against the texts (checked(), here and in each store's sql.hpp), so a
// wrong fact does not compile.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "store/verbs.hpp"

namespace dblock::store {

// Which number a statement tells, apart from how many rows it changed.
enum class Tells : std::uint8_t {
  nothing,
  marked,  // a token or a length; on a server, together with the statement's mark (store/mariadb/sql.hpp)
  plain,   // the token of the run that it ended, where a history is kept; only on a server
};

struct VerbFacts {
  bool changes = false;  // rows or tables; other statements read
  // On a server the column after the status columns names the server, if it takes no writes.
  bool looks = false;
  bool lists = false;  // reads rows of any number; other statements read a few
  Tells tells = Tells::nothing;
  // A sleeper renews its places, or gives them up, and sleeps on.
  bool while_asleep = false;
  // On a server, how many rows a grant changes for each lease: its row, its fence, and the lock's own row if
  // that is another row. 1 for other statements, whose callers only ask whether there was one at all.
  std::uint8_t rows_per_lease = 1;
  bool one_lease = false;  // a grant of one lease: changes that many rows, or none
};

[[nodiscard]] constexpr VerbFacts facts_of(Verb verb) {
  using enum Verb;
  switch (verb) {
    case look:
    case look_all:
      return {.looks = true};
    case look_in_line:
      return {.looks = true, .lists = true};
    case list_keys:
    case list_range:
    case list_held:
    case see_line:
    case list_places:
    case expired:
    case runs_of_key:
    case all_runs:
      return {.lists = true};
    case grant:
    case grant_in_line:
    case first_grant:
      return {.changes = true, .tells = Tells::marked, .rows_per_lease = 2, .one_lease = true};
    case grant_rows:
      return {.changes = true, .tells = Tells::marked, .rows_per_lease = 2};
    case grant_beside:
      return {.changes = true, .tells = Tells::marked, .rows_per_lease = 3};
    case renew:
    case nest:
      return {.changes = true, .tells = Tells::marked};
    case release:
    case release_rows:
    case release_keys:
    case free_now:
    case abandon:
      return {.changes = true, .tells = Tells::plain};
    case add_place:
      return {.changes = true, .tells = Tells::marked, .while_asleep = true};
    case keep_places:
    case mark_line:
    case leave_line:
      return {.changes = true, .while_asleep = true};
    case unnest:
    case revoke:
    case add_row:
    case add_fence:
    case wait_for_fences:
    case collect_past_runs:
    case grant_own_rows:
    case forget_fences:
    case forget:
    case raise_floor:
    case pass_line:
    case forget_places:
    case change_pause:
    case add_pause:
    case end_pause:
    case forget_pauses:
    case mark_paused:
    case record_migration:
    case set_idle_time:
    case default_idle_time:
    case catch_up_in_group:
    case read_now_in_group:
    case record_changes:
    case touch:
    case create_history:
    case create_history_index:
    case begin_history:
    case end_history:
    case record_run:
    case forget_runs:
      return {.changes = true};
    default:
      return {};
  }
}

// Is no constant: see must_be().
void wrong_fact();
consteval void must_be(bool so) {
  if (!so) wrong_fact();
}

// Returns `sql`, the statement's text in either store.
[[nodiscard]] consteval std::string_view checked(Verb verb, std::string_view sql) {
  const VerbFacts facts = facts_of(verb);
  const auto has = [sql](std::string_view part) { return sql.find(part) != std::string_view::npos; };
  constexpr std::array<std::string_view, 6> k_changing{"UPDATE ", "INSERT ", "DELETE ",
                                                       "CREATE ", "DROP ",   "SET "};
  must_be(facts.changes == std::ranges::any_of(k_changing, [&](auto word) { return sql.starts_with(word); }));
  // Places, or whole rows of locks or runs that are not those of the keys that the caller knows.
  const bool is_long =
      sql.starts_with("SELECT place.") || (has(",lock_value,") && (has("LIMIT :limit") || !has(":key")));
  must_be(facts.lists == (!facts.changes && (is_long || has("UNION ALL SELECT place."))));
  // A sleeper takes no lease, and frees none.
  must_be(!facts.while_asleep || (facts.changes && !has("lock_value")));
  return checked(sql);
}

}  // namespace dblock::store
