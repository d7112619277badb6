#include "store/sqlite/file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "base/weak_spot.hpp"

namespace dblock::store::sqlite {
namespace {

// File systems that several hosts, or several kernels on one host (virtiofs), may share. Between kernels,
// locks and memory maps do not work reliably, and one kernel's boot clock means nothing to another. With
// FUSE, dblock cannot tell who else uses the files. Numbers from linux/magic.h and statfs(2).
constexpr std::array<unsigned long, 13> k_network_file_systems{
    NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC, CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC, AFS_SUPER_MAGIC,
    CODA_SUPER_MAGIC, V9FS_MAGIC,      FUSE_SUPER_MAGIC, CEPH_SUPER_MAGIC, OCFS2_SUPER_MAGIC,
    0x01161970,  // GFS2
    0x0BD00BD0,  // Lustre
    0x47504653,  // GPFS
};

constexpr off_t k_least_database = 512;               // SQLite's smallest page
constexpr std::size_t k_longest_name = NAME_MAX - 8;  // -journal is the longest that SQLite adds

struct Names {
  std::string directory;
  std::string file;
};

Names split(const std::string& path) {
  const auto slash = path.rfind('/');
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

// True for a regular file that belongs to the effective user and has one name only.
bool is_ours_alone(const struct stat& seen) {
  return S_ISREG(seen.st_mode) && seen.st_uid == ::geteuid() && seen.st_nlink <= 1;
}

class Preparation {
 public:
  Preparation(const SqliteSettings& settings, const Attempt& attempt)
      : path_(settings.path),
        makes_directory_(settings.makes_directory),
        home_advice_(settings.home_advice),
        attempt_(attempt) {}

  Result<void> require_directory() const {
    const std::string directory = split(path_).directory;
    struct stat seen {};
    if (makes_directory_ || ::stat(directory.c_str(), &seen) == 0 || (errno != ENOENT && errno != ENOTDIR))
      return {};
    const std::string shown = escape_untrusted(directory);
    return refuse("there is no directory " + shown + "; check the path, or make it with mkdir -m 700 " +
                  shown);
  }

  Result<std::string> run() {
    const Names names = split(path_);
    if (names.file.empty() || names.file == "." || names.file == "..")
      return refuse("it names no file; add the file's name after the last /");
    DBLOCK_CHECK(require_directory());
    if (makes_directory_) DBLOCK_CHECK(make_directory(names.directory));
    std::array<char, PATH_MAX> real{};
    if (names.file.size() > k_longest_name) return refuse("its name is too long; choose a shorter one");
    if (::realpath(names.directory.c_str(), real.data()) == nullptr)
      return refuse(with_errno("cannot enter its directory", errno));
    const std::string directory = real.data();
    real_ = (directory == "/" ? "" : directory) + "/" + names.file;
    DBLOCK_CHECK(check_directory(directory));
    DBLOCK_CHECK(check_way(names.directory));
    DBLOCK_CHECK(make_file());
    DBLOCK_CHECK(check_files_beside());
    return real_;
  }

 private:
  [[nodiscard]] std::unexpected<Error> refuse(const std::string& reason) const {
    return failed(Errc::config, reason + home_advice_);
  }

  [[nodiscard]] std::unexpected<Error> failed(Errc code, const std::string& reason) const {
    return fail(code, attempt_.text() + " in sqlite:" + escape_untrusted(path_) + ": " + reason);
  }

  // The error when `what` could not be made: Errc::unreachable for a full disk, which may pass, else
  // Errc::config with advice.
  [[nodiscard]] std::unexpected<Error> not_made(const std::string& what, int err,
                                                const std::string& advice) const {
    if (err == ENOSPC || err == EDQUOT)
      return failed(Errc::unreachable, what + ": no space is left on its disk. Make room and try again");
    return refuse(with_errno(what, err) + "; " + advice);
  }

  Result<void> make_directory(const std::string& directory) {
    if (made(directory)) return {};
    if (errno == ENOENT && directory != "/") {
      DBLOCK_CHECK(make_directory(split(directory).directory));
      if (made(directory)) return {};
    }
    struct stat seen {};
    const int err = errno;
    if (::stat(directory.c_str(), &seen) == 0) return {};  // it exists, for example on a read-only disk
    return not_made("cannot make the directory " + escape_untrusted(directory), err,
                    "choose another place with --db sqlite:PATH");
  }

  // True if the directory exists. A directory made here gets mode 0700 whatever the umask.
  [[nodiscard]] static bool made(const std::string& directory) {
    if (::mkdir(directory.c_str(), 0700) == 0) return ::chmod(directory.c_str(), 0700) == 0;
    return errno == EEXIST;
  }

  // Refuses a directory in which other users could rename files: they could replace the store by another one.
  Result<void> check_directory(const std::string& directory) {
    struct stat seen {};
    if (::stat(directory.c_str(), &seen) != 0)
      return refuse(with_errno("cannot look at its directory", errno));
    if (!S_ISDIR(seen.st_mode))
      return refuse(
          "the path of its directory names something else; choose another place with --db sqlite:PATH");
    if (seen.st_uid != 0 && seen.st_uid != ::geteuid())
      return refuse("its directory belongs to another user (uid " + std::to_string(seen.st_uid) +
                    "), who could swap the file; choose a directory of yours with --db sqlite:PATH");
    // The sticky bit would not do: it protects the file itself, but other users could put files beside it.
    if ((seen.st_mode & (S_IWGRP | S_IWOTH)) != 0)
      return refuse(
          "other users may write its directory, and swap the file or put theirs beside it; chmod go-w " +
          escape_untrusted(directory) + ", or choose a directory of yours with --db sqlite:PATH");
    return {};
  }

  // Refuses a way to the directory on which other users could put another directory in its place: a running
  // job's store would vanish, and the next job would start beside it.
  Result<void> check_way(const std::string& directory) {
    const auto weak = weak_spot(directory);
    if (!weak) return {};
    return refuse(weak->what + ", and who may write there can swap the store's directory for another; " +
                  (weak->remedy.empty() ? "" : weak->remedy + ", or ") +
                  "choose a place below a directory of yours with --db sqlite:PATH");
  }

  Result<void> make_file() {
    UniqueFd there(::open(real_.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!there && errno == ENOENT) {
      // Looks for the file again: another process may have made both files just now.
      if (exists(real_ + "-wal") && !exists(real_))
        return refuse(
            "the file is gone, but " + escape_untrusted(real_ + "-wal") +
            " is still there: someone removed the store. If no job runs under its locks, remove what "
            "is left of it, and dblock makes a new one");
      // mknod() instead of open(): the header says why no descriptor may be opened.
      const bool made = ::mknod(real_.c_str(), S_IFREG | 0600, 0) == 0;
      if (!made && errno != EEXIST)
        return not_made("cannot create it", errno,
                        "the user who runs dblock must be able to write its directory");
      if (made) ::chmod(real_.c_str(), 0600);  // whatever the umask
      there.reset(::open(real_.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    }
    if (!there)
      return refuse(with_errno("cannot open it", errno) +
                    "; the user who runs dblock must be able to enter its directory");
    return check_file(there.get());
  }

  Result<void> check_file(int fd) {
    struct stat seen {};
    if (::fstat(fd, &seen) != 0) return refuse(with_errno("cannot look at it", errno));
    if (S_ISLNK(seen.st_mode)) return refuse("it is a symbolic link; name the file itself");
    if (S_ISDIR(seen.st_mode)) return refuse("it is a directory; name a file in it");
    if (!S_ISREG(seen.st_mode)) return refuse("it is not a regular file; name another");
    if (seen.st_uid != ::geteuid()) return refuse(owner_words(seen.st_uid));
    if (seen.st_nlink > 1)
      return refuse(
          "the file has several names (hard links), and its locks would not hold between them; leave it only "
          "one");
    if (is_mount_point(fd))
      return refuse("the file alone is mounted here, without those beside it; mount its directory");
    if (seen.st_size == 0) DBLOCK_CHECK(check_empty());
    // SQLite would take a file of one byte for an empty one, and overwrite it.
    if (seen.st_size > 0 && seen.st_size < k_least_database)
      return refuse(
          "the file is not a dblock store, or it is damaged; it is left as it is. Move it away, or choose "
          "another "
          "place with --db sqlite:PATH");
    return check_file_system(fd);
  }

  // SQLite and dblock trust the content of these files. A file that is missing, or vanishes now, does no
  // harm: it is made anew.
  Result<void> check_files_beside() {
    for (const char* const suffix : {"-wal", "-shm", "-journal", "-seen", "-line"}) {
      struct stat seen {};
      if (::lstat((real_ + suffix).c_str(), &seen) != 0) continue;
      if (is_ours_alone(seen)) continue;
      return refuse(
          "the file " + escape_untrusted(real_ + suffix) +
          " beside it is not this user's alone (another owner, several names, or no regular file). If "
          "no job runs under its locks, remove the store and all files beside it");
    }
    return {};
  }

  [[nodiscard]] static bool is_mount_point(int fd) {
    struct statx seen {};
    return ::statx(fd, "", AT_EMPTY_PATH, 0, &seen) == 0 &&
           (seen.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
  }

  [[nodiscard]] static std::string owner_words(uid_t owner) {
    return "the file belongs to another user (uid " + std::to_string(owner) + ", this is uid " +
           std::to_string(::geteuid()) +
           "); an embedded store is for one user: run dblock as its owner, or choose another place with --db "
           "sqlite:PATH";
  }

  // Refuses an empty file with a log beside it: a store is empty only until its tables are made.
  Result<void> check_empty() {
    if (!exists(real_ + "-wal")) return {};
    struct stat seen {};  // look again: another process may have made the tables just now
    if (::stat(real_.c_str(), &seen) == 0 && seen.st_size > 0) return {};
    return refuse(
        "the file is empty although it has been in use: it was truncated, and who holds what is lost. If no "
        "job "
        "runs under its locks, remove it and its -wal and -shm files, and dblock makes a new one");
  }

  Result<void> check_file_system(int fd) {
    struct statfs system {};
    if (::fstatfs(fd, &system) != 0) return refuse(with_errno("cannot look at it", errno));
    const auto type = static_cast<unsigned long>(system.f_type) & 0xffffffffUL;
    if (std::ranges::find(k_network_file_systems, type) == k_network_file_systems.end()) return {};
    return refuse(
        "it lies on a network file system (or FUSE), and the embedded store guards one host only; choose a "
        "local disk, "
        "or a MariaDB for several hosts");
  }

  [[nodiscard]] static bool exists(const std::string& path) {
    struct stat seen {};
    return ::lstat(path.c_str(), &seen) == 0;
  }

  const std::string& path_;
  const bool makes_directory_;
  const std::string& home_advice_;
  const Attempt& attempt_;
  std::string real_;
};

}  // namespace

UniqueFd open_side_file(const std::string& path, WhenMissing when_missing) {
  const int make = when_missing == WhenMissing::make ? O_CREAT : 0;
  // O_NONBLOCK: a pipe in the file's place must not block dblock.
  UniqueFd file(::open(path.c_str(), O_RDWR | make | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  struct stat seen {};
  if (!file || ::fstat(file.get(), &seen) != 0 || !is_ours_alone(seen)) return {};
  if ((seen.st_mode & 07777U) != 0600U) ::fchmod(file.get(), 0600);
  return file;
}

Result<std::string> prepare_file(const SqliteSettings& settings, const Attempt& attempt) {
  return Preparation(settings, attempt).run();
}

Result<void> require_directory(const SqliteSettings& settings, const Attempt& attempt) {
  return Preparation(settings, attempt).require_directory();
}

}  // namespace dblock::store::sqlite
