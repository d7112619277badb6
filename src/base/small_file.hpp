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

// True if users other than root and the user who runs dblock can write the file: everybody; for root also a
// file of another user or of another group that may write it. Ask this of a file that names commands.
[[nodiscard]] bool others_may_write(const SmallFile& file);

// Reads the file at `path`. A pipe (`<(make-config)`) is read until its last writer has closed it, for ten
// seconds at most. nullopt: there is no file. Errc::config for a file that cannot be read, or of more than 1
// MiB. `what` names the file in messages: "option file".
[[nodiscard]] Result<std::optional<SmallFile>> read_small_file(const std::string& path,
                                                               std::string_view what);

}  // namespace dblock
