// Checks the store's file before SQLite opens it: it exists, belongs to this user, and is on a local disk.
#pragma once

#include <string>

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "store/attempt.hpp"
#include "store/config/settings.hpp"

namespace dblock::store::sqlite {

// Makes sure that the store's path is a regular file of the effective user on a local file system. Creates a
// missing file with mode 0600, and a missing directory of --local with mode 0700. Returns the path without
// symbolic links. Never changes an existing file. Errc::config with the reason and advice if the file or its
// directory will not do; Errc::unreachable if the disk is full.
//
// Opens no descriptor on the file: closing one would drop the locks of this process's other connections
// (POSIX fcntl locks; "How To Corrupt An SQLite Database File", section 2.2).
[[nodiscard]] Result<std::string> prepare_file(const SqliteSettings& settings, const Attempt& attempt);

// Errc::config if the store's directory is missing and settings.makes_directory is false.
[[nodiscard]] Result<void> require_directory(const SqliteSettings& settings, const Attempt& attempt);

// Opens one of dblock's own files beside the store, with mode 0600 whatever the umask. Empty if the file is
// missing (and WhenMissing::leave), cannot be opened, or is not a regular file of the effective user alone.
enum class WhenMissing { make, leave };
[[nodiscard]] UniqueFd open_side_file(const std::string& path, WhenMissing when_missing);

}  // namespace dblock::store::sqlite
