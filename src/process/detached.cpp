#include "process/detached.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "process/messages.hpp"
#include "process/signals.hpp"

namespace dblock::process {
namespace {

void reset_signals() {
  for (int s = 1; s < NSIG; ++s) ::signal(s, ends_wait(s) || s == SIGPIPE ? SIG_IGN : SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

std::unexpected<Error> cannot_fork(const Detached& spec, int err) {
  return fail(Errc::internal,
              with_errno(std::string("cannot fork ") + spec.name, err) + "; too many processes (ulimit -u)?");
}

}  // namespace

Result<UniqueFd> fork_detached(const Detached& spec, const std::function<void(UniqueFd)>& body) {
  DBLOCK_TRY(SocketPair pair, make_socket_pair(spec.name));
  // The process is to leave dblock's tree as an orphan, but a subreaper would adopt it. dblock may be a
  // subreaper already, since exec keeps that attribute.
  if (spec.outside_tree) ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  const pid_t pid = ::fork();
  if (pid < 0) return cannot_fork(spec, errno);
  if (pid > 0) {
    int status = 0;
    if (spec.outside_tree) ::waitpid(pid, &status, 0);
    if (status != 0) return cannot_fork(spec, WIFEXITED(status) ? WEXITSTATUS(status) : EAGAIN);
    return std::move(pair.first);
  }
  if (spec.outside_tree) {
    const pid_t second = ::fork();
    if (second != 0) ::_exit(second < 0 ? errno : 0);
  }
  ::setsid();
  ::prctl(PR_SET_NAME, spec.name);
  if (spec.at_root) {
    [[maybe_unused]] const int moved = ::chdir("/");
  }
  reset_signals();
  // keep_only() closes this descriptor. Its number may be reused afterwards, so no destructor may close it.
  static_cast<void>(pair.first.release());
  std::vector<int> kept = spec.kept;
  kept.push_back(pair.second.get());
  keep_only(std::move(kept));
  try {
    body(std::move(pair.second));
  } catch (...) {
    ::_exit(70);  // no one reads an error here, and the exception must not reach dblock's stack frames
  }
  ::_exit(0);
}

void keep_only(std::vector<int> kept) {
  std::erase_if(kept, [](int fd) { return fd < 0; });
  std::ranges::sort(kept);
  unsigned first = 0;
  for (const int fd : kept) {
    const auto last = static_cast<unsigned>(fd);
    if (last > first) ::close_range(first, last - 1, 0);
    first = last + 1;
  }
  ::close_range(first, ~0U, 0);
  const int null = ::open("/dev/null", O_RDWR);  // becomes 0, the lowest free descriptor
  while (null >= 0 && ::dup(null) >= 0 && ::fcntl(2, F_GETFD) < 0) {
  }
}

}  // namespace dblock::process
