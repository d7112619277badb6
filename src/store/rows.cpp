#include "store/rows.hpp"

#include <algorithm>
#include <charconv>

namespace dblock::store {
namespace {

// The columns of a status row, in their order. Times are microseconds since the epoch.
enum Column : std::size_t {
  c_key,
  c_owner,
  c_token,
  c_count,
  c_kind,
  c_host,
  c_pid,
  c_user,
  c_command,
  c_note,
  c_acquired,
  c_renewed,
  c_expires,
  c_revoked,
  c_hold_until,
  c_ttl,
  c_margin,
  c_heartbeat,
  c_last_acquired,
  c_last_released,
  c_last_outcome,
  c_last_exit_code,
  c_success_acquired,
  c_success_released,
  c_now,
  c_mode,
  c_slots,
  c_slot,
  c_line_until,
  c_replaceable,
  c_revoked_by,
  c_arrived,
  c_refused_until,
};
static_assert(c_refused_until + 1 == k_status_columns);

template <typename Number>
Number parsed(const Field& field) {
  Number value = 0;
  if (field) std::from_chars(field->data(), field->data() + field->size(), value);
  return value;
}

lease::Sharing sharing(const Field& mode, const Field& slots) {
  lease::Sharing found;
  if (mode == to_string(lease::Mode::shared)) found.mode = lease::Mode::shared;
  if (mode == to_string(lease::Mode::slot)) found.mode = lease::Mode::slot;
  found.slots = static_cast<std::uint32_t>(unsigned_number(slots));
  return found;
}

std::optional<lease::PastRun> last_run(const Row& row) {
  if (!row[c_last_outcome]) return std::nullopt;
  lease::PastRun run{time(row[c_last_acquired]),
                     time(row[c_last_released]),
                     lease::parse_outcome(*row[c_last_outcome]),
                     std::nullopt,
                     {}};
  if (row[c_last_exit_code]) run.exit_code = static_cast<int>(number(row[c_last_exit_code]));
  // Until the next grant the row keeps its last holder.
  if (!row[c_owner]) run.host = row[c_host].value_or("");
  return run;
}

std::optional<lease::PastRun> last_success(const Row& row) {
  if (!row[c_success_released]) return std::nullopt;
  return lease::PastRun{time(row[c_success_acquired]),
                        time(row[c_success_released]),
                        lease::RunOutcome::succeeded,
                        std::nullopt,
                        {}};
}

// The row keeps its last holder when freed; only a present one is shown.
void read_holder(const Row& row, lease::LockStatus& status) {
  status.count = static_cast<std::uint32_t>(unsigned_number(row[c_count]));
  status.holder = {row[c_host].value_or(""), static_cast<std::uint32_t>(unsigned_number(row[c_pid])),
                   row[c_user].value_or(""), row[c_command].value_or(""), row[c_note].value_or("")};
  status.acquired_at = time(row[c_acquired]);
  status.renewed_at = time(row[c_renewed]);
  status.expires_at = time(row[c_expires]);
  status.revoked_at = time(row[c_revoked]);
  status.revoked_by = row[c_revoked_by].value_or("");
  status.replaceable = unsigned_number(row[c_replaceable]) != 0;
}

}  // namespace

std::string after_prefix(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1U);
  return prefix;
}

std::int64_t number(const Field& field) {
  return parsed<std::int64_t>(field);
}

std::uint64_t unsigned_number(const Field& field) {
  return parsed<std::uint64_t>(field);
}

Micros micros(const Field& field) {
  constexpr std::int64_t k_farthest = std::int64_t{1} << 60;
  return Micros{std::clamp(number(field), -k_farthest, k_farthest)};
}

std::optional<lease::ServerTime> time(const Field& field) {
  if (!field) return std::nullopt;
  return lease::ServerTime{micros(field)};
}

lease::State state_of(const lease::LockStatus& status) {
  if (status.owner.empty())
    return status.hold_until && *status.hold_until > status.server_time ? lease::State::cooldown
                                                                        : lease::State::free;
  if (!status.expires_at) return lease::State::unknown;  // only a hand-edited row
  return *status.expires_at > status.server_time ? lease::State::held : lease::State::expired;
}

lease::LockStatus read_status(const Row& row) {
  lease::LockStatus status;
  status.key = row[c_key].value_or("");
  status.kind = lease::parse_kind(row[c_kind].value_or(""));
  status.owner = row[c_owner].value_or("");
  status.token = {unsigned_number(row[c_token])};
  if (!status.owner.empty()) read_holder(row, status);
  status.hold_until = time(row[c_hold_until]);
  status.ttl = micros(row[c_ttl]);
  status.margin = micros(row[c_margin]);
  if (row[c_heartbeat]) status.heartbeat = micros(row[c_heartbeat]);
  status.last = last_run(row);
  status.last_success = last_success(row);
  status.server_time = lease::ServerTime{micros(row[c_now])};
  status.sharing = sharing(row[c_mode], row[c_slots]);
  status.slot = static_cast<std::uint32_t>(unsigned_number(row[c_slot]));
  if (status.slot == 0) status.line_until = time(row[c_line_until]);
  status.arrived_at = time(row[c_arrived]);
  status.refused_until = time(row[c_refused_until]);
  status.state = state_of(status);
  return status;
}

lease::LockStatus read_status_and_pause(const Row& row) {
  lease::LockStatus status = read_status(row);
  const auto until = std::max(time(row[k_status_columns + 1]), time(row[k_status_columns + 2]));
  if (until && *until > status.server_time)
    status.pause = lease::Pause{{status.key, false}, *until, {}, {}, {}};
  return status;
}

std::optional<lease::LockStatus> read_look(std::span<const Row> rows) {
  if (rows.empty() || !rows.front()[c_key]) return std::nullopt;
  return read_status_and_pause(rows.front());
}

lease::Place read_place(const Row& row) {
  lease::Place place{row[0].value_or(""), {row[1].value_or("")}, sharing(row[3], row[4])};
  for (const auto line : {lease::Line::one, lease::Line::newest})
    if (row[5] == to_string(line)) place.line = line;
  place.waiter = {row[6].value_or(""), static_cast<std::uint32_t>(unsigned_number(row[7])),
                  row[8].value_or(""), lease::ServerTime{micros(row[2])}};
  place.counts_until = lease::ServerTime{micros(row[9])};
  place.waits_elsewhere = place.sharing.slots == 0;
  return place;
}

lease::Pause read_pause(const Row& row) {
  return {{row[0].value_or(""), unsigned_number(row[1]) != 0},
          lease::ServerTime{micros(row[2])},
          row[3].value_or(""),
          row[4].value_or(""),
          lease::ServerTime{micros(row[5])}};
}

}  // namespace dblock::store
