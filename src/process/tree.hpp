// The descendants of this process: finding them, signalling them, waiting for them.
//
// This process is a child subreaper (prctl(2)): a descendant that loses its parent becomes its child. So no
// descendant is left exactly when waitpid(2) says ECHILD, and only that counts as "dead". The processes to
// signal come from the kernel's lists of children (proc(5), /proc/PID/task/TID/children): the cost of reading
// these grows with the tree, not with the host. A list that is read while processes come and go may miss one;
// so the code that kills looks again until none is left.
//
// Not thread-safe: only for the process's first thread, which forks and does all waiting for children.
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
using OnCollected = std::function<void(pid_t pid, int wait_status)>;

class Tree {
 public:
  // Makes this process the subreaper of its descendants and opens its list of children. Errc::config where
  // the descendants cannot be known: /proc is missing, hidden, or another PID namespace's.
  [[nodiscard]] static Result<Tree> open();

  // Spares the present children, for example those of a shell that has become this program by exec: they and
  // their descendants are not to be stopped. This holds while such a child lives: its orphans become children
  // of this process, and nothing tells them from the job's.
  void spare_children() { spared_ = children(); }

  // Waits for every child that has ended, without blocking. True when no child is left at all (ECHILD).
  bool collect_ended(const OnCollected& on_collected);

  // The descriptor that must stay open while this object is used.
  [[nodiscard]] int fd() const { return children_.get(); }

  // All descendants, except spared children and their descendants. Includes processes that have ended and are
  // not waited for yet.
  [[nodiscard]] std::vector<ProcessInfo> descendants() const;

  // Sends signal `number` to `process`, unless another process has got its pid in the meantime.
  static void signal(const ProcessInfo& process, int number);

  // Sends SIGKILL to all descendants and waits for them, again and again, until none is left (true) or five
  // seconds have passed (false: another user's process, or one in uninterruptible sleep).
  [[nodiscard]] bool kill_all(const OnCollected& on_collected);

  // Sends SIGKILL to all descendants except the child `exempt`, for five seconds at most, but waits for none:
  // the descendants that `exempt` has to wait for stay zombies.
  void kill_all_except(pid_t exempt) const;

 private:
  explicit Tree(UniqueFd children) : children_(std::move(children)) {}
  [[nodiscard]] std::vector<pid_t> children() const;
  [[nodiscard]] bool is_spared(pid_t pid) const;
  [[nodiscard]] bool only_spared_left() const;
  bool kill_living(pid_t exempt = 0) const;

  UniqueFd children_;          // this process's list, opened early: later no descriptor may be left
  std::vector<pid_t> spared_;  // each until it was waited for: its pid may be reused afterwards
};

}  // namespace dblock::process
