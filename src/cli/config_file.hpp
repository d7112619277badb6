// Configuration files: `option = value` lines, # and ; comments, [run], [acquire], … sections.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "cli/option_spec.hpp"

namespace dblock::cli {

struct ConfigValue {
  std::string_view name;  // of the option
  std::string value;
};

// The values of `text` that apply to `command`. A line outside a section sets a global option, else an option
// of run and acquire, else the option of whichever subcommands have it. Errc::config naming file and line for
// what is unknown anywhere in the file, whichever subcommand is asked for.
[[nodiscard]] Result<std::vector<ConfigValue>> parse_config(std::string_view text, const std::string& path,
                                                            Subcommand command);

// Contents of `path`; nullopt when there is no such file. Errc::config when it cannot be read.
[[nodiscard]] Result<std::optional<std::string>> read_config(const std::string& path);

}  // namespace dblock::cli
