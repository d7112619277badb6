#include "campaign/witness.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace dblock::campaign {
namespace {

int open_file(const std::string& path, int more_flags) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | more_flags, 0644);
  if (fd < 0) throw std::runtime_error("cannot open " + path);
  return fd;
}

}  // namespace

// What is mapped is opened by itself: whoever reads the environment of a process that ends, in /proc, keeps
// its memory for a moment, and with that the file that is mapped there, and its lock.
LifeFile::LifeFile(const std::string& path, bool inherited)
    : fd_(open_file(path, inherited ? 0 : O_CLOEXEC)) {
  const int mapped = open_file(path, O_CLOEXEC);
  const bool has_room = ::ftruncate(mapped, sizeof(Nanos)) == 0;
  void* const memory = ::mmap(nullptr, sizeof(Nanos), PROT_READ | PROT_WRITE, MAP_SHARED, mapped, 0);
  ::close(mapped);
  if (!has_room || memory == MAP_FAILED) throw std::runtime_error("cannot map " + path);
  word_ = static_cast<Nanos*>(memory);
}

std::string LifeFile::path(const std::string& directory, int op) {
  return directory + "/life-" + std::to_string(op);
}

LifeFile LifeFile::for_job(const std::string& directory, int op) {
  return {path(directory, op), true};
}

LifeFile LifeFile::to_watch(const std::string& directory, int op) {
  return {path(directory, op), false};
}

LifeFile::LifeFile(LifeFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), word_(std::exchange(other.word_, nullptr)) {}

LifeFile::~LifeFile() {
  if (word_ != nullptr) ::munmap(word_, sizeof(Nanos));
  if (fd_ >= 0) ::close(fd_);
}

bool LifeFile::lock() {
  return ::flock(fd_, LOCK_EX | LOCK_NB) == 0;
}

void LifeFile::sign(Nanos at) const {
  std::atomic_ref<Nanos>(*word_).store(at);
}

Nanos LifeFile::last_sign() const {
  return std::atomic_ref<Nanos>(*word_).load();
}

bool lock_key(const std::string& directory, const std::string& key, const std::string& mode, int slot) {
  std::string path = directory + "/held-" + key;
  if (slot > 0) path += "." + std::to_string(slot);
  const int fd = open_file(path, 0);  // never closed: the kernel does it
  return ::flock(fd, (mode == "shared" ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0;
}

bool key_is_locked(const std::string& directory, const std::string& key) {
  struct stat file {};
  if (::stat((directory + "/held-" + key).c_str(), &file) != 0) return false;
  char name[64];
  std::snprintf(name, sizeof name, " %02x:%02x:%lu ", major(file.st_dev), minor(file.st_dev), file.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    if (line.find(" FLOCK ") != std::string::npos && line.find(name) != std::string::npos) return true;
  }
  return false;
}

std::string holder_name(int op) {
  return "op" + std::to_string(op);
}

int op_of(const std::string& owner) {
  return owner.starts_with("op") ? std::atoi(owner.c_str() + 2) : 0;
}

void write_fenced(const std::string& directory, const History& history, int op, const std::string& key,
                  long long token) {
  const int fd = open_file(directory + "/fence-" + key, O_CLOEXEC);
  struct flock whole {};
  whole.l_type = F_WRLCK;
  while (::fcntl(fd, F_OFD_SETLKW, &whole) != 0 && errno == EINTR) {
  }
  long long seen = 0;
  if (::pread(fd, &seen, sizeof seen, 0) < 0) throw std::runtime_error("cannot read the fenced store");
  const bool accepted = token >= seen;
  if (accepted && ::pwrite(fd, &token, sizeof token, 0) < 0)
    throw std::runtime_error("cannot write the fenced store");
  // Before the lock is given up: the store's answers are told in the order it gave them.
  history.add({.kind = "write",
               .t = now(),
               .op = op,
               .token = token,
               .seen = seen,
               .accepted = accepted,
               .key = key});
  ::close(fd);
}

}  // namespace dblock::campaign
