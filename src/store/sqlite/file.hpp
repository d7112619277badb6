// The store's file before SQLite sees it: that it is there, ours, and on a disk of this host.
#pragma once

#include <string>

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "store/config/settings.hpp"

namespace dblock::store::sqlite {

// Makes sure that the store's path is a regular file of the effective user on a local file system, creating
// it with mode 0600, and --local's directory with mode 0700, when there is none yet. Returns its path without
// symbolic links. Errc::config with the reason and what to do otherwise; an existing file is never changed.
//
// Opens no descriptor on the file: closing one would drop the locks of this process's other connections
// (POSIX fcntl locks; "How To Corrupt An SQLite Database File", section 2.2).
[[nodiscard]] Result<std::string> prepare_file(const SqliteSettings& settings, const std::string& attempt);

// Errc::config where the store's directory is missing and will not be made.
[[nodiscard]] Result<void> check_place(const SqliteSettings& settings, const std::string& attempt);

// A file of dblock's own beside the store, private whatever the umask. Empty when there is none and it is not
// to be made, when it cannot be had, or is no regular file of the effective user's alone.
enum class WhenMissing { make, leave };
[[nodiscard]] UniqueFd open_beside(const std::string& path, WhenMissing when_missing);

}  // namespace dblock::store::sqlite
