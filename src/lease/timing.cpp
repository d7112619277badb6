#include "lease/timing.hpp"

#include <algorithm>
#include <string>

#include "base/duration.hpp"

namespace dblock::lease {
namespace {

using namespace std::chrono_literals;

constexpr Micros k_min_ttl = 1s;
constexpr Micros k_max_ttl = 24h * 30;
constexpr Micros k_max_default_heartbeat = 15s;  // a lost connection is noticed this soon, whatever the TTL
constexpr Micros k_max_default_grace = 4s;
constexpr Micros k_min_slack = 100ms;  // a loaded machine needs this long to kill and reap a tree

// Whole milliseconds: as exact as a message should be.
Micros sixth_of(Micros ttl) {
  return std::chrono::floor<std::chrono::milliseconds>(ttl / 6);
}

Result<void> check_ranges(const Timing& t) {
  if (t.ttl < k_min_ttl || t.ttl > k_max_ttl) {
    return fail(Errc::usage, "--ttl " + format_duration(t.ttl) + " is out of range: write 1s to 30d");
  }
  if (t.heartbeat <= Micros{0}) return fail(Errc::usage, "--heartbeat must be more than 0");
  if (t.margin > t.ttl) {
    return fail(Errc::usage, "--margin " + format_duration(t.margin) + " is longer than --ttl " +
                                 format_duration(t.ttl) + "; write 0 to the TTL");
  }
  return {};
}

}  // namespace

Result<Timing> make_timing(const TimingRequest& request) {
  Timing t;
  t.ttl = request.ttl;
  t.heartbeat = request.heartbeat.value_or(std::min(sixth_of(t.ttl), k_max_default_heartbeat));
  t.kill_grace = request.kill_grace.value_or(std::min(sixth_of(t.ttl), k_max_default_grace));
  t.margin = request.margin.value_or(std::min(t.ttl / 10, k_max_default_margin));
  t.slack = std::max(k_min_slack, t.ttl / 20);
  DBLOCK_CHECK(check_ranges(t));
  // Compared without a sum of user values, which could overflow.
  const bool fits =
      t.heartbeat <= t.ttl && t.kill_grace <= t.ttl && 2 * t.heartbeat + t.kill_grace + t.slack <= t.ttl;
  if (!fits) {
    return fail(Errc::usage, "2 x heartbeat (" + format_duration(t.heartbeat) + ") + kill-grace (" +
                                 format_duration(t.kill_grace) + ") + slack (" + format_duration(t.slack) +
                                 ") is more than the TTL (" + format_duration(t.ttl) +
                                 "), so that one failed renewal would cost the lease; shorten --heartbeat or "
                                 "--kill-grace, or lengthen --ttl" +
                                 (request.kill_grace ? "; to give a job that is asked to stop more time, "
                                                       "--stop-grace is enough"
                                                     : ""));
  }
  return t;
}

std::chrono::seconds network_timeout(Micros ttl) {
  return std::clamp(std::chrono::ceil<std::chrono::seconds>(ttl / 6), 3s, 10s);
}

Micros renewal_timeout(const Timing& timing) {
  const Micros left = timing.ttl - timing.slack - timing.kill_grace - timing.heartbeat;
  return std::min<Micros>(network_timeout(timing.ttl), left / 2);
}

}  // namespace dblock::lease
