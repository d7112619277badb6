// When a run's job is started.
#include "cli/options/requests.hpp"

namespace dblock::cli {

Result<void> take_starts(const Values& options, app::RunRequest& request) {
  return options.read("splay", request.splay);
}

}  // namespace dblock::cli
