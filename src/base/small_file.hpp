// Small files of text, read whole: configuration, options, passwords.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace dblock {

struct SmallFile {
  std::string text;
  mode_t mode = 0;  // kind and permissions
  uid_t owner = 0;
  gid_t group = 0;
};

// Reads the file at `path`. A pipe (`<(make-config)`) is read until its last writer has closed it, for ten
// seconds at most. nullopt: there is no file. Errc::config for a file that cannot be read, or of more than 1
// MiB. `what` names the file in messages: "option file".
[[nodiscard]] Result<std::optional<SmallFile>> read_small_file(const std::string& path,
                                                               std::string_view what);

}  // namespace dblock
