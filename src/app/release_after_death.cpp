#include "app/release_after_death.hpp"

#include <algorithm>
#include <chrono>

#include "base/clock.hpp"
#include "lease/release.hpp"
#include "store/open.hpp"

namespace dblock::app {

using namespace std::chrono_literals;

// A statement that dblock sent just before its end may reach the database late. So the answer "not ours" is
// checked again for as long as such a statement can take.
bool release_after_death(const store::Settings& settings, const lease::LeaseRequest& request,
                         lease::Actor actor, const lease::RunEnd& end, bool awaited) {
  const Micros patience = awaited ? std::max<Micros>(5s, request.terms.ttl) : Micros{5s};
  SystemClock clock;
  const WakeEvent never;
  const auto store = store::open_store(settings, {3s, 30s}, clock);
  const BootTime begun = clock.now();
  store->leave_line(request);
  const lease::ReleaseOptions how{.actor = actor, .end = end, .give_up = begun + patience};
  for (;;) {
    bool released = false, known = true;
    for (const lease::LeaseRef& ref : lease::refs_to(request)) {
      const auto tried = lease::release_with_retries(*store, clock, ref, how, never);
      released = released || (tried.result == lease::ReleaseResult::released && !tried.refused);
      known = known && tried.result != lease::ReleaseResult::unknown;
    }
    if (released) store->end();
    if (released || clock.now() - begun >= lease::k_late_statement) return known;
    clock.wait_until(clock.now() + 200ms, never);
  }
}

}  // namespace dblock::app
