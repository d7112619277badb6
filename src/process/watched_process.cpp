#include "process/watched_process.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "base/missing_call.hpp"

namespace dblock::process {
namespace {

// A system call, since glibc 2.36 declares pidfd_send_signal() without C linkage for C++; so also
// open_pidfd().
long pidfd_send_signal(int fd, int number) {
  return ::syscall(SYS_pidfd_send_signal, fd, number, nullptr, 0U);
}

std::unexpected<Error> refuse(pid_t pid, const std::string& why) {
  return fail(Errc::usage, "process " + std::to_string(pid) + " " + why);
}

}  // namespace

UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
}

Result<WatchedProcess> WatchedProcess::open(pid_t pid) {
  if (pid == ::getpid())
    return refuse(pid, "is dblock itself, which ends in a moment; give the script's own, $$");
  WatchedProcess process(pid, open_pidfd(pid));
  if (!process.fd_) {
    if (errno == ESRCH) return refuse(pid, "does not exist; give the pid of one that runs, such as $$");
    // `pid` is a thread's number: EINVAL, and ENOENT since Linux 6.9.
    if (errno == EINVAL || errno == ENOENT)
      return refuse(pid, "is a thread, not a process; give the pid of its process");
    return fail(Errc::internal,
                with_missing_call("cannot watch process " + std::to_string(pid), errno, k_pidfd_open));
  }
  if (process.ended()) return refuse(pid, "has ended; give the pid of one that runs, such as $$");
  if (pidfd_send_signal(process.fd(), 0) != 0) {
    if (errno == EPERM)
      return refuse(pid,
                    "is another user's, so it could not be told of a lost lease; run dblock as that user");
    return refuse(pid, "has ended; give the pid of one that runs, such as $$");
  }
  return process;
}

bool WatchedProcess::ended() const {
  pollfd p{fd_.get(), POLLIN, 0};
  return ::poll(&p, 1, 0) > 0;
}

void WatchedProcess::signal(int number) const noexcept {
  pidfd_send_signal(fd_.get(), number);
}

}  // namespace dblock::process
