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

// The file at `path`, which may be a pipe (`<(make-config)`): waited for as long as somebody has it open to
// write, but ten seconds at most. nullopt where there is none. Errc::config for what cannot be read, and for
// more than 1 MiB. `what` names it in messages: "option file".
[[nodiscard]] Result<std::optional<SmallFile>> read_small_file(const std::string& path,
                                                               std::string_view what);

}  // namespace dblock
