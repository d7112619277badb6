#include "lease/pacing.hpp"

#include <algorithm>
#include <chrono>

namespace dblock::lease {
namespace {

using namespace std::chrono_literals;

// Polling a lock that cools down or is paused: soon at first, then at most a second apart.
constexpr Micros k_first_poll = 50ms;
constexpr Micros k_last_poll = 1s;
constexpr double k_poll_growth = 1.5;
// The poll interval of a waiter that is first, or has to look often, and that nobody wakes. With jitter it
// makes five to ten polls a second.
constexpr Micros k_lead_poll = 200ms;
// Pauses after a failed try: a database that does not answer is asked less and less often.
constexpr Micros k_first_pause = 100ms;
constexpr Micros k_longest_pause = 2s;
// The longest pause while the outcome of a try is unknown. Shorter, since a lease may be running.
constexpr Micros k_longest_doubt = 1s;

}  // namespace

Pacing::Pacing(Clock& clock, const WaitPolicy& policy, std::uint64_t seed)
    : clock_(clock),
      schedule_(policy.retry),
      poll_(k_first_poll, k_last_poll, k_poll_growth, seed),
      retry_(k_first_pause, k_longest_pause, Backoff::k_doubling, seed),
      ask_again_(k_first_pause, k_longest_doubt, Backoff::k_doubling, seed) {
  if (policy.limit) give_up_at_ = clock_.now() + *policy.limit;
}

bool Pacing::out_of_time() const {
  return give_up_at_ && clock_.now() >= *give_up_at_;
}

BootTime Pacing::within_limit(Micros length) const {
  const BootTime until = clock_.now() + length;
  return give_up_at_ ? std::min(until, *give_up_at_) : until;
}

void Pacing::extend_limit(Micros length) {
  if (give_up_at_) give_up_at_ = std::max(*give_up_at_, clock_.now() + length);
}

bool Pacing::last_try() {
  ++tries_;
  return out_of_time() || (schedule_ && tries_ >= schedule_->attempts);
}

Micros Pacing::after_refusal(bool often) {
  retry_.reset(k_first_pause);
  if (schedule_) return scheduled_pause();
  return often ? poll_.jittered(k_lead_poll) : poll_.next();
}

Micros Pacing::after_failure(bool counted) {
  const Micros again = retry_.next();
  return schedule_ && counted ? scheduled_pause() : again;
}

void Pacing::doubt_begins() {
  ask_again_.reset(k_first_pause);
}

Micros Pacing::scheduled_pause() const {
  return pause_after(tries_, schedule_->first, schedule_->growth);
}

}  // namespace dblock::lease
