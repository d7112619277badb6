// password-command: a command of the user's that prints the password.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/error.hpp"
#include "store/config/settings.hpp"

namespace dblock::store {

// Runs the command by /bin/sh -c in its directory and returns the first line of its output. The command has a
// session of its own, /dev/null on standard input, dblock's standard error, default signals, and no other
// descriptor of dblock's or of its caller. After `limit`, when dblock ends, or when `broken_off` says so, the
// command is killed with the processes that it has started in its session.
// An empty `broken_off`: a signal breaks the command off that ends dblock. REQUIRES then: no thread exists
// yet. Otherwise thread-safe: `broken_off` is asked a few times a second.
// Errc::unreachable when the command fails, prints no password, or takes too long: it may work later.
// Errc::config when it is not found or cannot be executed. Messages name it by its source
// ("password-command in /etc/dblock.conf"); they hold neither the command nor what it printed.
[[nodiscard]] Result<std::string> run_password_command(const PasswordCommand& command,
                                                       std::chrono::milliseconds limit,
                                                       const std::function<bool()>& broken_off = {});

}  // namespace dblock::store
