// `dblock pause` and `dblock resume`.
#include <optional>
#include <utility>

#include "app/database.hpp"
#include "app/identity.hpp"
#include "app/use_cases.hpp"
#include "app/words/describe.hpp"
#include "process/signals.hpp"
#include "store/open.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;

constexpr Micros k_holders_poll = 200ms;

lease::Selection holders_in(const lease::PauseScope& scope) {
  if (scope.is_prefix) return {{}, scope.text, true};
  return {{*lease::Key::parse(scope.text)}, std::nullopt, true};
}

// Waits until no lease runs in the scope, or the limit of --wait has come. The end of the pause ends the wait
// too: from then on there may be new holders.
Result<Ending> await_end_of_holders(const PauseRequest& request, const lease::Pause& pause,
                                    lease::LeaseStore& store, Clock& clock, const process::Signals& signals) {
  const WakeEvent never;
  const auto give_up =
      request.wait->limit ? std::optional(clock.now() + *request.wait->limit) : std::optional<BootTime>();
  for (;;) {
    DBLOCK_TRY(const auto listing, store.list(holders_in(request.scope)));
    if (listing.server_time >= pause.until)
      return Ending::held("the pause has ended before the holders did; pause again for longer");
    if (listing.locks.empty()) return Ending{};
    if (give_up && clock.now() >= *give_up)
      return Ending::held("the pause stays, but " + describe_conflict(listing.locks.front()));
    if (const auto stop = signals.wait(never, clock.now() + k_holders_poll); stop)
      return interrupted_by(*stop, "while waiting for the end of the holders; the pause stays");
  }
}

}  // namespace

Result<PauseReport> pause(const PauseRequest& request) {
  DBLOCK_TRY(const store::Settings settings, settings_from(request.database));
  SystemClock clock;
  const auto store = store::open_store(settings, {}, clock);
  std::optional<process::Signals> signals;  // made before the pause, so that its result gets reported
  if (request.wait) signals.emplace();
  PauseReport report;
  DBLOCK_TRY(report.paused, store->pause({request.scope, request.end, account_on_host(request.identity),
                                          request.identity.note}));
  if (signals) {
    DBLOCK_TRY(report.ending, await_end_of_holders(request, report.paused.pause, *store, clock, *signals));
  }
  return report;
}

Result<lease::Resumed> resume(const ResumeRequest& request) {
  DBLOCK_TRY(const store::Settings settings, settings_from(request.database));
  SystemClock clock;
  return store::open_store(settings, {}, clock)->resume(request.scope);
}

}  // namespace dblock::app
