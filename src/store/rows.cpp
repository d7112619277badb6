#include "store/rows.hpp"

#include <algorithm>
#include <charconv>

namespace dblock::store {
namespace {

// Reads the columns of a row by their names in the list `Names`. Another name does not build.
template <const auto& Names>
class NamedRow {
 public:
  struct Column {
    std::size_t index;
    consteval Column(const char* name) : index(0) {
      while (Names[index] != name) ++index;
    }
  };
  explicit NamedRow(const Row& row) : row_(row) {}
  const Field& operator[](Column column) const { return row_[column.index]; }

 private:
  const Row& row_;
};
using StatusRow = NamedRow<k_status_names>;

template <typename Number>
Number parsed(const Field& field) {
  Number value = 0;
  if (field) std::from_chars(field->data(), field->data() + field->size(), value);
  return value;
}

lease::Sharing sharing(const Field& mode, const Field& slots) {
  return {read_mode(mode), static_cast<std::uint32_t>(unsigned_number(slots))};
}

std::optional<lease::PastRun> last_run(const StatusRow& row) {
  if (!row["last_outcome"]) return std::nullopt;
  lease::PastRun run{time(row["last_acquired_at"]),
                     time(row["last_released_at"]),
                     lease::parse_outcome(*row["last_outcome"]),
                     std::nullopt,
                     {},
                     static_cast<std::uint32_t>(unsigned_number(row["failures"]))};
  if (row["last_exit_code"]) run.exit_code = static_cast<int>(number(row["last_exit_code"]));
  // Until the next grant the row keeps its last holder.
  if (!row["lock_value"]) run.host = row["holder_host"].value_or("");
  return run;
}

std::optional<lease::PastRun> last_success(const StatusRow& row) {
  if (!row["success_released_at"]) return std::nullopt;
  return lease::PastRun{time(row["success_acquired_at"]),
                        time(row["success_released_at"]),
                        lease::RunOutcome::succeeded,
                        std::nullopt,
                        {}};
}

// The row keeps its last holder when freed; only a present one is shown.
void read_holder(const StatusRow& row, lease::LockStatus& status) {
  status.count = static_cast<std::uint32_t>(unsigned_number(row["lock_count"]));
  status.holder = {
      row["holder_host"].value_or(""), static_cast<std::uint32_t>(unsigned_number(row["holder_pid"])),
      row["holder_user"].value_or(""), row["holder_command"].value_or(""), row["holder_note"].value_or("")};
  status.acquired_at = time(row["create_time"]);
  status.renewed_at = time(row["update_time"]);
  status.expires_at = time(row["expire_time"]);
  status.revoked_at = time(row["revoke_time"]);
  status.revoked_by = row["revoked_by"].value_or("");
  status.job_ended_at = time(row["job_ended_at"]);
  status.replaceable = unsigned_number(row["replaceable"]) != 0;
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

lease::Mode read_mode(const Field& field) {
  if (field == to_string(lease::Mode::shared)) return lease::Mode::shared;
  if (field == to_string(lease::Mode::slot)) return lease::Mode::slot;
  return lease::Mode::exclusive;
}

lease::State state_of(const lease::LockStatus& status) {
  if (status.owner.empty())
    return status.hold_until && *status.hold_until > status.server_time ? lease::State::cooldown
                                                                        : lease::State::free;
  if (!status.expires_at) return lease::State::unknown;  // only a hand-edited row
  return *status.expires_at > status.server_time ? lease::State::held : lease::State::expired;
}

lease::LockStatus read_status(const Row& columns) {
  const StatusRow row(columns);
  lease::LockStatus status;
  status.key = row["lock_key"].value_or("");
  status.kind = lease::parse_kind(row["kind"].value_or(""));
  status.owner = row["lock_value"].value_or("");
  status.token = {unsigned_number(row["token"])};
  if (!status.owner.empty()) read_holder(row, status);
  status.hold_until = time(row["hold_until"]);
  status.ttl = micros(row["ttl_us"]);
  status.margin = micros(row["margin_us"]);
  if (row["heartbeat_us"]) status.heartbeat = micros(row["heartbeat_us"]);
  status.last = last_run(row);
  status.last_success = last_success(row);
  status.server_time = lease::ServerTime{micros(row["now"])};
  status.sharing = sharing(row["mode"], row["slots"]);
  status.slot = static_cast<std::uint32_t>(unsigned_number(row["slot"]));
  if (status.slot == 0) status.line_until = time(row["line_until"]);
  status.arrived_at = time(row["arrived_at"]);
  status.refused_until = time(row["refused_until"]);
  status.state = state_of(status);
  if (status.state != lease::State::held) status.job_ended_at.reset();  // nobody waits any more
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
  if (rows.empty() || !StatusRow(rows.front())["lock_key"]) return std::nullopt;
  return read_status_and_pause(rows.front());
}

lease::PastRun abandoned_run(const lease::LockStatus& freed) {
  const std::uint32_t before = freed.last ? freed.last->failures : 0;
  const std::uint32_t one = freed.kind == lease::Kind::run ? 1 : 0;
  return {freed.acquired_at, std::nullopt, lease::RunOutcome::abandoned, std::nullopt, {}, before + one};
}

lease::Place read_place(const Row& columns) {
  const NamedRow<k_place_names> row(columns);
  lease::Place place{
      row["lock_key"].value_or(""), {row["owner_id"].value_or("")}, sharing(row["mode"], row["slots"])};
  for (const auto line : {lease::Line::one, lease::Line::newest})
    if (row["line"] == to_string(line)) place.line = line;
  place.waiter = {row["waiter_host"].value_or(""),
                  static_cast<std::uint32_t>(unsigned_number(row["waiter_pid"])),
                  row["waiter_user"].value_or(""), lease::ServerTime{micros(row["arrival"])}};
  place.counts_until = lease::ServerTime{micros(row["seen_until"])};
  place.waits_elsewhere = unsigned_number(row["waits_elsewhere"]) != 0;
  return place;
}

lease::Pause read_pause(const Row& columns) {
  const NamedRow<k_pause_names> row(columns);
  return {{row["pause_key"].value_or(""), unsigned_number(row["is_prefix"]) != 0},
          lease::ServerTime{micros(row["end_time"])},
          row["paused_by"].value_or(""),
          row["note"].value_or(""),
          lease::ServerTime{micros(row["create_time"])}};
}

}  // namespace dblock::store
