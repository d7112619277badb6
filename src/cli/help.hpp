// --help, made from the option table.
#pragma once

#include <optional>
#include <string>

#include "cli/option_spec.hpp"

namespace dblock::cli {

// For dblock itself without a subcommand. Lines of at most 80 columns.
[[nodiscard]] std::string help_text(std::optional<Subcommand> command);
[[nodiscard]] std::string version_text();

}  // namespace dblock::cli
