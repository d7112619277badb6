// Somebody else's process, held by a pidfd: its number may be given to another, the descriptor means this one
// for ever.
#pragma once

#include <sys/types.h>

#include "base/error.hpp"
#include "base/unique_fd.hpp"

namespace dblock::process {

// Empty, with errno set, when it fails.
[[nodiscard]] UniqueFd open_pidfd(pid_t pid);

class WatchedProcess {
 public:
  // Errc::usage when `pid` has ended, is no process, is this one, or is one that we may not signal.
  [[nodiscard]] static Result<WatchedProcess> open(pid_t pid);

  [[nodiscard]] bool ended() const;
  void signal(int number) const noexcept;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }  // readable once it has ended

 private:
  WatchedProcess(pid_t pid, UniqueFd fd) : pid_(pid), fd_(std::move(fd)) {}

  pid_t pid_;
  UniqueFd fd_;
};

}  // namespace dblock::process
