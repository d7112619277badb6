// Notices that a store has lost changes. Each process that commits a change writes the store's number of
// changes into a file beside the store. SQLite takes a removed or damaged write-ahead log for an empty one,
// and cannot tell an older copy of the file from the file itself; either would free locks that are held. So
// dblock refuses a store with fewer changes than the witness has seen since the machine started.
//
// The witness counts for one boot only. A power cut may take changes from the store and not from the witness,
// which must not count against the store; and the leases of an earlier boot are over anyway.
#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.hpp"

namespace dblock::store::sqlite {

class Witness {
 public:
  Witness() = default;
  // The witness of the store at `database_path`. The first change makes its file, so that a file that is no
  // store gets none. If the file cannot be made (full disk, no permission), the witness sees nothing.
  Witness(const std::string& database_path, std::string boot_id);

  // The highest number of changes seen in this boot; 0 if none was seen.
  [[nodiscard]] std::uint64_t changes_seen();

  // Call after a change was committed. If two processes call it at once, the lower number may win: the
  // witness may see too little, never too much.
  void note(std::uint64_t changes);

 private:
  std::string path_, boot_id_;
  UniqueFd file_;
};

}  // namespace dblock::store::sqlite
