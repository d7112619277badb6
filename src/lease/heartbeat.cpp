#include "lease/heartbeat.hpp"

#include <algorithm>
#include <utility>

#include "lease/backoff.hpp"
#include "lease/timing.hpp"

namespace dblock::lease {
namespace {

using namespace std::chrono_literals;

constexpr Micros k_first_retry = 50ms;
constexpr Micros k_last_retry = 2s;

// What a store may spend on giving up its session is lost on a shorter run.
constexpr Micros k_short_run = 1s;

// Waits for a renewal's time, or for news. False: the heartbeat is to end.
bool await_renewal(Clock& clock, BootTime next, HeartbeatInbox& inbox, std::optional<JobNews>& news) {
  if (!clock.wait_until(next, inbox.wake())) return true;
  const auto told = inbox.take();
  if (told) news = told;
  return told.has_value();
}

}  // namespace

void HeartbeatInbox::stop() {
  const std::lock_guard lock(mutex_);
  untold_.reset();
  wake_.raise();
}

void HeartbeatInbox::tell(const JobNews& news) {
  const std::lock_guard lock(mutex_);
  if (news == last_) return;
  last_ = news;
  untold_ = news;
  wake_.raise();
}

bool HeartbeatInbox::stopped() {
  const std::lock_guard lock(mutex_);
  return !untold_ && wake_.raised();
}

std::optional<JobNews> HeartbeatInbox::take() {
  const std::lock_guard lock(mutex_);
  if (untold_) wake_.clear();
  return std::exchange(untold_, std::nullopt);
}

BootTime run_heartbeat(LeaseStore& store, Clock& clock, const Lease& lease, const Timing& timing,
                       const HeartbeatObserver& observer, HeartbeatInbox& inbox) {
  const LeaseRef ref = ref_to(lease);
  // Retries stay within one interval, so that a short outage costs at most one renewal's worth of time.
  const Micros last_retry = std::clamp<Micros>(timing.heartbeat, k_first_retry, k_last_retry);
  Backoff retry(k_first_retry, last_retry, Backoff::k_doubling, lease.token.value);
  BootTime proved = lease.sent_at;
  BootTime next = proved + timing.heartbeat;
  int failures = 0;
  std::optional<JobNews> news;
  const BootTime rest_at = clock.now() + k_short_run;
  if (rest_at < next && !clock.wait_until(rest_at, inbox.wake())) store.rest();
  while (await_renewal(clock, next, inbox, news)) {
    // Asks for our own TTL, not for the stored one: `dblock renew --ttl` may have stored another in the row
    // of an `acquire`d lease.
    const auto outcome = store.renew(ref, Actor::holder, timing.ttl, Micros{0}, news);
    if (!outcome) {
      // Stopped during the call, which was then broken off on purpose: no trouble.
      if (inbox.stopped()) break;
      ++failures;
      if (observer.on_trouble) observer.on_trouble(outcome.error());
      next = clock.now() + retry.next();
      continue;
    }
    if (const auto* refused = std::get_if<NotOurs>(&*outcome)) {
      if (observer.on_lost) observer.on_lost(*refused);
      break;
    }
    proved = std::get<Renewed>(*outcome).sent_at;
    if (observer.on_renewed) observer.on_renewed(proved);
    if (failures > 0 && observer.on_recovered) observer.on_recovered(failures);
    failures = 0;
    retry.reset(k_first_retry);
    news.reset();
    next = proved + timing.heartbeat;
    if (!inbox.stopped()) store.rest();
  }
  return proved;
}

}  // namespace dblock::lease
