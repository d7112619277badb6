#include "lease/release.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "lease/backoff.hpp"
#include "lease/owner_id.hpp"
#include "lease/timing.hpp"

namespace dblock::lease {
namespace {

using namespace std::chrono_literals;

constexpr Micros k_first_release_pause = 100ms;
constexpr Micros k_longest_release_pause = 1s;

}  // namespace

bool is_awaited(const Promises& promises, const RunEnd& end) {
  return end.cooldown > Micros{0} || (promises.once_per && end.outcome == RunOutcome::succeeded);
}

// The row records how its last lease ended. Our own release records our `end`, at a time after we sent it. A
// takeover, a reap or a forced release records `abandoned`.
ReleaseResult judge_release(const NotOurs& refused, const LeaseRef& ref, const RunEnd& end,
                            std::optional<Micros> reply_lost_for) {
  using enum ReleaseResult;
  if (refused.why == NotOursWhy::nested) return nested;
  const bool ended = refused.why == NotOursWhy::free || refused.why == NotOursWhy::other_holder;
  if (!ended) return reply_lost_for && refused.why == NotOursWhy::absent ? unknown : not_ours;
  if (!refused.status) return not_ours;
  const LockStatus& row = *refused.status;
  const bool as_we_said =
      row.last && row.last->outcome == end.outcome && row.last->exit_code == end.exit_code;
  // The row is free under our own token. A proxy may have sent our release twice and passed on the second
  // answer.
  if (refused.why == NotOursWhy::free && ref.token && row.token == *ref.token)
    return as_we_said ? released : not_ours;
  if (!reply_lost_for) return not_ours;
  // Without a token our freed row cannot be told from those of other readers or slot holders. No row carries
  // our owner id any more, so the lease counts as released.
  if (row.sharing.mode != Mode::exclusive && !ref.token) return released;
  if (row.last && row.last->outcome == RunOutcome::abandoned) return not_ours;
  const bool since_then = row.last && row.last->released_at &&
                          row.last->released_at->since_epoch >= row.server_time.since_epoch - *reply_lost_for;
  return as_we_said && since_then ? released : unknown;
}

RetriedRelease release_with_retries(LeaseStore& store, Clock& clock, const LeaseRef& ref,
                                    const ReleaseOptions& how, const WakeEvent& stop) {
  Backoff backoff(k_first_release_pause, k_longest_release_pause, Backoff::k_doubling, 1);
  std::optional<BootTime> reply_lost_since;
  for (;;) {
    const BootTime sent_at = clock.now();
    auto outcome = store.release(ref, how.actor, how.end);
    if (outcome) {
      auto* const refused = std::get_if<NotOurs>(&*outcome);
      if (refused == nullptr) return {.result = ReleaseResult::released};
      std::optional<Micros> reply_lost_for;
      if (reply_lost_since) reply_lost_for = std::chrono::ceil<Micros>(clock.now() - *reply_lost_since);
      const auto result = judge_release(*refused, ref, how.end, reply_lost_for);
      return {.result = result, .refused = std::move(*refused)};
    }
    if (!reply_lost_since && outcome.error().code == Errc::indeterminate) reply_lost_since = sent_at;
    if (how.on_trouble) how.on_trouble(outcome.error());
    RetriedRelease unknown{.failure = std::move(outcome.error())};
    // A nested run does not repeat a release whose reply was lost: a second one could take another nested run
    // off the count.
    if (reply_lost_since ? is_nested(ref.owner) : !how.insists) return unknown;
    const BootTime next = std::min(clock.now() + backoff.next(), how.give_up);
    if (clock.wait_until(next, stop) || clock.now() >= how.give_up) return unknown;
  }
}

}  // namespace dblock::lease
