// The texts of --help and --version, made from the option table.
#pragma once

#include <optional>
#include <string>

#include "cli/options/option_spec.hpp"

namespace dblock::cli {

// The help of `command`, or of dblock itself if none is given or `command` has no help of its own. Lines of
// at most 80 columns.
[[nodiscard]] std::string help_text(std::optional<Subcommand> command);
[[nodiscard]] std::string version_text();

}  // namespace dblock::cli
