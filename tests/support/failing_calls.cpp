// Preloaded into dblock: the system refuses what the environment names.
//
// DBLOCK_TEST_FAIL=CALL:ERRNO makes each call of this function fail with this number: of mmap() the calls for
// shared pages, of prctl() those that make a subreaper, of syscall() (as "pidfd_open") that one; of
// pthread_create() all.
// DBLOCK_TEST_FAIL=CALL:ERRNO:PART: only calls with this part in their path or in the name of their process.
// FAKE_FS_TYPE=NUMBER: every file lies on the kind of file system with this number (linux/magic.h).
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "support/preloaded.hpp"

namespace {

using dblock::test::real;

std::string_view next_word(std::string_view& rest) {
  const auto word = rest.substr(0, rest.find(':'));
  rest.remove_prefix(word.size() == rest.size() ? word.size() : word.size() + 1);
  return word;
}

// True, with errno set, where this call is to fail.
bool fails(std::string_view call, std::string_view path = "") {
  const char* const told = std::getenv("DBLOCK_TEST_FAIL");
  std::string_view rest = told == nullptr ? "" : told;
  if (next_word(rest) != call) return false;
  const int number = std::atoi(rest.data());
  next_word(rest);
  std::array<char, 16> process{};
  real<int(int, ...)>("prctl")(PR_GET_NAME, process.data());
  if (path.find(rest) == path.npos && std::string_view(process.data()).find(rest) == path.npos) return false;
  errno = number;
  return true;
}

template <typename Function, typename Where>
int asked_for_system(const char* name, Where where, struct statfs* info) {
  if (fails(name)) return -1;
  const int result = real<Function>(name)(where, info);
  const char* const type = std::getenv("FAKE_FS_TYPE");
  if (result == 0 && type != nullptr) info->f_type = std::strtol(type, nullptr, 0);
  return result;
}

}  // namespace

extern "C" {

int fstatfs(int fd, struct statfs* info) noexcept {
  return asked_for_system<int(int, struct statfs*)>("fstatfs", fd, info);
}

int statfs(const char* path, struct statfs* info) noexcept {
  return asked_for_system<int(const char*, struct statfs*)>("statfs", path, info);
}

int stat(const char* path, struct stat* info) noexcept {
  return fails("stat", path) ? -1 : real<int(const char*, struct stat*)>("stat")(path, info);
}

int fstat(int fd, struct stat* info) noexcept {
  return fails("fstat") ? -1 : real<int(int, struct stat*)>("fstat")(fd, info);
}

char* realpath(const char* path, char* resolved) noexcept {
  return fails("realpath", path) ? nullptr : real<char*(const char*, char*)>("realpath")(path, resolved);
}

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = va_arg(more, mode_t);
  va_end(more);
  return fails("open", path) ? -1 : real<int(const char*, int, mode_t)>("open")(path, flags, mode);
}

ssize_t pread64(int fd, void* buffer, size_t size, off64_t at) {
  return fails("pread") ? -1 : real<ssize_t(int, void*, size_t, off64_t)>("pread64")(fd, buffer, size, at);
}

void* mmap64(void* at, size_t size, int protection, int flags, int fd, off64_t offset) noexcept {
  if ((flags & MAP_SHARED) != 0 && fails("mmap")) return MAP_FAILED;
  return real<void*(void*, size_t, int, int, int, off64_t)>("mmap64")(at, size, protection, flags, fd,
                                                                      offset);
}

void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  return mmap64(at, size, protection, flags, fd, offset);
}

ssize_t getrandom(void* buffer, size_t size, unsigned flags) {
  return fails("getrandom") ? -1 : real<ssize_t(void*, size_t, unsigned)>("getrandom")(buffer, size, flags);
}

int signalfd(int fd, const sigset_t* mask, int flags) noexcept {
  return fails("signalfd") ? -1 : real<int(int, const sigset_t*, int)>("signalfd")(fd, mask, flags);
}

int poll(pollfd* entries, nfds_t count, int limit) {
  return fails("poll") ? -1 : real<int(pollfd*, nfds_t, int)>("poll")(entries, count, limit);
}

// PART "terminal": writes to one.
ssize_t write(int fd, const void* bytes, size_t size) {
  if (fails("write", ::isatty(fd) != 0 ? "terminal" : "")) return -1;
  return real<ssize_t(int, const void*, size_t)>("write")(fd, bytes, size);
}

pid_t fork() noexcept {
  return fails("fork") ? -1 : real<pid_t()>("fork")();
}

int prctl(int option, ...) noexcept {
  std::array<unsigned long, 4> values{};
  va_list more;
  va_start(more, option);
  for (auto& value : values) value = va_arg(more, unsigned long);
  va_end(more);
  if (option == PR_SET_CHILD_SUBREAPER && values[0] != 0 && fails("prctl")) return -1;
  return real<int(int, ...)>("prctl")(option, values[0], values[1], values[2], values[3]);
}

long syscall(long number, ...) noexcept {
  va_list more;
  va_start(more, number);
  const auto values = dblock::test::words_of(more);
  va_end(more);
  if (number == SYS_pidfd_open && fails("pidfd_open")) return -1;
  return real<long(long, ...)>("syscall")(number, values[0], values[1], values[2], values[3], values[4],
                                          values[5]);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) noexcept {
  if (fails("pthread_create")) return errno;
  return real<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create")(
      thread, attributes, run, argument);
}

char* dlerror() noexcept {
  return fails("dlerror") ? nullptr : real<char*()>("dlerror")();
}

// With _FORTIFY_SOURCE.
int __poll_chk(pollfd* entries, nfds_t count, int limit, size_t) {
  return poll(entries, count, limit);
}
char* __realpath_chk(const char* path, char* resolved, size_t) noexcept {
  return realpath(path, resolved);
}

}  // extern "C"
