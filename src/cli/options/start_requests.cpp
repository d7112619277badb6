// When a run's job is started.
#include "cli/options/requests.hpp"

namespace dblock::cli {

Result<void> take_starts(const Values& options, app::RunRequest& request) {
  DBLOCK_CHECK(options.read("splay", request.splay));
  DBLOCK_CHECK(options.read("retry", request.retry.count));
  DBLOCK_CHECK(options.read("retry-delay", request.retry.delay));
  DBLOCK_CHECK(options.read("retry-max-delay", request.retry.max_delay));
  if (request.retry.count > 0) return {};
  for (const auto* const name : {"retry-delay", "retry-max-delay"}) {
    if (options.typed(name))
      return options.find(name)->refuse("needs --retry N, how often a failed job is started again");
  }
  return {};
}

}  // namespace dblock::cli
