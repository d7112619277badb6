#include "process/detached.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "process/descriptors.hpp"
#include "process/signals.hpp"

namespace dblock::process {
namespace {

void reset_signals() {
  for (int s = 1; s < NSIG; ++s) ::signal(s, ends_wait(s) || s == SIGPIPE ? SIG_IGN : SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace

Result<UniqueFd> fork_detached(const char* name, int kept, const std::function<void(UniqueFd)>& body) {
  std::array<int, 2> fds{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()) != 0)
    return fail(Errc::internal, with_errno(std::string("cannot make a socket pair for ") + name, errno));
  UniqueFd ours(fds[0]);
  UniqueFd theirs(fds[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return fail(Errc::internal, with_errno(std::string("cannot fork ") + name, errno));
  if (pid > 0) return ours;
  ::setsid();
  ::prctl(PR_SET_NAME, name);
  [[maybe_unused]] const int moved = ::chdir("/");
  reset_signals();
  static_cast<void>(ours.release());  // keep_only() closes it; its number may be another's by the end
  keep_only({kept, theirs.get()});
  try {
    body(std::move(theirs));
  } catch (...) {
    ::_exit(70);  // nobody is there to be told, and dblock's stack above is not ours
  }
  ::_exit(0);
}

}  // namespace dblock::process
