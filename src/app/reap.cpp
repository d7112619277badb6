// `dblock reap`: clear up expired leases and long-idle rows. Correctness never depends on it.
#include <utility>

#include "app/rounds.hpp"
#include "app/silence_watch.hpp"
#include "app/store_access.hpp"
#include "app/use_cases.hpp"
#include "base/log.hpp"
#include "process/signals.hpp"
#include "store/open.hpp"

namespace dblock::app {

using namespace std::chrono_literals;

Result<Ending> reap(const ReapRequest& request,
                    const std::function<void(const lease::ReapReport&)>& on_report) {
  DBLOCK_TRY(const store::Settings settings, settings_from(request.database));
  SystemClock clock;
  const auto store = store::open_store(settings, {}, clock);
  const lease::ReapOptions options{request.dry_run, request.forget_after, request.forget_history};
  const auto reap_once = [&] {
    const SilenceWatch watch(settings);
    return store->reap(options);
  };
  if (!request.every) {
    DBLOCK_TRY(const lease::ReapReport report, reap_once());
    on_report(report);
    return Ending{};
  }
  const process::Signals signals;
  const WakeEvent never;
  const auto round = [&]() -> Result<void> {
    const auto report = reap_once();
    if (report) {
      on_report(*report);
    } else if (may_pass(report.error())) {
      log::warning(report.error().message + "; trying again at the next round");
    } else {
      return std::unexpected(report.error());
    }
    return {};
  };
  return in_rounds(*request.every, clock, round,
                   [&](BootTime next) { return signals.wait(never, next).has_value(); });
}

}  // namespace dblock::app
