// Rows of a reply: text fields that may be NULL, and the status row of a lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lease/lock_status.hpp"

namespace dblock::store {

using Field = std::optional<std::string>;

// A column that a server did not send reads as NULL.
class Row {
 public:
  explicit Row(std::size_t columns = 0) : fields_(columns) {}
  Row(std::initializer_list<Field> fields) : fields_(fields) {}
  [[nodiscard]] const Field& operator[](std::size_t column) const {
    static const Field null;
    return column < fields_.size() ? fields_[column] : null;
  }
  [[nodiscard]] std::size_t size() const { return fields_.size(); }
  // REQUIRES: column < size().
  void set(std::size_t column, std::string value) { fields_[column] = std::move(value); }

 private:
  std::vector<Field> fields_;
};

// The columns of a status row, a place and a pause, in the order of {status}, {place} and {pause} in
// sql/verbs/*/terms.sql: most are columns of the tables. Times are microseconds since the epoch.
inline constexpr std::string_view k_status_names[] = {
    "lock_key",
    "lock_value",
    "token",
    "lock_count",
    "kind",
    "holder_host",
    "holder_pid",
    "holder_user",
    "holder_command",
    "holder_note",
    "create_time",
    "update_time",
    "expire_time",
    "revoke_time",
    "hold_until",
    "ttl_us",
    "margin_us",
    "heartbeat_us",
    "last_acquired_at",
    "last_released_at",
    "last_outcome",
    "last_exit_code",
    "failures",
    "success_acquired_at",
    "success_released_at",
    "now",
    "mode",
    "slots",
    "slot",
    "line_until",
    "replaceable",
    "revoked_by",
    "arrived_at",
    "job_ended_at",
    "refused_until",
};
inline constexpr std::string_view k_place_names[] = {
    "lock_key", "owner_id",    "arrival",    "mode",        "slots",     "waits_elsewhere",
    "line",     "waiter_host", "waiter_pid", "waiter_user", "seen_until"};
inline constexpr std::string_view k_pause_names[] = {"pause_key", "is_prefix", "end_time",
                                                     "paused_by", "note",      "create_time"};
inline constexpr std::size_t k_status_columns = std::size(k_status_names);

// Numbers that are missing or make no sense (a table edited by hand) read as 0.
[[nodiscard]] std::int64_t number(const Field& field);
[[nodiscard]] std::uint64_t unsigned_number(const Field& field);
// A time since the epoch or a duration, at most 36,000 years from 0: sums of several do not overflow.
[[nodiscard]] Micros micros(const Field& field);
[[nodiscard]] std::optional<lease::ServerTime> time(const Field& field);
// A word that is no mode reads as exclusive.
[[nodiscard]] lease::Mode read_mode(const Field& field);

// A row of at least the k_status_columns columns.
[[nodiscard]] lease::LockStatus read_status(const Row& row);
// The same with three more columns: one that the statement's file describes, then until when the lock is
// paused, by its row and by the pauses.
[[nodiscard]] lease::LockStatus read_status_and_pause(const Row& row);
// The first of such rows; nullopt: there is none, or one of NULLs.
[[nodiscard]] std::optional<lease::LockStatus> read_look(std::span<const Row> rows);
// The last run of a row whose lease `abandon` has just freed, as another reading would tell it.
[[nodiscard]] lease::PastRun abandoned_run(const lease::LockStatus& freed);
[[nodiscard]] lease::Place read_place(const Row& row);
[[nodiscard]] lease::Pause read_pause(const Row& row);

// The least byte string greater than all that start with `prefix`; empty when there is none.
[[nodiscard]] std::string after_prefix(std::string prefix);

// What the row's own times say. REQUIRES: everything else in `status` is set.
[[nodiscard]] lease::State state_of(const lease::LockStatus& status);

}  // namespace dblock::store
