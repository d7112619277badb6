// What has been seen of a store, beside it: the number of its changes, by those who made them. SQLite takes a
// write-ahead log that is gone or damaged for one that has nothing more to say, and a file copied back for
// the file itself; either would free locks that are held. A store that has fewer changes than were seen since
// the machine started is refused.
//
// Kept for this boot only: what a power cut takes from the store and not from the witness must not count
// against it, and the leases of another boot are over anyway.
#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.hpp"

namespace dblock::store::sqlite {

class Witness {
 public:
  Witness() = default;
  // Of the store at `database_path`. Its file is made by the first change, so that what is no store gets
  // none; where it cannot be had (no room, no permission) nothing is seen.
  Witness(const std::string& database_path, std::string boot_id);

  // The most changes that were seen in this boot; 0 when none were.
  [[nodiscard]] std::uint64_t changes();

  // After the change was committed. Of two at once the later may lose to the earlier: less is seen then,
  // never more.
  void saw(std::uint64_t changes);

 private:
  std::string path_, boot_id_;
  UniqueFd file_;
};

}  // namespace dblock::store::sqlite
