// The two ways to show `inspect --watch`: a picture on a terminal, or one document after another.
#pragma once

#include <memory>

#include "app/watch.hpp"
#include "cli/command_line.hpp"

namespace dblock::cli {

// A picture if the answer is a table and stdout a terminal that can move its cursor, else a stream of
// documents. The display keeps a reference to `environment`.
[[nodiscard]] std::unique_ptr<app::WatchDisplay> make_watch_display(const app::InspectRequest& request,
                                                                    const OutputOptions& output,
                                                                    const Environment& environment);

}  // namespace dblock::cli
