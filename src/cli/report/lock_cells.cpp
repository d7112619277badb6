#include "cli/report/lock_cells.hpp"

#include <optional>
#include <string>

#include "base/duration.hpp"
#include "base/text.hpp"

namespace dblock::cli {
namespace {

using lease::LockStatus;
using lease::ServerTime;

std::string_view color_of(lease::State state) {
  switch (state) {
    case lease::State::held:
      return k_green;
    case lease::State::expired:
      return k_red;
    case lease::State::cooldown:
      return k_yellow;
    case lease::State::free:
    case lease::State::unknown:
      break;
  }
  return k_dim;
}

std::string span_between(const std::optional<ServerTime>& from, const std::optional<ServerTime>& to) {
  if (!from || !to) return "-";
  return format_age(to->since_epoch - from->since_epoch);
}

std::string expiry_of(const LockStatus& lock) {
  if (!lock.expires_at) return "-";
  if (lock.state == lease::State::expired) return "expired";
  return span_between(lock.server_time, lock.expires_at) + (lock.revoked_at ? " (revoked)" : "");
}

}  // namespace

Cell key_cell(const LockStatus& lock) {
  return {escape_untrusted(lock.key), color_of(lock.state)};
}

Cell state_cell(const LockStatus& lock) {
  return {std::string(lease::to_string(lock.state)), color_of(lock.state)};
}

Cell holder_cell(const LockStatus& lock) {
  std::string holder = lease::display_holder(lock);
  if (lock.sharing.mode == lease::Mode::shared) holder += " (reader)";
  if (lock.sharing.mode == lease::Mode::slot)
    holder += " (slot " + std::to_string(lock.slot) + " of " + std::to_string(lock.sharing.slots) + ")";
  if (lock.waits_for_leftovers())
    holder += " (command ended " + span_between(lock.job_ended_at, lock.server_time) +
              " ago, waiting for leftovers)";
  return {holder};
}

Cell held_cell(const LockStatus& lock) {
  return {span_between(lock.acquired_at, lock.server_time)};
}

Cell expiry_cell(const LockStatus& lock) {
  Cell cell{expiry_of(lock)};
  if (lock.state == lease::State::expired || lock.revoked_at) {
    cell.color = k_red;
  } else if (lock.heartbeat && lock.renewed_at &&
             lock.server_time.since_epoch - lock.renewed_at->since_epoch > 2 * *lock.heartbeat) {
    cell.color = k_yellow;
  }
  return cell;
}

Cell last_run_cell(const LockStatus& lock) {
  const auto& last = *lock.last;
  std::string text = last.outcome ? std::string(lease::to_string(*last.outcome)) : "unknown";
  if (last.exit_code && *last.exit_code != 0) text += " (" + std::to_string(*last.exit_code) + ")";
  const auto when = last.released_at ? last.released_at : last.acquired_at;
  return {when ? text + ", " + span_between(when, lock.server_time) + " ago" : text};
}

}  // namespace dblock::cli
