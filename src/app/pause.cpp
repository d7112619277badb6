// `dblock pause` and `dblock resume`.
#include <algorithm>
#include <optional>
#include <utility>

#include "app/await_listing.hpp"
#include "app/identity.hpp"
#include "app/silence_watch.hpp"
#include "app/store_access.hpp"
#include "app/use_cases.hpp"
#include "app/words/describe.hpp"
#include "store/open.hpp"

namespace dblock::app {
namespace {

InspectRequest holders_in(const lease::PauseScope& scope) {
  InspectRequest request{.from_primary = true};
  if (scope.is_prefix)
    request.prefix = scope.text;
  else
    request.keys = {*lease::Key::parse(scope.text)};
  return request;
}

// The end of the pause ends the wait too: from then on there may be new holders.
std::optional<NotYet> holders_left(const lease::Listing& listing, const lease::PauseScope& paused) {
  if (std::ranges::find(listing.pauses, paused, &lease::Pause::scope) == listing.pauses.end()) {
    return NotYet{
        .ending = Ending::held("the pause has ended before the end of the holders was seen; pause again"),
        .for_good = true};
  }
  if (listing.locks.empty()) return std::nullopt;
  return NotYet{.ending = Ending::held(describe_conflict(listing.locks.front()))};
}

}  // namespace

Result<PauseReport> pause(const PauseRequest& request) {
  DBLOCK_TRY(const store::Settings settings, settings_from(request.database));
  SystemClock clock;
  const auto store = store::open_store(settings, {}, clock);
  std::optional<process::Signals> signals;  // made before the pause, so that its result gets reported
  if (request.wait) signals.emplace();
  PauseReport report;
  {
    const SilenceWatch watch(settings);
    DBLOCK_TRY(report.paused, store->pause({request.scope, request.end, account_on_host(request.identity),
                                            request.identity.note}));
  }
  if (signals) {
    store->disconnect();
    const ListingWait wait{
        .listed = holders_in(request.scope),
        .doing = "while waiting for the end of the holders",
        .stays = "the pause stays",
        .limit = request.wait->limit,
        .what_remains = [&](const InspectReport& now) { return holders_left(now.listing, request.scope); }};
    DBLOCK_TRY(report.ending, await_listing(wait, settings, *signals));
  }
  return report;
}

Result<lease::Resumed> resume(const ResumeRequest& request) {
  DBLOCK_TRY(const store::Settings settings, settings_from(request.database));
  SystemClock clock;
  const SilenceWatch watch(settings);
  return store::open_store(settings, {}, clock)->resume(request.scope);
}

}  // namespace dblock::app
