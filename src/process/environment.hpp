// The environment of a program that dblock starts.
#pragma once

#include <string>
#include <vector>

namespace dblock::process {

// For execve(2): the inherited environment with `changes`, strings that each end with a NUL: NAME=VALUE sets,
// NAME alone takes away. Points into both.
[[nodiscard]] std::vector<char*> changed_environment(std::string& changes);

// `changes` from a list, of which nothing after a NUL counts.
[[nodiscard]] std::string join_changes(const std::vector<std::string>& changes);

}  // namespace dblock::process
