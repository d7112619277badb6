// Finding the job's program before anything else happens, so that 126 and 127 need no guessing later.
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"

namespace dblock::process {

// The path to execute for `name`, looked up as execvp(3) does: names with a slash as they are, others in
// `path` (PATH's value; "/bin:/usr/bin" when null). Errc::not_found or Errc::cannot_run (a directory, no
// permission).
[[nodiscard]] Result<std::string> find_command(std::string_view name, const char* path);

}  // namespace dblock::process
