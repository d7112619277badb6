// Checks in a child process, for code that takes over signals, children or descriptors.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace dblock {

// What `body` returns in a child, as its exit code; -1 when a signal ends it.
inline int code_of_child(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// True when `check` returns true in a child.
inline bool in_child(const std::function<bool()>& check) {
  return code_of_child([&] { return check() ? 0 : 1; }) == 0;
}

}  // namespace dblock
