#include "base/small_file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <vector>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "base/weak_spot.hpp"

namespace dblock {
namespace {

using namespace std::chrono_literals;

// Ends the reading of a device or a log file named by mistake.
constexpr std::size_t k_most_bytes = 1U << 20U;
constexpr auto k_patience = 10s;

std::string belongs_to(uid_t owner) {
  return "it belongs to another user (uid " + std::to_string(owner) + ")";
}

class Reading {
 public:
  Reading(const std::string& path, std::string_view what) : name_(std::string(what) + " " + path) {}

  Result<std::optional<SmallFile>> run(const std::string& path, Found by) {
    // O_NONBLOCK: a FIFO without a writer must not hang the program.
    file_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!file_ && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
    if (by == Found::by_itself && is_foreign(path, !file_ && errno == EACCES)) return foreign();
    struct stat seen {};
    if (!file_ || ::fstat(file_.get(), &seen) != 0) return refuse(errno);
    SmallFile found{{}, seen.st_mode, seen.st_uid, seen.st_gid, is_handed_over(seen), {}};
    // /dev/stdin and /dev/fd/63 lead through /proc: who starts dblock chooses what they are.
    const bool opened_before = found.handed_over || path.starts_with("/dev/") || path.starts_with("/proc/");
    if (by == Found::by_itself) {
      DBLOCK_CHECK(require_ours(path, seen));
    } else if (!opened_before) {
      found.unchecked_path = path;
    }
    DBLOCK_CHECK(read_into(found.text));
    return found;
  }

 private:
  [[nodiscard]] std::unexpected<Error> refuse(int err) const {
    return fail(
        Errc::config,
        with_errno("cannot read " + name_, err) + "; is it a file that the user who runs dblock may read?",
        static_cast<unsigned>(err));
  }

  [[nodiscard]] bool is_handed_over(const struct stat& seen) const {
    struct statfs system {};
    if (S_ISFIFO(seen.st_mode)) return ::fstatfs(file_.get(), &system) == 0 && system.f_type == PIPEFS_MAGIC;
    return S_ISCHR(seen.st_mode);
  }

  // True if the environment names another user's home, as setpriv and chpst leave it. A directory of root's
  // counts only if the file cannot be read.
  [[nodiscard]] static bool is_foreign(const std::string& path, bool denied) {
    if (::geteuid() == 0) return false;
    const int err = errno;
    const uid_t owner = owner_of_folder(path);
    errno = err;
    return is_another_user(owner) || (denied && owner != ::geteuid());
  }

  [[nodiscard]] SmallFile foreign() const {
    SmallFile unread;
    unread.foreign = name_ +
                     " is not read, for it lies in another user's directory; run dblock with the HOME and "
                     "XDG_CONFIG_HOME of its own user";
    return unread;
  }

  // Whoever keeps HOME or XDG_CONFIG_HOME (sudo -E, su -m) brings another user's files along.
  [[nodiscard]] Result<void> require_ours(const std::string& path, const struct stat& seen) const {
    const auto weak = weak_spot(path);
    std::string why = weak ? weak->what : "";
    const bool is_null = S_ISCHR(seen.st_mode) && seen.st_rdev == makedev(1, 3);
    if (why.empty() && !S_ISREG(seen.st_mode) && !is_null) why = "it is not a regular file";
    if (why.empty() && is_another_user(seen.st_uid)) why = belongs_to(seen.st_uid);
    if (why.empty()) return {};
    return fail(Errc::config, name_ + " is refused: " + why +
                                  "; run dblock with the HOME and XDG_CONFIG_HOME of its own user (sudo -H), "
                                  "or let only that user write there");
  }

  Result<void> read_into(std::string& text) {
    std::array<char, 4096> block{};
    const BootTime give_up = BootClock::now() + k_patience;
    while (text.size() <= k_most_bytes) {
      const ssize_t n = ::read(file_.get(), block.data(), block.size());
      if (n == 0) return {};
      if (n > 0) text.append(block.data(), static_cast<std::size_t>(n));
      if (n < 0 && errno == EAGAIN) DBLOCK_CHECK(await_more(give_up));
      if (n < 0 && errno != EAGAIN && errno != EINTR) return refuse(errno);
    }
    return fail(Errc::config, name_ + " is larger than 1 MiB; is it the right one?");
  }

  Result<void> await_more(BootTime give_up) {
    pollfd entry{file_.get(), POLLIN, 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(give_up - BootClock::now());
    if (left > 0ms && ::poll(&entry, 1, static_cast<int>(left.count())) != 0) return {};
    return fail(Errc::config, name_ + " was not complete after 10s; is the program running that writes it?");
  }

  const std::string name_;
  UniqueFd file_;
};

// How users other than root and the effective user can change what dblock reads there.
std::optional<WeakSpot> change_by_others(const SmallFile& file, Decides what) {
  if (file.handed_over) return std::nullopt;
  const bool is_root = ::geteuid() == 0;
  if (is_another_user(file.owner)) {
    const std::string us = is_root ? "" : " or to uid " + std::to_string(::geteuid());
    return WeakSpot{belongs_to(file.owner), "chown it to root" + us};
  }
  if ((file.mode & S_IWOTH) != 0) return WeakSpot{"everybody may write it", "chmod o-w it"};
  if (!is_root) return std::nullopt;
  if ((file.mode & S_IWGRP) != 0 && file.group != 0)
    return WeakSpot{"its group may write it (gid " + std::to_string(file.group) + ")", "chmod g-w it"};
  if (what == Decides::settings || file.unchecked_path.empty()) return std::nullopt;
  return weak_spot(file.unchecked_path);
}

bool in_group(gid_t group) {
  if (group == ::getegid()) return true;
  std::vector<gid_t> ours(static_cast<std::size_t>(std::max(::getgroups(0, nullptr), 0)));
  ours.resize(static_cast<std::size_t>(std::max(::getgroups(static_cast<int>(ours.size()), ours.data()), 0)));
  return std::ranges::find(ours, group) != ours.end();
}

}  // namespace

bool others_may_read(mode_t mode, gid_t group) {
  if (!S_ISREG(mode)) return false;
  return (mode & S_IROTH) != 0 || ((mode & S_IRGRP) != 0 && !in_group(group));
}

Result<void> require_trusted(const SmallFile& file, Decides what, const std::string& name) {
  const auto weak = change_by_others(file, what);
  if (!weak) return {};
  const std::string effect =
      what == Decides::commands ? "which commands are run" : "how the database is reached";
  const std::string remedy = weak->remedy.empty() ? "move it to where only root can put files" : weak->remedy;
  return fail(Errc::config, name + " may be changed by other users, and with it " + effect + ": " +
                                weak->what + "; " + remedy);
}

Result<std::optional<SmallFile>> read_small_file(const std::string& path, std::string_view what,
                                                 Found found) {
  return Reading(path, what).run(path, found);
}

}  // namespace dblock
