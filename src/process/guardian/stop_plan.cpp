#include "process/guardian/stop_plan.hpp"

namespace dblock::process {
namespace {

// How late the guardian's SIGKILL may be before dblock stops the tree itself. Near the deadline dblock waits
// for half of the slack only, so that time is left to stop the tree.
constexpr Nanos k_guardian_patience = std::chrono::seconds(1);

}  // namespace

// A lease that is being lost leaves a job no more than its kill grace. One that a run with --replace has
// revoked lasts until its deadline, which it shares with nobody.
void StopPlan::begin_stop(BootTime now, Stop::Reason why) {
  if (!stop_began_at_) stop_began_at_ = now;
  const bool asked = Stop::keeps_lease(why) || why == Stop::Reason::revoked;
  grace_ends_at_ = earlier(grace_ends_at_, now + (asked ? stop_grace_ : kill_grace_));
}

std::optional<BootTime> StopPlan::fence_kill_at() const {
  if (!deadline_) return std::nullopt;
  return *deadline_ - slack_;
}

std::optional<BootTime> StopPlan::fence_signal_at() const {
  if (!deadline_) return std::nullopt;
  return *fence_kill_at() - kill_grace_;
}

bool StopPlan::fence_due(BootTime now) const {
  const auto at = fence_signal_at();
  return at && now >= *at;
}

std::optional<BootTime> StopPlan::kill_at() const {
  const auto fence = fence_kill_at();
  return fence ? earlier(grace_ends_at_, *fence) : grace_ends_at_;
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

bool StopPlan::fence_kill_due(BootTime now) const {
  const auto at = fence_kill_at();
  return at && now >= *at;
}

std::optional<BootTime> StopPlan::next_change() const {
  return stop_began_at_ ? kill_at() : fence_signal_at();
}

}  // namespace dblock::process
