#include "cli/report/lock_fields.hpp"

#include <algorithm>
#include <array>

#include "cli/report/lock_cells.hpp"

namespace dblock::cli {
namespace {

using lease::LockStatus;
using lease::ServerTime;

Json millis_between(const std::optional<ServerTime>& from, const std::optional<ServerTime>& to) {
  if (!from || !to) return nullptr;
  return json_millis(std::max(to->since_epoch - from->since_epoch, Micros{0}));
}

Json json_waiters(const LockStatus& lock) {
  if (!lock.waiters) return nullptr;
  auto list = Json::array();
  for (const auto& waiter : *lock.waiters) {
    list.push_back({{"host", text_or_null(waiter.host)},
                    {"pid", number_or_null(waiter.pid)},
                    {"user", text_or_null(waiter.user)},
                    {"since", json_time(waiter.since)},
                    {"place", list.size() + 1}});
  }
  return list;
}

// All rows of a lock tell the same last run.
std::uint32_t failures(const LockStatus& lock) {
  return lock.last ? lock.last->failures : 0;
}

constexpr LockObject k_last{"last", &LockStatus::last};
constexpr LockObject k_last_success{"last_success", &LockStatus::last_success};

// In the order of JSON and CSV. New fields go to the end: readers of CSV may refer to columns by number.
constexpr auto k_fields = std::to_array<LockField>({
    {.name = "key",
     .read = [](const LockStatus& lock) -> Json { return lock.key; },
     .column = {.place = 1, .title = "KEY", .cell = key_cell}},
    {.name = "kind",
     .of_holder = true,
     .read = [](const LockStatus& lock) -> Json { return lease::to_string(lock.kind); }},
    {.name = "mode",
     .read = [](const LockStatus& lock) -> Json { return lease::to_string(lock.sharing.mode); }},
    {.name = "slot",
     .read =
         [](const LockStatus& lock) {
           return number_or_null(lock.sharing.mode == lease::Mode::slot ? lock.slot : 0);
         }},
    {.name = "state",
     .read = [](const LockStatus& lock) -> Json { return lease::to_string(lock.state); },
     .column = {.place = 2, .title = "STATE", .cell = state_cell, .only_with_all = true},
     .metric = {.place = 1,
                .name = "dblock_holders",
                .help = "Holders of the lock whose leases run.",
                .sample = [](const KeyRows& key) { return count_in_state(key, lease::State::held); }}},
    {.name = "owner", .read = [](const LockStatus& lock) { return text_or_null(lock.owner); }},
    {.name = "token",
     .read = [](const LockStatus& lock) { return number_or_null(lock.token.value); },
     .column = {.place = 6, .title = "TOKEN", .dropped_first = 1}},
    {.name = "count", .read = [](const LockStatus& lock) -> Json { return lock.count; }},
    {.name = "host",
     .of_holder = true,
     .read = [](const LockStatus& lock) { return text_or_null(lock.holder.host); },
     .column = {.place = 3, .title = "HOLDER", .cell = holder_cell, .shortened = true}},
    {.name = "pid",
     .of_holder = true,
     .read = [](const LockStatus& lock) { return number_or_null(lock.holder.pid); }},
    {.name = "user",
     .of_holder = true,
     .read = [](const LockStatus& lock) { return text_or_null(lock.holder.user); }},
    {.name = "command",
     .of_holder = true,
     .read = [](const LockStatus& lock) { return text_or_null(lock.holder.command); },
     .column = {.place = 9, .title = "COMMAND", .shortened = true, .dropped_first = 2}},
    {.name = "note",
     .of_holder = true,
     .read = [](const LockStatus& lock) { return text_or_null(lock.holder.note); },
     .column = {.place = 10, .title = "NOTE", .shortened = true, .dropped_next = 2}},
    {.name = "acquired_at",
     .of_holder = true,
     .read = [](const LockStatus& lock) { return json_time(lock.acquired_at); }},
    {.name = "renewed_at",
     .of_holder = true,
     .read = [](const LockStatus& lock) { return json_time(lock.renewed_at); },
     .metric = {.place = 5,
                .name = "dblock_heartbeat_age_seconds",
                .help = "Since the lease was last renewed, or granted.",
                .sample = [](const KeyRows& key) { return longest_since(key, &LockStatus::renewed_at); }}},
    {.name = "expires_at",
     .of_holder = true,
     .read = [](const LockStatus& lock) { return json_time(lock.expires_at); },
     .metric = {.place = 2,
                .name = "dblock_expired_holders",
                .help = "Holders whose leases have ended without a release.",
                .sample = [](const KeyRows& key) { return count_in_state(key, lease::State::expired); }}},
    {.name = "ttl_ms",
     .of_holder = true,
     .read = [](const LockStatus& lock) { return json_millis(lock.ttl); }},
    {.name = "margin_ms",
     .of_holder = true,
     .read = [](const LockStatus& lock) { return json_millis(lock.margin); }},
    {.name = "remaining_ms",
     .of_holder = true,
     .read = [](const LockStatus& lock) { return millis_between(lock.server_time, lock.expires_at); },
     .column = {.place = 5, .title = "EXPIRES IN", .cell = expiry_cell, .dropped_next = 4},
     .metric = {.place = 4,
                .name = "dblock_expires_in_seconds",
                .help = "Until the first of the leases ends; below zero once it has ended.",
                .sample = until_first_end}},
    {.name = "held_ms",
     .of_holder = true,
     .read = [](const LockStatus& lock) { return millis_between(lock.acquired_at, lock.server_time); },
     .column = {.place = 4, .title = "HELD FOR", .cell = held_cell, .dropped_next = 1},
     .metric = {.place = 3,
                .name = "dblock_held_seconds",
                .help = "How long the lock has been held, by its oldest holder.",
                .sample = [](const KeyRows& key) { return longest_since(key, &LockStatus::acquired_at); }}},
    {.name = "waiters",
     .read = json_waiters,
     .column = {.place = 7, .title = "WAITERS", .dropped_first = 3},
     .metric = {.place = 6,
                .name = "dblock_waiters",
                .help = "Processes that wait in line for the lock.",
                .sample = count_waiters}},
    {.name = "acquired_at",
     .object = &k_last,
     .read = [](const LockStatus& lock) { return json_time(lock.last->acquired_at); },
     .metric = {.place = 9,
                .name = "dblock_last_duration_seconds",
                .help = "How long the last run or lease under this key took.",
                .sample = last_duration}},
    {.name = "released_at",
     .object = &k_last,
     .read = [](const LockStatus& lock) { return json_time(lock.last->released_at); },
     .metric = {.place = 8,
                .name = "dblock_last_end_timestamp_seconds",
                .help = "When the last run or lease under this key ended.",
                .sample = last_end}},
    {.name = "outcome",
     .object = &k_last,
     .read = [](const LockStatus& lock) { return json_outcome(lock.last->outcome); },
     .column = {.place = 8,
                .title = "LAST RUN",
                .cell = last_run_cell,
                .only_with_all = true,
                .shortened = true,
                .dropped_next = 3},
     .metric = {.place = 10,
                .name = "dblock_last_outcome",
                .help = "How the last run or lease ended: 1 for the outcome it had.",
                .sample = last_outcome,
                .label = "outcome"}},
    {.name = "exit_code",
     .object = &k_last,
     .read = [](const LockStatus& lock) { return json_exit_code(lock.last->exit_code); },
     .metric = {.place = 11,
                .name = "dblock_last_exit_code",
                .help = "Exit code of the last run, where its job had one.",
                .sample = last_exit_code}},
    {.name = "acquired_at",
     .object = &k_last_success,
     .read = [](const LockStatus& lock) { return json_time(lock.last_success->acquired_at); }},
    {.name = "released_at",
     .object = &k_last_success,
     .read = [](const LockStatus& lock) { return json_time(lock.last_success->released_at); },
     .metric =
         {.place = 7,
          .name = "dblock_last_success_timestamp_seconds",
          .help = "When a job under this key last ended with 0; 0 for a key asked for by name that none has.",
          .sample = last_success_end}},
    {.name = "failures",
     .read = [](const LockStatus& lock) -> Json { return failures(lock); },
     .metric = {.place = 12,
                .name = "dblock_failures",
                .help = "How many runs under this key have failed in a row.",
                .sample = [](const KeyRows& key) -> Sample {
                  if (key.rows.empty()) return std::nullopt;
                  return std::to_string(failures(key.rows.front()));
                }}},
    {.name = "job_ended_at",
     .of_holder = true,
     .read = [](const LockStatus& lock) { return json_time(lock.job_ended_at); },
     .metric = {.place = 13,
                .name = "dblock_leftovers_seconds",
                .help = "Since the command ended of a run that waits for what its command left running.",
                .sample = [](const KeyRows& key) { return longest_since(key, &LockStatus::job_ended_at); }}},
});

// Whether the ranks are 1, 2, 3 and so on, each of one field.
consteval bool counts_up(LockRank rank) {
  std::size_t ranked = 0;
  for (const auto& field : k_fields) ranked += rank(field) > 0 ? 1 : 0;
  for (std::size_t i = 1; i <= ranked; ++i)
    if (std::ranges::count_if(k_fields, [&](const auto& field) { return rank(field) == i; }) != 1)
      return false;
  return true;
}
static_assert(counts_up([](const LockField& field) { return field.column.place; }));
static_assert(counts_up([](const LockField& field) { return field.column.dropped_first; }));
static_assert(counts_up([](const LockField& field) { return field.column.dropped_next; }));
static_assert(counts_up([](const LockField& field) { return field.metric.place; }));

bool is_known(const LockField& field, const LockStatus& lock) {
  if (field.object != nullptr && !(lock.*(field.object->run))) return false;
  return !field.of_holder || !lock.owner.empty();
}

}  // namespace

std::span<const LockField> lock_fields() {
  return k_fields;
}

std::vector<const LockField*> ranked_fields(LockRank rank) {
  std::vector<const LockField*> fields;
  for (const auto& field : k_fields)
    if (rank(field) > 0) fields.push_back(&field);
  std::ranges::stable_sort(fields, {}, [&](const LockField* field) { return rank(*field); });
  return fields;
}

Json value_of(const LockField& field, const LockStatus& lock) {
  return is_known(field, lock) ? field.read(lock) : Json(nullptr);
}

Cell cell_of(const LockField& field, const LockStatus& lock) {
  if (!is_known(field, lock)) return {"-"};
  if (field.column.cell != nullptr) return field.column.cell(lock);
  return {dash_if_empty(text_of(field.read(lock)))};
}

}  // namespace dblock::cli
