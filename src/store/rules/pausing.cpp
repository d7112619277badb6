// Pausing.
//
// A pause is committed first, and then written into the row of each lock: that statement waits for the grants
// that have changed the row, and a grant that comes to the row later is refused by it. The first grant of a
// row reads the pauses as well, since the row may have been added after they were written.
#include <algorithm>
#include <utility>

#include "store/parameters.hpp"
#include "store/rules/table_lease_store.hpp"

namespace dblock::store {
namespace {

using lease::Pause;
using lease::PauseScope;

// Rows written by one statement: few enough that it delays no other statement, enough to get on.
constexpr std::size_t k_marked_at_once = 20;
// Rounds of "not there to replace, but there when it is added": in each one another process resumed and
// paused in between.
constexpr int k_put_rounds = 5;

// The least byte string greater than `key`.
std::string after(const std::string& key) {
  return key + '\0';
}

std::optional<Pause> find(const std::vector<Pause>& pauses, const PauseScope& scope) {
  const auto found = std::ranges::find(pauses, scope, &Pause::scope);
  return found == pauses.end() ? std::nullopt : std::optional(*found);
}

std::unexpected<Error> over_by_now(const Attempt& attempt, const Pause& pause, const std::string& why) {
  return fail(Errc::usage, attempt.text() + " until " + format_time(pause.until) + why);
}

std::unexpected<Error> over_before_all_knew(const Attempt& attempt, const Pause& pause,
                                            const std::optional<Pause>& replaced) {
  auto late =
      over_by_now(attempt, pause,
                  ": that time had come before every lock had been told, so the pause may have held up "
                  "nothing; pause for longer");
  if (replaced) late.error().message += "; it has replaced the pause until " + format_time(replaced->until);
  return late;
}

Pause pause_of(const lease::PauseRequest& request, lease::ServerTime now) {
  const auto* const length = std::get_if<Micros>(&request.end);
  const lease::ServerTime until = length != nullptr ? lease::ServerTime{now.since_epoch + *length}
                                                    : std::get<lease::ServerTime>(request.end);
  return {request.scope, until, request.by, request.note, now};
}

// Stores a pause, in the place of `same`, the one of the same scope that was read last, and deletes those
// that have ended.
Result<void> put_pause(LockTable& table, const Pause& pause, std::optional<Pause> same) {
  const auto parameters = pause_parameters(pause);
  for (int round = 0; round < k_put_rounds; ++round) {
    DBLOCK_CHECK(table.run(Verb::forget_pauses));
    DBLOCK_TRY(const bool done, same ? table.changes_one(Verb::change_pause, parameters + pause_names(*same))
                                     : table.changes_one(Verb::add_pause, parameters));
    if (done) return {};
    DBLOCK_TRY(const auto stored, read_pauses(table));
    same = find(stored, pause.scope);
  }
  return table.database->attempt().refuse(Errc::unreachable,
                                          "another process pauses and resumes the same; try again");
}

// Writes into the row of each lock in the scope until when the stored pauses keep it paused. Waits for grants
// under way. With `without` as if that pause of the scope were deleted already.
Result<void> mark_paused(LockTable& table, const PauseScope& scope, const std::optional<Pause>& without) {
  const std::string to = scope.is_prefix ? after_prefix(scope.text) : after(scope.text);
  std::string from = scope.text;
  for (bool more = true; more;) {
    DBLOCK_TRY(const auto found,
               table.run(Verb::some_locks, {{"from", Scalar(from)},
                                            {"to", to.empty() ? Scalar(nullptr) : Scalar(to)},
                                            {"limit", Scalar(static_cast<std::int64_t>(k_marked_at_once))}}));
    more = found.rows.size() == k_marked_at_once;
    if (found.rows.empty()) break;
    List keys;
    for (const auto& row : found.rows) keys.values.emplace_back(row[0].value_or(""));
    DBLOCK_CHECK(table.run(
        Verb::mark_paused,
        pause_names(without.value_or(Pause{scope, {}, {}, {}, {}})) +
            Parameters{{"keys", std::move(keys)}, {"without", Scalar(std::int64_t{without.has_value()})}}));
    from = after(found.rows.back()[0].value_or(""));
  }
  return {};
}

}  // namespace

Result<std::vector<Pause>> read_pauses(LockTable& table) {
  DBLOCK_TRY(const auto found, table.run(Verb::list_pauses));
  std::vector<Pause> pauses;
  for (const auto& row : found.rows) pauses.push_back(read_pause(row));
  return pauses;
}

Result<lease::Paused> TableLeaseStore::pause(const lease::PauseRequest& request) {
  const Database::Call call(*table_.database, {"cannot pause ", display_scope(request.scope)});
  DBLOCK_CHECK(call.open());
  const BootTime asked = clock_.now();
  DBLOCK_TRY(const auto now, read_time(table_));
  DBLOCK_TRY(const auto before, read_pauses(table_));
  const Pause pause = pause_of(request, now);
  if (pause.until <= now)
    return over_by_now(table_.database->attempt(), pause,
                       ": by the clock of the database it is " + format_time(now) + " already");
  if (auto put = put_pause(table_, pause, find(before, request.scope)); !put) {
    // The tables refuse a pause that ends before it begins: its statement had to wait until it was over.
    const bool refused = put.error().code == Errc::internal || put.error().code == Errc::config;
    if (!refused || !table_.database->ensure_open()) return std::unexpected(std::move(put.error()));
    const auto later = read_time(table_);
    if (!later || *later < pause.until) return std::unexpected(std::move(put.error()));
    return over_by_now(table_.database->attempt(), pause,
                       ": that time had come before the database had recorded the pause, so nothing was "
                       "changed; pause for longer");
  }
  auto marked = mark_paused(table_, request.scope, std::nullopt);
  if (!marked) {
    marked.error().message +=
        "; the pause is stored, but a grant that was under way may still pass it: pause again";
    return std::unexpected(std::move(marked.error()));
  }
  const auto replaced = find(before, request.scope);
  // In microseconds: a pause may last for longer than nanoseconds can count.
  if (std::chrono::floor<Micros>(clock_.now() - asked) >= pause.until.since_epoch - now.since_epoch)
    return over_before_all_knew(table_.database->attempt(), pause, replaced);
  return lease::Paused{pause, replaced};
}

// The rows first: where this is broken off, the pause is still shown and can be ended again, though locks
// that have a row are granted. Then once more, since another process may have paused meanwhile what the
// deletion has ended.
Result<lease::Resumed> TableLeaseStore::resume(const PauseScope& scope) {
  const Database::Call call(*table_.database, {"cannot resume ", display_scope(scope)});
  DBLOCK_CHECK(call.open());
  DBLOCK_TRY(const auto before, read_pauses(table_));
  lease::Resumed resumed{find(before, scope), {}};
  if (resumed.ended) {
    DBLOCK_CHECK(mark_paused(table_, scope, resumed.ended));
    DBLOCK_CHECK(table_.run(Verb::end_pause, pause_names(*resumed.ended)));
  }
  DBLOCK_CHECK(mark_paused(table_, scope, std::nullopt));
  DBLOCK_TRY(resumed.left, read_pauses(table_));
  std::erase_if(resumed.left, [&scope](const Pause& pause) { return !pause.scope.meets(scope); });
  return resumed;
}

Result<lease::Answer> with_pause(LockTable& table, Result<lease::Answer> answer) {
  auto* const held = answer ? std::get_if<lease::Held>(&*answer) : nullptr;
  if (held == nullptr || !held->status.pause) return answer;
  const auto pauses = read_pauses(table);
  if (!pauses) return answer;
  for (const auto& pause : *pauses) {
    if (pause.scope.covers(held->status.key) && pause.until >= held->status.pause->until)
      held->status.pause = pause;
  }
  return answer;
}

}  // namespace dblock::store
