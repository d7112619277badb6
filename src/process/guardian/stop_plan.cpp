#include "process/guardian/stop_plan.hpp"

#include <algorithm>

namespace dblock::process {
namespace {

// How late the guardian's SIGKILL may be before dblock stops the tree itself. Near the deadline dblock waits
// for half of the slack only, so that time is left to stop the tree.
constexpr Nanos k_guardian_patience = std::chrono::seconds(1);

}  // namespace

void StopPlan::begin_stop(BootTime now) {
  if (!stop_began_at_) stop_began_at_ = now;
}

std::optional<BootTime> StopPlan::fence_signal_at() const {
  if (!deadline_) return std::nullopt;
  return *deadline_ - slack_ - kill_grace_;
}

bool StopPlan::fence_due(BootTime now) const {
  const auto at = fence_signal_at();
  return at && now >= *at;
}

std::optional<BootTime> StopPlan::kill_at() const {
  std::optional<BootTime> at;
  if (stop_began_at_) at = *stop_began_at_ + kill_grace_;
  if (deadline_) {
    const BootTime fence = *deadline_ - slack_;
    at = at ? std::min(*at, fence) : fence;
  }
  return at;
}

std::optional<BootTime> StopPlan::stop_in_place_at() const {
  auto at = kill_at();
  if (!at) return std::nullopt;
  *at += k_guardian_patience;
  if (deadline_) at = std::min(*at, *deadline_ - slack_ / 2);
  return at;
}

bool StopPlan::kill_due(BootTime now) const {
  const auto at = kill_at();
  return at && now >= *at;
}

std::optional<BootTime> StopPlan::next_change() const {
  return stop_began_at_ ? kill_at() : fence_signal_at();
}

}  // namespace dblock::process
