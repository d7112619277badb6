// `dblock reap`: clear up expired leases and long-idle rows. Correctness never depends on it.
#include <utility>

#include "app/database.hpp"
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
  if (!request.every) {
    DBLOCK_TRY(const lease::ReapReport report, store->reap(options));
    on_report(report);
    return Ending{};
  }
  const process::Signals signals;
  const WakeEvent never;
  for (BootTime next = clock.now();; next += *request.every) {
    const auto report = store->reap(options);
    if (report) {
      on_report(*report);
    } else if (may_pass(report.error())) {
      log::warning(report.error().message + "; trying again at the next round");
    } else {
      return std::unexpected(report.error());
    }
    // After a round that took longer than the interval the next one comes at once, but not several.
    next = std::max(next, clock.now() - *request.every);
    if (signals.wait(never, next + *request.every)) return Ending{};
  }
}

}  // namespace dblock::app
