#include "base/weak_spot.hpp"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "base/text.hpp"

namespace dblock {
namespace {

constexpr int k_most_links = 40;  // as the kernel

struct Close {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

File open_text(const char* path) {
  return File(std::fopen(path, "re"));
}

bool is_trusted(uid_t user) {
  return user == 0 || user == ::geteuid();
}

// The number that ends the first line of the file; 0 if it cannot be read.
unsigned long last_number_in(const char* path) {
  const File file = open_text(path);
  std::array<char, 64> line{};
  if (!file || std::fgets(line.data(), line.size(), file.get()) == nullptr) return 0;
  const std::string_view text = trimmed(line.data());
  const auto digits = text.substr(text.find_last_of(" \t") + 1);
  unsigned long number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

// True for the overflow user in a user namespace.
bool is_any_user(uid_t owner) {
  return last_number_in("/proc/self/uid_map") != UINT_MAX &&
         owner == last_number_in("/proc/sys/kernel/overflowuid");
}

// True if the group may have members besides root and the effective user. Goes by /etc/passwd and /etc/group
// alone: the name service might ask a directory server. A group that is not in these files is the user's own
// if it has the user's number.
bool has_other_members(gid_t group) {
  if (group == 0) return false;
  std::vector<std::string> trusted;
  const File accounts = open_text("/etc/passwd");
  while (const passwd* const account = accounts ? ::fgetpwent(accounts.get()) : nullptr) {
    if (is_trusted(account->pw_uid)) {
      trusted.emplace_back(account->pw_name);
    } else if (account->pw_gid == group) {
      return true;
    }
  }
  const File groups = open_text("/etc/group");
  while (const ::group* const entry = groups ? ::fgetgrent(groups.get()) : nullptr) {
    if (entry->gr_gid != group) continue;
    for (char** member = entry->gr_mem; *member != nullptr; ++member) {
      if (std::ranges::find(trusted, *member) == trusted.end()) return true;
    }
    return false;
  }
  return group != ::geteuid();
}

// Walks the path as the kernel does, one name at a time. Each step is safe from changes by other users if all
// steps before it are, so the path may be used after the walk.
class Walk {
 public:
  std::optional<WeakSpot> run(const std::string& path) {
    push(path);
    if (auto weak = check_directory()) return weak;
    while (!names_.empty()) {
      const std::string name = std::move(names_.back());
      names_.pop_back();
      if (auto weak = take(name)) return weak;
    }
    return std::nullopt;
  }

 private:
  void push(const std::string& path) {
    std::vector<std::string> names;
    for (std::size_t start = 0; start < path.size();) {
      const auto end = std::min(path.find('/', start), path.size());
      if (end > start) names.push_back(path.substr(start, end - start));
      start = end + 1;
    }
    names_.insert(names_.end(), names.rbegin(), names.rend());
  }

  std::optional<WeakSpot> take(const std::string& name) {
    if (name == ".") return std::nullopt;
    if (name == "..") {
      at_ = at_.empty() ? "" : at_.substr(0, at_.rfind('/'));
      return check_directory();
    }
    const std::string place = at_ + "/" + name;
    // What a process sees below /proc is that process's to choose.
    if (place == "/proc")
      return WeakSpot{"it leads through /proc, where processes choose what they show", ""};
    struct stat seen {};
    if (::lstat(place.c_str(), &seen) != 0) {
      names_.clear();
      return std::nullopt;
    }
    if (auto weak = check_entry(place, seen)) return weak;
    if (S_ISLNK(seen.st_mode)) return follow(place);
    if (names_.empty() && !S_ISDIR(seen.st_mode)) return std::nullopt;
    at_ = place;
    return names_.empty() ? std::nullopt : check_directory();
  }

  std::optional<WeakSpot> follow(const std::string& link) {
    std::array<char, PATH_MAX> target{};
    const auto length = ::readlink(link.c_str(), target.data(), target.size());
    if (length <= 0 || ++links_ > k_most_links) {
      names_.clear();
      return std::nullopt;
    }
    const std::string to(target.data(), static_cast<std::size_t>(length));
    push(to);
    if (!to.starts_with('/')) return std::nullopt;
    at_.clear();
    return check_directory();
  }

  // Looks at who may change the entries of the directory that the walk has reached.
  std::optional<WeakSpot> check_directory() {
    const std::string directory = at_.empty() ? "/" : at_;
    struct stat seen {};
    shared_ = false;
    if (::stat(directory.c_str(), &seen) != 0) return std::nullopt;
    if (is_another_user(seen.st_uid)) return owned_by_another(directory, seen);
    const bool everybody = (seen.st_mode & S_IWOTH) != 0;
    const bool group = (seen.st_mode & S_IWGRP) != 0 && has_other_members(seen.st_gid);
    shared_ = everybody || group;
    if (!shared_ || (seen.st_mode & S_ISVTX) != 0) return std::nullopt;
    const std::string shown = escape_untrusted(directory);
    return WeakSpot{"other users may write the directory " + shown,
                    (everybody ? "chmod o-w " : "chmod g-w ") + shown};
  }

  // Looks at an entry of a sticky directory: its owner alone may rename it. Where links to the files of
  // others are allowed, a file with several names may have been put there by anybody.
  [[nodiscard]] std::optional<WeakSpot> check_entry(const std::string& place, const struct stat& seen) const {
    if (!shared_) return std::nullopt;
    if (is_another_user(seen.st_uid)) return owned_by_another(place, seen);
    if (S_ISDIR(seen.st_mode) || seen.st_nlink <= 1) return std::nullopt;
    return WeakSpot{escape_untrusted(place) + " has several names, and others may have given it this one",
                    ""};
  }

  static WeakSpot owned_by_another(const std::string& place, const struct stat& seen) {
    return {(S_ISDIR(seen.st_mode)   ? "the directory "
             : S_ISLNK(seen.st_mode) ? "the link "
                                     : "the file ") +
                escape_untrusted(place) + " belongs to another user (uid " + std::to_string(seen.st_uid) +
                ")",
            ""};
  }

  std::vector<std::string> names_;  // still to go, the next one last
  std::string at_;                  // the directory reached, without links; "" is the root directory
  bool shared_ = false;             // others may write that directory too, which is sticky
  int links_ = 0;
};

}  // namespace

bool is_another_user(uid_t owner) {
  return !is_trusted(owner) && !is_any_user(owner);
}

uid_t owner_of_folder(const std::string& path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  struct stat seen {};
  while (::stat(folder.c_str(), &seen) != 0 && folder.has_relative_path()) folder = folder.parent_path();
  return seen.st_uid;
}

std::optional<WeakSpot> weak_spot(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  return Walk().run(error ? path : absolute.string());
}

}  // namespace dblock
