#include "support/disk.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>
#include <stdexcept>

namespace dblock::test {
namespace {

namespace fs = std::filesystem;

std::uint64_t inode_of(const std::string& path) {
  struct stat seen {};
  if (::lstat(path.c_str(), &seen) != 0) throw std::runtime_error("there is no " + path);
  return seen.st_ino;
}

std::string parent_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// Each file and directory below a folder, by its path there.
template <typename Visit>
void visit_all(const std::string& folder, Visit visit) {
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_directory() || entry.is_regular_file())
      visit(entry.path().string().substr(folder.size() + 1), entry);
}

}  // namespace

DiskJournal::DiskJournal(const std::string& folder) : folder_(fs::canonical(folder)) {
  write_file(directory_.file("journal"), "");
}

std::vector<std::string> DiskJournal::env() const {
  return {"LD_PRELOAD=" DBLOCK_TEST_DISK_LIBRARY, "DBLOCK_TEST_DISK=" + folder_,
          "DBLOCK_TEST_DISK_JOURNAL=" + directory_.file("journal")};
}

std::vector<DiskStep> DiskJournal::steps() const {
  const std::string bytes = read_file(directory_.file("journal"));
  std::vector<DiskStep> steps;
  for (std::size_t at = 0; at < bytes.size();) {
    DiskStep step;
    std::memcpy(&step.record, bytes.data() + at, sizeof step.record);
    at += sizeof step.record;
    step.path = bytes.substr(at, step.record.path_size);
    at += step.record.path_size;
    step.more = bytes.substr(at, step.record.more_size);
    at += step.record.more_size;
    steps.push_back(std::move(step));
  }
  return steps;
}

std::vector<std::string> started_anew(const TempDir& directory) {
  const std::string file = directory.file("boot_id");
  write_file(file, "11111111-2222-4333-8444-555555555555\n");
  return {"LD_PRELOAD=" DBLOCK_TEST_DISK_LIBRARY, "DBLOCK_TEST_BOOT_ID=" + file};
}

// Says of each change that was not synced whether it has arrived.
class Disk::Lot {
 public:
  // Of the changes that were made from `oldest` to `newest`.
  Lot(Arrived arrived, unsigned draw, std::size_t oldest, std::size_t newest)
      : arrived_(arrived), random_(draw) {
    cut_ = std::uniform_int_distribution<std::size_t>(oldest, newest)(random_);
  }
  bool takes(std::size_t moment) {
    if (arrived_ == Arrived::torn && moment != cut_) return moment < cut_;
    if (arrived_ == Arrived::some || arrived_ == Arrived::torn) return random_() % 2 == 0;
    return arrived_ == Arrived::all;
  }

 private:
  Arrived arrived_;
  std::minstd_rand random_;
  std::size_t cut_;
};

Disk::Disk(const std::string& folder) {
  visit_all(folder, [&](const std::string& path, const fs::directory_entry& entry) {
    auto& node = node_of(inode_of(entry.path()));
    node->is_directory = entry.is_directory();
    if (!node->is_directory) node->synced = read_file(entry.path());
    synced_names_[path] = node;
  });
}

std::shared_ptr<Disk::Node>& Disk::node_of(std::uint64_t inode) {
  auto& node = nodes_[inode];
  if (!node) node = std::make_shared<Node>();
  return node;
}

void Disk::take(const DiskStep& step) {
  const DiskRecord& record = step.record;
  ++moment_;
  switch (record.change) {
    case DiskChange::made_file:
    case DiskChange::made_directory:
      // The inode's number may have been that of a file which is gone.
      nodes_[record.inode] = std::make_shared<Node>(record.change == DiskChange::made_directory);
      [[fallthrough]];
    case DiskChange::named:
    case DiskChange::renamed:
    case DiskChange::removed:
      unsynced_names_.push_back({moment_, record.change, step.path, step.more, node_of(record.inode)});
      return;
    case DiskChange::written:
      node_of(record.inode)->unsynced.push_back({moment_, record.at, step.more});
      return;
    case DiskChange::resized:
      node_of(record.inode)->unsynced.push_back({moment_, record.at, {}, true});
      return;
    case DiskChange::synced: {
      Lot all(Arrived::all, 0, 0, 0);
      Node& node = *node_of(record.inode);
      node.synced = content_left(node, all);
      node.unsynced.clear();
      sync_names_in(step.path);
      return;
    }
  }
}

