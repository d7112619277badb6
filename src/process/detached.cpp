#include "process/detached.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "process/channel.hpp"
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
  DBLOCK_TRY(SocketPair pair, make_socket_pair(name));
  const pid_t pid = ::fork();
  if (pid < 0) return fail(Errc::internal, with_errno(std::string("cannot fork ") + name, errno));
  if (pid > 0) return std::move(pair.first);
  ::setsid();
  ::prctl(PR_SET_NAME, name);
  [[maybe_unused]] const int moved = ::chdir("/");
  reset_signals();
  static_cast<void>(pair.first.release());  // keep_only() closes it; its number may be another's by the end
  keep_only({kept, pair.second.get()});
  try {
    body(std::move(pair.second));
  } catch (...) {
    ::_exit(70);  // nobody is there to be told, and dblock's stack above is not ours
  }
  ::_exit(0);
}

}  // namespace dblock::process
