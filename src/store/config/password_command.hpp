// password-command: a command of the user's that prints the password.
#pragma once

#include <chrono>
#include <string>

#include "base/error.hpp"

namespace dblock::store {

// Runs `command` by /bin/sh -c and returns the first line of its output. The command has a session of its
// own, /dev/null on standard input, dblock's standard error, and no other descriptor of dblock's or of its
// caller. After `limit` the command is killed with the processes that it has started in its session; also
// when a signal comes that ends dblock.
// REQUIRES: no thread exists yet.
// Errc::config when the command fails, prints no password, or takes too long. Messages name it by `source`
// ("password-command in /etc/dblock.conf"); they hold neither the command nor what it printed.
[[nodiscard]] Result<std::string> run_password_command(const std::string& command, const std::string& source,
                                                       std::chrono::milliseconds limit);

}  // namespace dblock::store
