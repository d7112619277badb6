#include "lease/release.hpp"

namespace dblock::lease {

// The row keeps how its last lease ended. Our own release puts down our end, at a time after it was sent;
// whoever else ends a lease puts it down as abandoned.
ReleaseResult judge_release(const NotOurs& refused, const LeaseRef& ref, const RunEnd& end,
                            std::optional<Micros> unheard_for) {
  using enum ReleaseResult;
  if (refused.why == NotOursWhy::nested) return nested;
  const bool ended = refused.why == NotOursWhy::free || refused.why == NotOursWhy::other_holder;
  if (!ended) return unheard_for && refused.why == NotOursWhy::absent ? unknown : not_ours;
  if (!refused.status) return not_ours;
  const LockStatus& row = *refused.status;
  const bool as_we_said =
      row.last && row.last->outcome == end.outcome && row.last->exit_code == end.exit_code;
  // A proxy has the server do a release twice, and passes on the second answer.
  if (refused.why == NotOursWhy::free && ref.token && row.token == *ref.token)
    return as_we_said ? released : not_ours;
  if (!unheard_for) return not_ours;
  // The row of one among several is known by its token alone.
  if (row.sharing.mode != Mode::exclusive && !ref.token) return released;
  if (row.last && row.last->outcome == Outcome::abandoned) return not_ours;
  const bool since_then = row.last && row.last->released_at &&
                          row.last->released_at->since_epoch >= row.server_time.since_epoch - *unheard_for;
  return as_we_said && since_then ? released : unknown;
}

}  // namespace dblock::lease
