// A password that may not last: asked for again while dblock runs.
#pragma once

#include <functional>
#include <string>

#include "base/error.hpp"
#include "store/config/settings.hpp"

namespace dblock::store {

// Reads the password file again, or runs the command again, within the connect timeout. A failed first try
// that nobody has been told of is returned instead, once. Thread-safe; `broken_off`: see
// run_password_command(). Errc::unreachable where a later try may succeed, else Errc::config.
// REQUIRES: settings.password_source.can_be_asked().
[[nodiscard]] Result<std::string> ask_for_password(MariadbSettings& settings,
                                                   const std::function<bool()>& broken_off);

}  // namespace dblock::store
