#include "doctor/trial_steps.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "doctor/trial.hpp"

namespace dblock::doctor {

std::unexpected<Error> wrong(std::string what) {
  return fail(Errc::internal, std::move(what) + "; let no job rely on this database");
}

lease::Key trial_key(const std::string& suffix) {
  return lease::Key::parse("dblock doctor" + suffix).value();
}

lease::Timing trial_timing() {
  return lease::make_timing({k_ttl_of_trial, {}, {}, {}}).value();
}

lease::LeaseRequest trial_request(const lease::Holder& holder, const std::string& suffix,
                                  lease::Sharing sharing) {
  lease::LeaseRequest wanted{trial_key(suffix), {}, {}, lease::Kind::run, trial_timing().terms(), holder};
  wanted.owner = owner_of_trial(holder);
  wanted.sharing = sharing;
  return wanted;
}

lease::PauseScope trial_scope() {
  return {trial_key(" 1").bytes(), false};
}

Result<bool> is_paused(lease::LockBook& book) {
  DBLOCK_TRY(const auto listing, book.list({.keys = {trial_key("")}, .with_pauses = true}));
  return std::ranges::any_of(listing.pauses, [](const lease::Pause& pause) {
    if (pause.scope == trial_scope()) return false;
    return std::ranges::any_of(std::array{"", " 1", " 2"}, [&](const char* suffix) {
      return pause.scope.covers(trial_key(suffix).bytes());
    });
  });
}

Result<lease::Lease> take(lease::LockBook& book, const lease::LeaseRequest& wanted) {
  DBLOCK_TRY(const auto answer, book.try_acquire(wanted));
  if (const auto* granted = std::get_if<lease::Granted>(&answer)) return granted->lease;
  return wrong("a lock that nobody holds is refused");
}

Result<void> expect_refusal(lease::LockBook& book, const lease::LeaseRequest& wanted,
                            const std::string& what) {
  DBLOCK_TRY(const auto answer, book.try_acquire(wanted));
  if (std::holds_alternative<lease::Held>(answer)) return {};
  if (const auto* granted = std::get_if<lease::Granted>(&answer)) {
    [[maybe_unused]] const auto given_back = give_back(book, granted->lease);
  }
  return wrong(what + " was granted");
}

Result<void> give_back(lease::LockBook& book, const lease::Lease& lease) {
  DBLOCK_TRY(const auto outcome,
             book.release(ref_to(lease), lease::Actor::holder, {lease::RunOutcome::succeeded, 0}));
  if (std::holds_alternative<lease::Released>(outcome)) return {};
  return wrong("a lease that has not ended is another's");
}

}  // namespace dblock::doctor
