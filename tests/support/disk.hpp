// A folder on a disk that forgets what was not synced: what the programs under test did to it
// (disk_journal.cpp), and what a power cut leaves of it at any moment.
//
// Assumed of file systems and disks, no more than POSIX says: what was written to a file is on the disk once
// the file has been synced, names in a directory are once the directory has been synced. Until then each
// sector of 512 bytes, each size and each name may have reached the disk or not, in any order. A sector
// arrives whole or not at all.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/config.hpp"
#include "support/disk_journal.hpp"

namespace dblock::test {

// Writes `bytes` into `content` at `at`, as far as they arrive: `arrives` is asked for each sector, in their
// order.
template <typename Arrives>
void write_sectors(std::string& content, std::size_t at, const std::string& bytes, Arrives arrives) {
  constexpr std::size_t k_sector = 512;
  for (std::size_t done = 0; done < bytes.size();) {
    const std::size_t size = std::min(bytes.size() - done, k_sector - (at + done) % k_sector);
    if (arrives()) {
      content.resize(std::max(content.size(), at + done + size));
      content.replace(at + done, size, bytes, done, size);
    }
    done += size;
  }
}

struct DiskStep {
  DiskRecord record;
  std::string path;  // below the folder
  std::string more;  // the bytes, or the new path
};

// Writes down what the programs that get its environment do to the folder, in which nothing may be a link.
class DiskJournal {
 public:
  explicit DiskJournal(const std::string& folder);
  [[nodiscard]] std::vector<std::string> env() const;
  [[nodiscard]] std::vector<DiskStep> steps() const;

 private:
  std::string folder_;
  TempDir directory_;
};
// The environment of programs that run after the machine has been started anew.
[[nodiscard]] std::vector<std::string> started_anew(const TempDir& directory);

// What of the unsynced changes has arrived: none, all, each or not by lot, or those before some moment, with
// the one of that moment torn.
enum class Arrived { none, all, some, torn };

class Disk {
 public:
  // What the folder holds now has been synced.
  explicit Disk(const std::string& folder);
  void take(const DiskStep& step);

  // Writes into an empty folder what a power cut leaves now.
  void write_to(const std::string& folder, Arrived arrived, unsigned draw) const;
  // The first path whose content in the folder is not what the steps have made of it; "" without one. For
  // paths that end so it is not asked.
  [[nodiscard]] std::string differs_from(const std::string& folder,
                                         const std::vector<std::string>& but) const;

 private:
  struct Change {  // of a file's content
    std::size_t moment = 0;
    std::size_t at = 0;
    std::string bytes{};
    bool resizes = false;
  };
  struct Node {
    bool is_directory = false;
    std::string synced{};
    std::vector<Change> unsynced{};
  };
  using Names = std::map<std::string, std::shared_ptr<Node>>;
  struct Renaming {
    std::size_t moment = 0;
    DiskChange change{};
    std::string path, other;
    std::shared_ptr<Node> node;
  };
  class Lot;

  [[nodiscard]] std::shared_ptr<Node>& node_of(std::uint64_t inode);
  [[nodiscard]] std::size_t oldest_unsynced() const;
  void sync_names_in(const std::string& directory);
  static void apply(const Renaming& renaming, Names& names);
  static void apply(const Change& change, std::string& content, Lot& lot);
  [[nodiscard]] Names names_left(Lot& lot) const;
  static std::string content_left(const Node& node, Lot& lot);

  Names synced_names_;
  std::vector<Renaming> unsynced_names_;
  std::map<std::uint64_t, std::shared_ptr<Node>> nodes_;  // by inode
  std::size_t moment_ = 0;
};

}  // namespace dblock::test
