#include "process/tree.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <string_view>
#include <utility>

namespace dblock::process {
namespace {

// A process that survives SIGKILL this long is another user's, or stuck in the kernel.
constexpr Nanos k_kill_patience = std::chrono::seconds(5);

// Facts about `pid` from /proc, or, where /proc hides the process, those that other system calls tell.
ProcessInfo known_of(pid_t pid, pid_t parent) {
  if (auto info = process_info(pid)) return *info;
  ProcessInfo info;
  info.pid = pid;
  info.parent = parent;
  info.group = ::getpgid(pid);
  info.session = ::getsid(pid);
  return info;
}

void pause_briefly() {
  const timespec millisecond{0, 1'000'000};
  ::nanosleep(&millisecond, nullptr);
}

std::unexpected<Error> unknowable(const std::string& why) {
  return fail(Errc::config, "cannot know which processes the job starts: " + why +
                                "; without that the job could outlive its lock");
}

}  // namespace

Result<Tree> Tree::open() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
    return unknowable(
        with_errno("the system does not let dblock wait for them (PR_SET_CHILD_SUBREAPER)", errno));
  const std::string self = std::to_string(::getpid());
  std::array<char, 32> link{};
  const ssize_t length = ::readlink("/proc/self", link.data(), link.size());
  if (length <= 0) return unknowable("/proc is not there; mount it (mount -t proc proc /proc)");
  if (std::string_view(link.data(), static_cast<std::size_t>(length)) != self)
    return unknowable("/proc shows another PID namespace; mount its own (mount -t proc proc /proc)");
  UniqueFd children = open_proc(self + "/task/" + self + "/children");
  if (!children) return unknowable(with_errno("cannot open /proc/self/task/" + self + "/children", errno));
  return Tree(std::move(children));
}

bool Tree::collect_ended(const OnCollected& on_collected) {
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid > 0) {
      std::erase(spared_, pid);
      on_collected(pid, status);
    } else if (pid == 0) {
      return false;
    } else if (errno != EINTR) {
      return errno == ECHILD;
    }
  }
}

std::vector<pid_t> Tree::children() const {
  return numbers_in(children_);
}

std::vector<ProcessInfo> Tree::descendants() const {
  std::vector<ProcessInfo> found;
  // A process that has lost its parent meanwhile is a child of this process by now. A pid with any other
  // parent has been reused.
  const auto add = [&](const std::vector<pid_t>& pids, pid_t parent) {
    for (const pid_t pid : pids) {
      auto process = known_of(pid, parent);
      if (process.parent == parent || process.parent == ::getpid()) found.push_back(std::move(process));
    }
  };
  std::vector<pid_t> ours = children();
  std::erase_if(ours, [this](pid_t pid) { return is_spared(pid); });
  add(ours, ::getpid());
  for (std::size_t next = 0; next < found.size();) {  // add() makes `found` grow
    const pid_t parent = found[next++].pid;
    add(children_of(parent), parent);
  }
  return found;
}

// A child's pid cannot be reused before this process has waited for it, so kill(2) is safe for a child.
void Tree::signal(const ProcessInfo& process, int number) {
  if (process.parent == ::getpid()) {
    ::kill(process.pid, number);
    return;
  }
  const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!handle) return;
  const auto now = process_info(process.pid);
  if (now && process.start_ticks != 0 && now->start_ticks != process.start_ticks) return;
  ::syscall(SYS_pidfd_send_signal, handle.get(), number, nullptr, 0);
}

bool Tree::kill_living(pid_t exempt) const {
  bool some_alive = false;
  for (const ProcessInfo& process : descendants()) {
    if (process.pid == exempt || process.ended()) continue;
    some_alive = true;
    signal(process, SIGKILL);
  }
  return some_alive;
}

bool Tree::is_spared(pid_t pid) const {
  return std::ranges::find(spared_, pid) != spared_.end();
}

// True when spared children are left and no others. waitpid(2) does not say ECHILD while these live, so the
// list of children must tell. It is read twice, since it may miss a child while others come and go.
bool Tree::only_spared_left() const {
  const auto all_spared = [this] {
    return std::ranges::all_of(children(), [this](pid_t pid) { return is_spared(pid); });
  };
  return !spared_.empty() && all_spared() && all_spared();
}

bool Tree::kill_all(const OnCollected& on_collected) {
  const BootTime give_up = BootClock::now() + k_kill_patience;
  for (;;) {
    kill_living();
    // A killed process takes a moment to die; look again only after that moment.
    for (int i = 0; i < 5; ++i) {
      if (collect_ended(on_collected) || only_spared_left()) return true;
      if (BootClock::now() >= give_up) return false;
      pause_briefly();
    }
  }
}

void Tree::kill_all_except(pid_t exempt) const {
  const BootTime give_up = BootClock::now() + k_kill_patience;
  while (kill_living(exempt) && BootClock::now() < give_up) pause_briefly();
}

}  // namespace dblock::process
