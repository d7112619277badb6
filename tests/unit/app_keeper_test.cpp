// What a keeper makes of a lease that a renewal found gone.

#include "app/run/keeper.hpp"
#include "support/catch.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;
using lease::NotOursWhy;
using lease::RunOutcome;

const lease::Timing k_timing = *lease::make_timing({60s, {}, {}, {}});  // a heartbeat every ten seconds

lease::NotOurs gone(NotOursWhy why, std::optional<RunOutcome> last) {
  lease::LockStatus status;
  if (last) {
    status.last.emplace();
    status.last->outcome = last;
  }
  return {why, std::move(status)};
}

bool on_purpose(NotOursWhy why, std::optional<RunOutcome> last, Nanos silence) {
  return released_on_purpose(gone(why, last), silence, k_timing);
}

}  // namespace

TEST_CASE("a released lease is no loss, whoever holds the lock by now") {
  for (const auto why : {NotOursWhy::free, NotOursWhy::other_holder}) {
    CHECK(on_purpose(why, RunOutcome::released, 10s));
    CHECK(on_purpose(why, RunOutcome::released, 40s));
    // The next holder has come and gone; nobody can have freed the lock by force so soon.
    CHECK(on_purpose(why, RunOutcome::succeeded, 10s));
    CHECK(on_purpose(why, std::nullopt, 10s));
  }
}

TEST_CASE("a lease that was revoked, freed by force, taken over or deleted is a loss") {
  CHECK_FALSE(on_purpose(NotOursWhy::revoked, RunOutcome::released, 1s));
  CHECK_FALSE(on_purpose(NotOursWhy::expired, RunOutcome::released, 1s));
  CHECK_FALSE(on_purpose(NotOursWhy::absent, std::nullopt, 1s));
  for (const auto why : {NotOursWhy::free, NotOursWhy::other_holder}) {
    CHECK_FALSE(on_purpose(why, RunOutcome::abandoned, 1s));
    CHECK_FALSE(on_purpose(why, RunOutcome::abandoned, 40s));
    // After two missing heartbeats it could have been freed by force, and the row no longer tells.
    CHECK_FALSE(on_purpose(why, RunOutcome::succeeded, 20s));
    CHECK_FALSE(on_purpose(why, std::nullopt, 20s));
  }
  CHECK_FALSE(released_on_purpose({NotOursWhy::free, {}}, 20s, k_timing));
}

}  // namespace dblock::app
