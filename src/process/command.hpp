// The command that dblock starts: its program, found before anything else happens so that 126 and 127 need no
// guessing later, and its environment.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace dblock::process {

// The path to execute for `name`, looked up as execvp(3) does: names with a slash as they are, others in
// `path` (PATH's value; "/bin:/usr/bin" when null). Errc::not_found or Errc::cannot_run (a directory, no
// permission).
[[nodiscard]] Result<std::string> find_command(std::string_view name, const char* path);

// For execve(2): the inherited environment with `changes`, strings that each end with a NUL: NAME=VALUE sets,
// NAME alone takes away. Points into both.
[[nodiscard]] std::vector<char*> changed_environment(std::string& changes);

// `changes` from a list, of which nothing after a NUL counts.
[[nodiscard]] std::string join_changes(const std::vector<std::string>& changes);

}  // namespace dblock::process
