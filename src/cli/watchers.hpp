// The two ways to show a watch: a picture on a terminal, or one document after another.
#pragma once

#include <memory>

#include "app/watch.hpp"
#include "cli/command_line.hpp"

namespace dblock::cli {

[[nodiscard]] std::unique_ptr<app::Watcher> make_watcher(const app::InspectRequest& request,
                                                         const OutputOptions& output,
                                                         const Surroundings& surroundings);

}  // namespace dblock::cli
