// What disk_journal.cpp writes and disk.cpp reads: one record a change to a file, in the order of the
// changes.
#pragma once

#include <cstdint>

namespace dblock::test {

enum class DiskChange : std::uint32_t {
  made_file,
  made_directory,
  named,
  written,
  resized,
  synced,
  renamed,
  removed
};

// Two texts follow: a path below the folder, and then the written bytes or the other path.
struct DiskRecord {
  DiskChange change{};
  std::uint32_t path_size = 0;
  std::uint64_t inode = 0;
  std::uint64_t at = 0;  // of what was written; the new size
  std::uint64_t more_size = 0;
};

}  // namespace dblock::test
