#include "app/database.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "lease/release.hpp"

namespace dblock::app {

using namespace std::chrono_literals;

Result<store::Settings> settings_from(const store::SettingsSources& sources,
                                      std::vector<std::string>* unsaid) {
  DBLOCK_TRY(store::ResolvedSettings resolved, store::resolve_settings(sources));
  if (unsaid != nullptr) {
    *unsaid = std::move(resolved.warnings);
  } else {
    for (const std::string& warning : resolved.warnings) log::warning(warning);
  }
  return std::move(resolved.settings);
}

bool may_pass(const Error& error) {
  return error.code == Errc::unreachable || error.code == Errc::indeterminate;
}

store::SessionOptions session_options(const lease::Timing& timing) {
  // The server drops an idle session, so a dead host's goes away. A living holder renews far more often.
  return {lease::network_timeout(timing.ttl), 2 * timing.ttl + 30s, false, lease::renewal_timeout(timing)};
}

// A statement that dblock sent just before its death may reach the database late. So the answer "not ours" is
// checked again for as long as such a statement can take.
void release_after_death(const store::Settings& settings, const lease::LeaseRequest& request,
                         lease::Actor actor, const lease::RunEnd& end, bool awaited) {
  constexpr Micros late_statement = 2500ms;  // the server's own lock wait is 2 s
  const Micros patience = awaited ? std::max<Micros>(5s, request.terms.ttl) : Micros{5s};
  SystemClock clock;
  const WakeEvent never;
  const auto store = store::open_store(settings, {3s, 30s}, clock);
  const BootTime begun = clock.now();
  store->leave_line(request);
  const lease::ReleaseOptions how{.actor = actor, .end = end, .give_up = begun + patience};
  for (;;) {
    bool released = false;
    for (const lease::LeaseRef& ref : lease::refs_to(request)) {
      const auto tried = lease::release_with_retries(*store, clock, ref, how, never);
      released = released || (tried.result == lease::ReleaseResult::released && !tried.refused);
    }
    if (released) return store->end();
    if (clock.now() - begun >= late_statement) return;
    clock.wait_until(clock.now() + 200ms, never);
  }
}

}  // namespace dblock::app
