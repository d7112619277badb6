// A process that dblock did not start, held by a pidfd: the kernel may give its pid to another process later,
// but the descriptor always means this one.
#pragma once

#include <sys/types.h>

#include "base/error.hpp"
#include "base/unique_fd.hpp"

namespace dblock::process {

// A pidfd of process `pid`; empty, with errno set, on failure.
[[nodiscard]] UniqueFd open_pidfd(pid_t pid);

class WatchedProcess {
 public:
  // Errc::usage when `pid` has ended, is no process, is this process, or is one that we may not signal.
  [[nodiscard]] static Result<WatchedProcess> open(pid_t pid);

  [[nodiscard]] bool ended() const;
  void signal(int number) const noexcept;  // no effect once the process has ended

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }  // readable once the process has ended

 private:
  WatchedProcess(pid_t pid, UniqueFd fd) : pid_(pid), fd_(std::move(fd)) {}

  pid_t pid_;
  UniqueFd fd_;
};

}  // namespace dblock::process
