#include "base/small_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>

#include "base/clock.hpp"
#include "base/unique_fd.hpp"

namespace dblock {
namespace {

using namespace std::chrono_literals;

// Ends the reading of a device or a log file named by mistake.
constexpr std::size_t k_most_bytes = 1U << 20U;
constexpr auto k_patience = 10s;

class Reading {
 public:
  Reading(const std::string& path, std::string_view what) : name_(std::string(what) + " " + path) {}

  Result<std::optional<SmallFile>> run(const std::string& path) {
    // O_NONBLOCK: a FIFO without a writer must not hang the program.
    file_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!file_ && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
    struct stat seen {};
    if (!file_ || ::fstat(file_.get(), &seen) != 0) return refuse(errno);
    SmallFile found{{}, seen.st_mode, seen.st_uid, seen.st_gid};
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

}  // namespace

bool others_may_write(const SmallFile& file) {
  if (!S_ISREG(file.mode)) return false;
  if ((file.mode & S_IWOTH) != 0) return true;
  if (::geteuid() != 0) return false;
  return file.owner != 0 || ((file.mode & S_IWGRP) != 0 && file.group != 0);
}

Result<std::optional<SmallFile>> read_small_file(const std::string& path, std::string_view what) {
  return Reading(path, what).run(path);
}

}  // namespace dblock
