#include "lease/lock_status.hpp"

namespace dblock::lease {

ServerTime LockStatus::grantable_at() const {
  ServerTime at{Micros{0}};
  if (!owner.empty() && expires_at) at.since_epoch = expires_at->since_epoch + margin;
  if (hold_until) at = std::max(at, *hold_until);
  return at;
}

bool LockStatus::done_within(const OncePer& once_per) const {
  if (!last_success || !last_success->acquired_at) return false;
  const Micros age = server_time.since_epoch - last_success->acquired_at->since_epoch;
  return age < once_per.look_back() && -age <= once_per.look_ahead();
}

std::string display_holder(const LockStatus& status) {
  return display_holder(status.holder);
}

std::string_view to_string(State state) {
  switch (state) {
    case State::held:
      return "held";
    case State::expired:
      return "expired";
    case State::cooldown:
      return "cooldown";
    case State::free:
      return "free";
    case State::unknown:
      break;
  }
  return "unknown";
}

}  // namespace dblock::lease
