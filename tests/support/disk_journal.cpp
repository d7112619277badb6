// Preloaded: writes down each change to a file below a folder, of all processes in one order.
//
// DBLOCK_TEST_DISK=FOLDER: the folder, by its real path. DBLOCK_TEST_DISK_JOURNAL=FILE: the journal.
// DBLOCK_TEST_BOOT_ID=FILE: what the kernel's boot id is read from, as after a start of the machine.
//
// A change and its record are made under one lock, so no change of another process comes between them.
// Nothing is kept from call to call: the program may fork, close all descriptors, or use threads as it likes.
// What a program changes by a shared memory map is not seen; test::Disk::differs_from() tells.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "support/disk_journal.hpp"

namespace {

using dblock::test::DiskChange;
using dblock::test::DiskRecord;

const char* told(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

int raw_open(int directory, const char* path, int flags, mode_t mode = 0) {
  return static_cast<int>(::syscall(SYS_openat, directory, path, flags, mode));
}

std::string path_of(int fd) {
  std::array<char, PATH_MAX> text{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const auto size = ::readlink(link.c_str(), text.data(), text.size());
  return {text.data(), size < 0 ? 0 : static_cast<std::size_t>(size)};
}

// The path below the folder: "." for the folder itself, "" for what lies elsewhere.
std::string below(const std::string& path) {
  const std::string folder = told("DBLOCK_TEST_DISK");
  if (folder.empty() || !path.starts_with(folder)) return "";
  if (path.size() == folder.size()) return ".";
  return path[folder.size()] == '/' ? path.substr(folder.size() + 1) : "";
}

// … of a name that may not be there yet.
std::string below(int directory, const char* path) {
  const int saved = errno;
  const std::string text = path;
  const auto slash = text.rfind('/');
  const std::string parent = slash == text.npos ? "." : text.substr(0, slash + 1);
  const int fd = raw_open(directory, parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  std::string found;
  if (fd >= 0) {
    found = below(path_of(fd) + "/" + text.substr(slash == text.npos ? 0 : slash + 1));
    ::syscall(SYS_close, fd);
  }
  errno = saved;
  return found;
}

std::string watched(int fd) {
  const int saved = errno;
  std::string path = below(path_of(fd));
  errno = saved;
  return path;
}

std::uint64_t inode_of(int fd) {
  struct stat seen {};
  ::fstat(fd, &seen);
  return seen.st_ino;
}
std::uint64_t inode_of(int directory, const char* path) {
  struct stat seen {};
  return ::fstatat(directory, path, &seen, AT_SYMLINK_NOFOLLOW) == 0 ? seen.st_ino : 0;
}

// Holds the lock. Records nothing unless it is told to, and leaves errno as the change has left it.
class Journal {
 public:
  Journal() : fd_(raw_open(AT_FDCWD, told("DBLOCK_TEST_DISK_JOURNAL"), O_WRONLY | O_APPEND | O_CLOEXEC)) {
    while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~Journal() { ::syscall(SYS_close, fd_); }
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  void note(DiskChange change, const std::string& path, std::uint64_t inode, std::uint64_t at = 0,
            std::string_view more = {}) {
    const int saved = errno;
    DiskRecord record{change, static_cast<std::uint32_t>(path.size()), inode, at, more.size()};
    const std::array<iovec, 3> parts{iovec{&record, sizeof record},
                                     iovec{const_cast<char*>(path.data()), path.size()},
                                     iovec{const_cast<char*>(more.data()), more.size()}};
    const auto whole = static_cast<ssize_t>(sizeof record + path.size() + more.size());
    if (::syscall(SYS_writev, fd_, parts.data(), parts.size()) != whole) {
      std::fputs("disk_journal: cannot write the journal\n", stderr);
      std::abort();
    }
    errno = saved;
  }

 private:
  int fd_;
};

// A write by `call`, which returns how much was written. It ends at the descriptor's place if `at` is
// negative.
template <typename Call>
ssize_t write_by(int fd, const iovec* parts, int count, off64_t at, Call call) {
  const std::string path = watched(fd);
  if (path.empty()) return call();
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  Journal journal;
  const ssize_t done = call();
  if (done <= 0) return done;
  const off64_t begun = at >= 0 ? at : ::lseek64(fd, 0, SEEK_CUR) - done;
  journal.note(DiskChange::written, path, inode_of(fd), static_cast<std::uint64_t>(begun),
               std::string_view(bytes).substr(0, static_cast<std::size_t>(done)));
  if ((::fcntl(fd, F_GETFL) & O_DSYNC) != 0) journal.note(DiskChange::synced, path, inode_of(fd));
  return done;
}

int sync_by(long number, int fd) {
  const std::string path = watched(fd);
  if (path.empty()) return static_cast<int>(::syscall(number, fd));
  Journal journal;
  const auto result = static_cast<int>(::syscall(number, fd));
  if (result == 0) journal.note(DiskChange::synced, path, inode_of(fd));
  return result;
}

// `call` may change the size.
template <typename Call>
int resize_by(int fd, Call call) {
  const std::string path = watched(fd);
  if (path.empty()) return call();
  Journal journal;
  struct stat before {
  }, after{};
  ::fstat(fd, &before);
  const int result = call();
  ::fstat(fd, &after);
  if (after.st_size != before.st_size)
    journal.note(DiskChange::resized, path, after.st_ino, static_cast<std::uint64_t>(after.st_size));
  return result;
}

// `call` may make what the path names, and returns a negative number when it has failed.
template <typename Call>
int make_by(int directory, const char* name, DiskChange change, Call call) {
  const std::string path = below(directory, name);
  if (path.empty()) return call();
  Journal journal;
  struct stat before {};
  const bool was_there = ::fstatat(directory, name, &before, 0) == 0;
  const int result = call();
  if (result < 0) return result;
  const int saved = errno;
  if (!was_there) journal.note(change, path, inode_of(directory, name));
  struct stat after {};
  if (was_there && ::fstatat(directory, name, &after, 0) == 0 && after.st_size < before.st_size)
    journal.note(DiskChange::resized, path, after.st_ino, static_cast<std::uint64_t>(after.st_size));
  errno = saved;
  return result;
}

int open_by(int directory, const char* path, int flags, mode_t mode) {
  const char* const boot = told("DBLOCK_TEST_BOOT_ID");
  if (*boot != '\0' && std::string_view(path) == "/proc/sys/kernel/random/boot_id") path = boot;
  const auto call = [&] { return raw_open(directory, path, flags, mode); };
  if ((flags & (O_CREAT | O_TRUNC)) == 0) return call();
  return make_by(directory, path, DiskChange::made_file, call);
}

mode_t mode_in(int flags, va_list& more) {
  return (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
}

int rename_by(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) {
  const auto call = [&] {
    return static_cast<int>(::syscall(SYS_renameat2, from_directory, from, to_directory, to, flags));
  };
  const std::string before = below(from_directory, from);
  const std::string after = below(to_directory, to);
  if (before.empty() && after.empty()) return call();
  Journal journal;
  const auto inode = inode_of(from_directory, from);
  const int result = call();
  if (result == 0) journal.note(DiskChange::renamed, before, inode, 0, after);
  return result;
}

int link_by(int from_directory, const char* from, int to_directory, const char* to, int flags) {
  const std::string path = below(to_directory, to);
  const auto call = [&] {
    return static_cast<int>(::syscall(SYS_linkat, from_directory, from, to_directory, to, flags));
  };
  if (path.empty()) return call();
  Journal journal;
  const int result = call();
  if (result == 0) journal.note(DiskChange::named, path, inode_of(to_directory, to));
  return result;
}

int remove_by(int directory, const char* name, int flags) {
  const auto call = [&] { return static_cast<int>(::syscall(SYS_unlinkat, directory, name, flags)); };
  const std::string path = below(directory, name);
  if (path.empty()) return call();
  Journal journal;
  const int result = call();
  if (result == 0) journal.note(DiskChange::removed, path, 0);
  return result;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_in(flags, more);
  va_end(more);
  return open_by(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_in(flags, more);
  va_end(more);
  return open_by(AT_FDCWD, path, flags, mode);
}
int openat(int directory, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_in(flags, more);
  va_end(more);
  return open_by(directory, path, flags, mode);
}
int openat64(int directory, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_in(flags, more);
  va_end(more);
  return open_by(directory, path, flags, mode);
}
int creat(const char* path, mode_t mode) {
  return open_by(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
int creat64(const char* path, mode_t mode) {
  return creat(path, mode);
}
int mknod(const char* path, mode_t mode, dev_t device) noexcept {
  return make_by(AT_FDCWD, path, DiskChange::made_file,
                 [&] { return static_cast<int>(::syscall(SYS_mknodat, AT_FDCWD, path, mode, device)); });
}
int mkdirat(int directory, const char* path, mode_t mode) noexcept {
  return make_by(directory, path, DiskChange::made_directory,
                 [&] { return static_cast<int>(::syscall(SYS_mkdirat, directory, path, mode)); });
}
int mkdir(const char* path, mode_t mode) noexcept {
  return mkdirat(AT_FDCWD, path, mode);
}

ssize_t write(int fd, const void* bytes, size_t size) {
  const iovec part{const_cast<void*>(bytes), size};
  return write_by(fd, &part, 1, -1, [&] { return ::syscall(SYS_write, fd, bytes, size); });
}
ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t at) {
  const iovec part{const_cast<void*>(bytes), size};
  return write_by(fd, &part, 1, at, [&] { return ::syscall(SYS_pwrite64, fd, bytes, size, at); });
}
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t at) {
  return pwrite64(fd, bytes, size, at);
}
ssize_t writev(int fd, const iovec* parts, int count) {
  return write_by(fd, parts, count, -1, [&] { return ::syscall(SYS_writev, fd, parts, count); });
}
ssize_t pwritev64(int fd, const iovec* parts, int count, off64_t at) {
  return write_by(fd, parts, count, at, [&] { return ::syscall(SYS_pwritev, fd, parts, count, at, 0); });
}
ssize_t pwritev(int fd, const iovec* parts, int count, off_t at) {
  return pwritev64(fd, parts, count, at);
}

int fsync(int fd) {
  return sync_by(SYS_fsync, fd);
}
int fdatasync(int fd) {
  return sync_by(SYS_fdatasync, fd);
}

int ftruncate64(int fd, off64_t size) noexcept {
  return resize_by(fd, [&] { return static_cast<int>(::syscall(SYS_ftruncate, fd, size)); });
}
int ftruncate(int fd, off_t size) noexcept {
  return ftruncate64(fd, size);
}
int fallocate64(int fd, int mode, off64_t at, off64_t size) {
  return resize_by(fd, [&] { return static_cast<int>(::syscall(SYS_fallocate, fd, mode, at, size)); });
}
int fallocate(int fd, int mode, off_t at, off_t size) {
  return fallocate64(fd, mode, at, size);
}
int posix_fallocate64(int fd, off64_t at, off64_t size) {
  const int saved = errno;
  const int result = fallocate64(fd, 0, at, size) == 0 ? 0 : errno;
  errno = saved;
  return result;
}
int posix_fallocate(int fd, off_t at, off_t size) {
  return posix_fallocate64(fd, at, size);
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to,
              unsigned flags) noexcept {
  return rename_by(from_directory, from, to_directory, to, flags);
}
int renameat(int from_directory, const char* from, int to_directory, const char* to) noexcept {
  return rename_by(from_directory, from, to_directory, to, 0);
}
int rename(const char* from, const char* to) noexcept {
  return rename_by(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int linkat(int from_directory, const char* from, int to_directory, const char* to, int flags) noexcept {
  return link_by(from_directory, from, to_directory, to, flags);
}
int link(const char* from, const char* to) noexcept {
  return link_by(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int unlinkat(int directory, const char* path, int flags) noexcept {
  return remove_by(directory, path, flags);
}
int unlink(const char* path) noexcept {
  return remove_by(AT_FDCWD, path, 0);
}
int rmdir(const char* path) noexcept {
  return remove_by(AT_FDCWD, path, AT_REMOVEDIR);
}
int remove(const char* path) noexcept {
  const int result = remove_by(AT_FDCWD, path, 0);
  return result != 0 && errno == EISDIR ? remove_by(AT_FDCWD, path, AT_REMOVEDIR) : result;
}

// With _FORTIFY_SOURCE.
int __open_2(const char* path, int flags) {
  return open_by(AT_FDCWD, path, flags, 0);
}
int __open64_2(const char* path, int flags) {
  return open_by(AT_FDCWD, path, flags, 0);
}
int __openat_2(int directory, const char* path, int flags) {
  return open_by(directory, path, flags, 0);
}
int __openat64_2(int directory, const char* path, int flags) {
  return open_by(directory, path, flags, 0);
}

}  // extern "C"
