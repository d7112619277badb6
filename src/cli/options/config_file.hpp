// Configuration files: `option = value` lines, # and ; comments, [run], [acquire], … sections.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/small_file.hpp"
#include "cli/options/option_spec.hpp"

namespace dblock::cli {

// The only entries that are no options: a command that prints the password for the database, and the file
// that holds it.
inline constexpr std::string_view k_password_command = "password-command";
inline constexpr std::string_view k_password_file = "password-file";

struct ConfigValue {
  std::string_view name;  // the option's name, in the option table's storage; or one of the two above
  std::string value;
};

// The values in `text` that apply to `command`, in their order. A line outside any section sets a global
// option, else an option of run and acquire, else the option of every subcommand that has it. Errc::config
// with file and line for an unknown option or section anywhere in the file, also in sections of other
// subcommands; for an option in a section that says where the locks are, which all subcommands must agree on;
// and for a URL with a comment behind it.
[[nodiscard]] Result<std::vector<ConfigValue>> parse_config(std::string_view text, const std::string& path,
                                                            Subcommand command);

// The file at `path`; nullopt if there is none. Errc::config if the file cannot be read, or if other users
// may change it.
[[nodiscard]] Result<std::optional<SmallFile>> read_config(const std::string& path, Found found);

}  // namespace dblock::cli