void Disk::sync_names_in(const std::string& directory) {
  std::erase_if(unsynced_names_, [&](const Renaming& each) {
    const bool within = parent_of(each.path) == directory ||
                        (each.change == DiskChange::renamed && parent_of(each.other) == directory);
    if (within) apply(each, synced_names_);
    return within;
  });
}

void Disk::apply(const Renaming& renaming, Names& names) {
  if (renaming.change != DiskChange::renamed) {
    names.erase(renaming.path);
    if (renaming.change != DiskChange::removed) names[renaming.path] = renaming.node;
    return;
  }
  Names moved;
  const std::string within = renaming.path + "/";
  for (const auto& [path, node] : names)
    if (path.starts_with(within)) moved[renaming.other + "/" + path.substr(within.size())] = node;
  std::erase_if(
      names, [&](const auto& each) { return each.first == renaming.path || each.first.starts_with(within); });
  if (renaming.other.empty()) return;  // out of the folder
  names[renaming.other] = renaming.node;
  for (auto& [path, node] : moved) names[path] = node;
}

void Disk::apply(const Change& change, std::string& content, Lot& lot) {
  if (change.resizes) {
    if (lot.takes(change.moment)) content.resize(change.at);
    return;
  }
  write_sectors(content, change.at, change.bytes, [&] { return lot.takes(change.moment); });
}

Disk::Names Disk::names_left(Lot& lot) const {
  Names names = synced_names_;
  for (const auto& each : unsynced_names_)
    if (lot.takes(each.moment)) apply(each, names);
  // In the order of the paths, so directories come before what is in them. What is in none that is left is
  // lost.
  std::erase_if(names, [&names](const auto& each) {
    const std::string parent = parent_of(each.first);
    return parent != "." && !names.contains(parent);
  });
  return names;
}

std::string Disk::content_left(const Node& node, Lot& lot) {
  std::string content = node.synced;
  for (const auto& each : node.unsynced) apply(each, content, lot);
  return content;
}

void Disk::write_to(const std::string& folder, Arrived arrived, unsigned draw) const {
  Lot lot(arrived, draw, oldest_unsynced(), moment_);
  for (const auto& [path, node] : names_left(lot)) {
    if (node->is_directory) {
      fs::create_directory(folder + "/" + path);
      fs::permissions(folder + "/" + path, fs::perms(0700));
    } else {
      write_file(folder + "/" + path, content_left(*node, lot), 0600);
    }
  }
}

std::string Disk::differs_from(const std::string& folder, const std::vector<std::string>& but) const {
  Lot all(Arrived::all, 0, 0, 0);
  const Names names = names_left(all);
  const auto is_left_out = [&](const std::string& path) {
    return std::ranges::any_of(but, [&](const auto& end) { return path.ends_with(end); });
  };
  std::string different;
  for (const auto& [path, node] : names)
    if (!is_left_out(path) && !fs::exists(folder + "/" + path)) different = path;
  visit_all(folder, [&](const std::string& path, const fs::directory_entry& entry) {
    if (is_left_out(path)) return;
    const auto found = names.find(path);
    if (found == names.end() ||
        (entry.is_regular_file() && content_left(*found->second, all) != read_file(entry.path())))
      different = path;
  });
  return different;
}

std::size_t Disk::oldest_unsynced() const {
  std::size_t oldest = unsynced_names_.empty() ? moment_ : unsynced_names_.front().moment;
  for (const auto& [inode, node] : nodes_)
    if (!node->unsynced.empty()) oldest = std::min(oldest, node->unsynced.front().moment);
  return oldest;
}

}  // namespace dblock::test
