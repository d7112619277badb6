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
  bool handed_over = false;    // a device, or a pipe without a name: by whoever started dblock
  std::string unchecked_path;  // nobody has looked yet whether other users may exchange what it names
};

// True if users other than root and the user who runs dblock can write the file: everybody; for root also a
// file or named pipe of another user, or of another group that may write it, or one that other users may
// exchange. Ask this of a file that names commands.
[[nodiscard]] bool others_may_write(const SmallFile& file);

enum class Found {
  by_name,    // the user named the file: it may be a pipe, and another user's
  by_itself,  // dblock looks for it in the user's home, which the environment names
};

// Reads the file at `path`. A pipe (`<(make-config)`) is read until its last writer has closed it, for ten
// seconds at most. nullopt: there is no file. Errc::config for a file that cannot be read, or of more than 1
// MiB; and for a file found by itself, unless it is a regular file that only root and the effective user may
// exchange. `what` names the file in messages: "option file".
[[nodiscard]] Result<std::optional<SmallFile>> read_small_file(const std::string& path, std::string_view what,
                                                               Found found = Found::by_name);

}  // namespace dblock
