#include "support/config.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <thread>

namespace dblock::test {

const std::string& dblock_binary() {
  // They let the same tests judge another build: one broken on purpose, or the one that users install.
  static const std::string path = [] {
    for (const char* const variable : {"DBLOCK_TEST_BINARY", "DBLOCK_TEST_SHIPPED"}) {
      if (const char* const other = std::getenv(variable)) return other;
    }
    return DBLOCK_TEST_BINARY;
  }();
  return path;
}

const std::string& job_binary() {
  static const std::string path = DBLOCK_TEST_JOB;
  return path;
}

const std::string& state_dir() {
  static const std::string path = [] {
    std::filesystem::create_directories(DBLOCK_TEST_STATE_DIR);
    return std::string(DBLOCK_TEST_STATE_DIR);
  }();
  return path;
}

const std::string& mariadbd_binary() {
  static const std::string path = DBLOCK_TEST_MARIADBD;
  return path;
}

const std::string& install_db_binary() {
  static const std::string path = DBLOCK_TEST_INSTALL_DB;
  return path;
}

const std::string& mysqld_binary() {
  static const char* const named = std::getenv("DBLOCK_TEST_MYSQLD");
  static const std::string path = named != nullptr ? named : "";
  return path;
}

bool mysql_run() {
  return !mysqld_binary().empty();
}

int slowness() {
  static const char* const told = std::getenv("DBLOCK_TEST_SLOWNESS");
  if (told != nullptr) return std::max(1, std::atoi(told));
  return std::string_view(DBLOCK_TEST_SANITIZE).empty() ? 1 : 3;
}

unsigned chosen_seed() {
  const char* const told = std::getenv("DBLOCK_TEST_SEED");
  return told != nullptr ? static_cast<unsigned>(std::strtoul(told, nullptr, 10)) : 1;
}

bool full_run() {
  const char* const told = std::getenv("DBLOCK_TEST_FULL");
  return told != nullptr && std::string_view(told) == "1";
}

long long realtime_micros() {
  using namespace std::chrono;
  return duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
}

long long boot_nanos() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

void pause_for(milliseconds time) {
  std::this_thread::sleep_for(time);
}

TempDir::TempDir(const std::string& parent) : path_(parent + "/dblock-test-XXXXXX") {
  if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make a directory in " + parent);
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

// Without streams: /proc is read many thousand times.
std::string read_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  std::string text;
  char part[4096];
  ssize_t got = 0;
  while ((got = ::read(fd, part, sizeof part)) > 0 || (got < 0 && errno == EINTR)) {
    if (got > 0) text.append(part, static_cast<std::size_t>(got));
  }
  ::close(fd);
  return text;
}

void write_file(const std::string& path, const std::string& text, unsigned mode) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (fd < 0) throw std::runtime_error("cannot write " + path);
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::fchmod(fd, mode);
  ::close(fd);
  if (!written) throw std::runtime_error("cannot write " + path);
}

}  // namespace dblock::test
