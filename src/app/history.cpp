// `dblock history`: lists the runs that have ended, where the database records them. Takes no lock, changes
// no row.
#include "app/silence_watch.hpp"
#include "app/store_access.hpp"
#include "app/use_cases.hpp"
#include "base/log.hpp"
#include "store/open.hpp"

namespace dblock::app {

Result<lease::History> history(const HistoryRequest& request) {
  DBLOCK_TRY(const store::Settings settings, settings_from(request.database));
  SystemClock clock;
  const auto store = store::open_store(settings, {.reads_only = true}, clock);
  const SilenceWatch watch(settings);
  DBLOCK_TRY(auto history, store->history(request.query));
  if (!history.kept) {
    log::warning(
        "no history is kept here: runs that end are not recorded. `dblock migrate --history on` begins one");
  }
  history.since = request.query.since;
  return history;
}

}  // namespace dblock::app
