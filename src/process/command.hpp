// The job's command: its program and its environment. dblock looks the program up before it does anything
// else, so that exit codes 126 and 127 need no guessing later.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace dblock::process {

// Looks up the path to execute for `name` as execvp(3) does: a name with a slash is the path itself, any
// other name is searched in `path` (PATH's value; "/bin:/usr/bin" when null). Errc::not_found, or
// Errc::cannot_run when the file may not be executed or `name` is the path of a directory.
[[nodiscard]] Result<std::string> find_command(std::string_view name, const char* path);

// Makes the environment for execve(2): the inherited one with `changes` applied. `changes` holds strings that
// each end with a NUL: NAME=VALUE sets a variable, NAME alone removes it. The result ends with a null
// pointer; its pointers lead into `changes` and into the inherited environment.
[[nodiscard]] std::vector<char*> changed_environment(std::string& changes);

// Joins a list into such a `changes` string. Cuts each entry at its first NUL.
[[nodiscard]] std::string join_changes(const std::vector<std::string>& changes);

}  // namespace dblock::process
