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
  std::string foreign;         // a sentence, for a file that was not read because it is not this user's
};

// True if other users may read the file. The group of a file is no other user where this process is in it:
// that is how orchestrators hand a secret to a job's own user.
[[nodiscard]] bool others_may_read(mode_t mode, gid_t group);
[[nodiscard]] inline bool others_may_read(const SmallFile& file) {
  return others_may_read(file.mode, file.group);
}

enum class Decides { settings, commands };

// Errc::config if users other than root and the user who runs dblock can change the file: it belongs to one
// of them, or everybody may write it; for root also if a group other than root's may write it, or, where the
// file decides which commands are run, if they may exchange it. What was handed over is as good as the user
// who did it. `name` is the file in the message: "option file /x line 3".
[[nodiscard]] Result<void> require_trusted(const SmallFile& file, Decides what, const std::string& name);

enum class Found {
  by_name,    // the user named the file: it may be a pipe; ask require_trusted() before you obey it
  by_itself,  // dblock looks for it in the user's home, which the environment names
};

// Reads the file at `path`. A pipe (`<(make-config)`) is read until its last writer has closed it, for ten
// seconds at most. nullopt: there is no file. Errc::config for a file that cannot be read, or of more than 1
// MiB; and for a file found by itself, unless it is a regular file that only root and the effective user may
// exchange. Not read, but marked as foreign, is a file found by itself, unless for root, in a directory of
// another user's: only the environment says that it is for this user. `what` names the file in messages:
// "option file".
[[nodiscard]] Result<std::optional<SmallFile>> read_small_file(const std::string& path, std::string_view what,
                                                               Found found = Found::by_name);

}  // namespace dblock
