// From a try that was sent to a lease to rely on, also where its reply was lost (I5).
#include <utility>
#include <variant>

#include "base/text.hpp"
#include "lease/acquisition.hpp"

namespace dblock::lease {

// I5: the statement was sent and its reply lost. Nothing may be started or reported until the row has been
// read back; a row that carries our owner id is our grant.
Acquisition::Progress Acquisition::resolve(Error lost_reply) {
  if (observer_.on_trouble) observer_.on_trouble(lost_reply);
  lost_reply_ = std::move(lost_reply);
  pacing_.doubt_begins();
  step_ = Step::resolving;
  return std::nullopt;
}

Acquisition::Progress Acquisition::read_back() {
  auto seen = store_.look(request_);
  if (!seen && seen.error().code != Errc::unreachable && !seen.error().may_pass)
    return std::unexpected(seen.error());
  if (!seen) return ask_again(sent_at_ + request_.terms.ttl, seen.error());
  if (auto* ours = std::get_if<Granted>(&*seen)) {
    ours->lease.sent_at = sent_at_;
    return rely_on(std::move(ours->lease));
  }
  const auto* free = std::get_if<Free>(&*seen);
  if (free != nullptr && !free->status) return std::unexpected(lost_reply_);
  refused_before_ = true;
  if (auto* done = std::get_if<Done>(&*seen)) return std::move(*done);
  if (const auto* held = std::get_if<Held>(&*seen)) return refused(held->status);
  return fail(Errc::indeterminate,
              "the reply to taking " + wanted() + " was lost and the lock was not taken; try again");
}

Acquisition::Progress Acquisition::rely_on(Lease lease) {
  lease_ = std::move(lease);
  pacing_.doubt_begins();
  step_ = Step::proving;
  return std::nullopt;
}

// A grant becomes a lease to rely on: proved by a renewal where it was found by reading only, and with time
// left, since this process may have been frozen since it sent the try.
Acquisition::Progress Acquisition::prove() {
  if (lease_->needs_renewal_proof) {
    const auto renewed = store_.renew(ref_to(*lease_), Actor::holder, std::nullopt);
    if (!renewed) return ask_again(lease_->sent_at + lease_->terms.ttl, renewed.error());
    if (const auto* not_ours = std::get_if<NotOurs>(&*renewed)) return not_ours_after_all(*not_ours);
    lease_->sent_at = std::get<Renewed>(*renewed).sent_at;
    lease_->needs_renewal_proof = false;
  }
  if (clock_.now() < lease_->sent_at + lease_->terms.ttl) return std::move(*lease_);
  return fail(Errc::lost, "lock " + quote_untrusted(lease_->key.bytes()) +
                              " was granted, but this process was held up for its whole TTL before it could "
                              "go on; nothing was started");
}

Acquisition::Progress Acquisition::not_ours_after_all(const NotOurs& answer) {
  if (answer.status) return refused(*answer.status);
  refused_before_ = true;
  return fail(Errc::unreachable,
              wanted() + " was granted and its row then vanished; is another tool deleting rows?");
}

// Whether the lock was granted is not known, and the database does not tell. Repeats the step until
// `lease_end`, when a lease that was granted after all has expired.
Acquisition::Progress Acquisition::ask_again(BootTime lease_end, const Error& why) {
  if (clock_.now() >= lease_end) {
    return fail(Errc::unreachable,
                "cannot find out whether " + wanted() +
                    " was taken: the reply was lost and for a whole TTL the database did not answer (" +
                    why.message +
                    "); nothing was started, and a lease that was granted after all ends by itself",
                why.native);
  }
  if (clock_.wait_until(clock_.now() + pacing_.in_doubt(), cancel_)) return Cancelled{true};
  return std::nullopt;
}

}  // namespace dblock::lease
