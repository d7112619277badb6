// Whether other users can change which file a path names.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace dblock {

// True for a user other than root and the effective user. False for the overflow user in a user namespace (a
// sandbox, a rootless container): it stands for every user of the host whom the namespace does not know, root
// among them, so this owner says nothing.
[[nodiscard]] bool is_another_user(uid_t owner);

// The owner of the directory that `path` lies in; where that cannot be looked at, of the nearest one above
// it.
[[nodiscard]] uid_t owner_of_folder(const std::string& path);

struct WeakSpot {
  std::string what;    // "the directory /x belongs to another user (uid 1000)"
  std::string remedy;  // "chmod o-w /x"; empty if only another place helps
};

// The first directory or symbolic link on the way to `path`, without the file itself, by which a user other
// than root and the effective user can make `path` name another file. nullopt: there is none. Follows
// symbolic links. Says nothing of what is missing, and nothing of the file's own owner and mode.
//
// A directory that others may write is safe if it is sticky (/tmp), and what the path names in it belongs to
// root or the effective user. A group counts as others if it has members besides these two.
[[nodiscard]] std::optional<WeakSpot> weak_spot(const std::string& path);

}  // namespace dblock
