// The descendants of this process: finding them, signalling them, waiting for them.
//
// The caller is a child subreaper (prctl(2)): whoever loses its parent becomes our child. So nobody is left
// exactly when waitpid(2) says ECHILD, and only that counts as "dead". Who is to be signalled comes from the
// kernel's lists of children (proc(5), /proc/PID/task/TID/children), which cost what the tree is large and
// not what the host is. A list that is read while processes come and go may miss one; so whoever kills looks
// again until nobody is left.
//
// Not thread-safe; for the thread that forks and does all waiting, which is the process's first.
#pragma once

#include <sys/types.h>

#include <functional>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "process/process_info.hpp"

namespace dblock::process {

// Called for every child that was waited for.
using OnReaped = std::function<void(pid_t pid, int wait_status)>;

class Tree {
 public:
  // Makes this process the subreaper of its descendants and opens its list of children. Errc::config where
  // they could not be known: /proc is missing, hidden, or another PID namespace's.
  [[nodiscard]] static Result<Tree> open();

  // Those that we have by now, for example of a shell that has become this program, are not ours to stop, and
  // neither is what they start, while they live: an orphan of theirs becomes our child as the job's do, and
  // nothing tells it from those.
  void spare_children() { spared_ = children(); }

  // Waits for every child that has ended, without blocking. True when no child is left at all (ECHILD).
  bool reap_ended(const OnReaped& on_reaped);

  // The descriptor that must stay open.
  [[nodiscard]] int fd() const { return children_.get(); }

  // All descendants but those who are spared, ended ones that are still to be waited for included.
  [[nodiscard]] std::vector<ProcessInfo> descendants() const;

  // Sends it to that descendant, unless another process has got its number in the meantime.
  static void signal(const ProcessInfo& process, int number);

  // Sends SIGKILL to all descendants and waits for them, again and again, until none is left (true) or five
  // seconds have passed (false: not ours to kill, or in uninterruptible sleep).
  [[nodiscard]] bool kill_all(const OnReaped& on_reaped);

  // The same for all but one child and those whom it has still to wait for, which stay zombies; waits for
  // nobody itself.
  void kill_all_but(pid_t spared) const;

 private:
  explicit Tree(UniqueFd children) : children_(std::move(children)) {}
  [[nodiscard]] std::vector<pid_t> children() const;
  [[nodiscard]] bool is_spared(pid_t pid) const;
  [[nodiscard]] bool only_spared_left() const;
  bool kill_living(pid_t but = 0) const;

  UniqueFd children_;          // our list, open while descriptors can be had
  std::vector<pid_t> spared_;  // each until it was waited for: its number may be another's then
};

}  // namespace dblock::process
