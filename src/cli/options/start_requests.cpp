// Whether and when a run's job is started.
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

Result<void> check_once_per(const Values& options, const app::RunRequest& request) {
  if (!request.promises.once_per) return {};
  if (!request.any.empty())
    return fail(
        Errc::usage,
        "run: " + options.find("once-per")->label +
            " asks for the last success under one key, and does not go with --any; leave one of them out");
  if (request.sharing.mode == lease::Mode::exclusive) return {};
  const auto beside = options.find(request.sharing.mode == lease::Mode::shared ? "shared" : "slots");
  return fail(Errc::usage, "run: " + options.find("once-per")->label +
                               " lets one job start in a period, and " + beside->label +
                               " lets several start side by side; leave one of them out");
}

}  // namespace dblock::cli
