#include "process/hooks.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/duration.hpp"
#include "base/log.hpp"
#include "process/command.hpp"
#include "process/detached.hpp"
#include "process/job.hpp"
#include "process/messages.hpp"
#include "process/tree.hpp"

namespace dblock::process {
namespace {

void warn(const Hook& hook, const std::string& what) {
  log::warning("the " + hook.option + " command " + what);
}

void warn_not_started(const Hook& hook, const std::string& why) {
  warn(hook, "could not be started: " + why + "; the run does without it");
}

// The process that watches one command: waits for the command and all its descendants, and kills those that
// are left at the time limit.
class HookWatcher {
 public:
  HookWatcher(const Hook& hook, std::string environment, Nanos limit)
      : hook_(hook), environment_(std::move(environment)), ends_(BootClock::now() + limit), limit_(limit) {}

  [[noreturn]] void run();

 private:
  [[noreturn]] void become_command(pid_t watcher);
  void reaped(pid_t pid, int wait_status);
  void end_all(Tree& tree);

  const Hook& hook_;
  std::string environment_;
  BootTime ends_;
  Nanos limit_;
  pid_t command_ = -1;
  bool warned_ = false;
};

void HookWatcher::run() {
  auto tree = Tree::open();
  if (!tree) {
    warn_not_started(hook_, tree.error().message);
    ::_exit(0);
  }
  ::signal(SIGCHLD, SIG_DFL);
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &child, nullptr);
  const UniqueFd child_events(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  DeadlineTimer timer;
  timer.arm(ends_);
  const pid_t self = ::getpid();
  command_ = ::fork();
  if (command_ == 0) become_command(self);
  if (command_ < 0) {
    warn_not_started(hook_, strerrordesc_np(errno));
    ::_exit(0);
  }
  const auto on_collected = [this](pid_t pid, int status) { reaped(pid, status); };
  while (!tree->collect_ended(on_collected)) {
    if (BootClock::now() >= ends_) {
      end_all(*tree);
      break;
    }
    std::array<pollfd, 2> fds{pollfd{child_events.get(), POLLIN, 0}, pollfd{timer.fd(), POLLIN, 0}};
    ::poll(fds.data(), fds.size(), -1);
    signalfd_siginfo ignored{};
    while (::read(child_events.get(), &ignored, sizeof ignored) > 0) {
    }
  }
  ::_exit(0);
}

void HookWatcher::become_command(pid_t watcher) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // without its watcher no process would enforce the time limit
  if (::getppid() != watcher) ::_exit(125);
  ::setsid();
  // Close-on-exec: stderr is main.cpp's stand-in for a missing one. The command gets /dev/null instead.
  if ((::fcntl(STDERR_FILENO, F_GETFD) & FD_CLOEXEC) != 0) ::dup2(STDIN_FILENO, STDERR_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);  // dblock's stdout is for the job's results
  for (int s = 1; s < NSIG; ++s) ::signal(s, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const std::vector<char*> environment = changed_environment(environment_);
  std::string shell = "sh";
  std::string flag = "-c";
  std::string command = hook_.command;
  const std::array<char*, 4> argv{shell.data(), flag.data(), command.data(), nullptr};
  ::execve("/bin/sh", argv.data(), environment.data());
  ::_exit(127);
}

void HookWatcher::reaped(pid_t pid, int wait_status) {
  if (pid != command_) return;
  const ExitStatus status = ExitStatus::from_wait(wait_status);
  if (status.success()) return;
  warned_ = true;
  const std::string how = (status.signalled ? "was killed by signal " : "failed with exit status ") +
                          std::to_string(status.number);
  warn(hook_, how + "; the run goes on, but the command's work may not be done");
}

void HookWatcher::end_all(Tree& tree) {
  if (!std::exchange(warned_, true)) {
    warn(hook_, "was killed after " + format_duration(std::chrono::duration_cast<Micros>(limit_)) +
                    " with all that it had started; run work that takes longer as a service");
  }
  static_cast<void>(tree.kill_all([](pid_t, int) {}));
}

// The next record, of any size; nullopt when dblock has ended.
std::optional<std::string> receive(const UniqueFd& channel) {
  for (;;) {
    const ssize_t size = ::recv(channel.get(), nullptr, 0, MSG_PEEK | MSG_TRUNC);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return std::nullopt;
    std::string record(static_cast<std::size_t>(size), '\0');
    if (::recv(channel.get(), record.data(), record.size(), 0) == size) return record;
  }
}

// The starter's loop. A record is the hook's index, followed by changes to its environment.
void run_starter(const std::vector<Hook>& hooks, const std::string& environment, Nanos limit,
                 UniqueFd channel) {
  ::signal(SIGCHLD, SIG_IGN);  // the kernel clears away ended watchers; the starter waits for none
  while (auto record = receive(channel)) {
    std::uint32_t index = 0;
    if (record->size() < sizeof index) continue;
    std::memcpy(&index, record->data(), sizeof index);
    if (index >= hooks.size()) continue;
    const pid_t pid = ::fork();
    if (pid == 0) {
      channel.reset();
      HookWatcher(hooks[index], environment + record->substr(sizeof index), limit).run();
    }
    if (pid < 0) warn_not_started(hooks[index], strerrordesc_np(errno));
  }
}

}  // namespace

Result<std::unique_ptr<HookStarter>> HookStarter::fork(std::vector<Hook> hooks,
                                                       std::vector<std::string> environment, Nanos limit) {
  const Detached spec{.name = k_hooks_name, .kept = {STDERR_FILENO}, .outside_tree = true, .at_root = false};
  DBLOCK_TRY(auto channel, fork_detached(spec, [&](UniqueFd theirs) {
               run_starter(hooks, join_changes(environment), limit, std::move(theirs));
             }));
  return std::make_unique<HookStarter>(std::move(hooks), std::move(channel));
}

void HookStarter::start(std::size_t index, const std::vector<std::string>& environment) const {
  if (hooks_.at(index).command.empty()) return;
  const auto number = static_cast<std::uint32_t>(index);
  std::string record(sizeof number, '\0');
  std::memcpy(record.data(), &number, sizeof number);
  record += join_changes(environment);
  if (!send_bytes(channel_, record.data(), record.size()))
    warn(hooks_.at(index), "could not be started: the process that starts it is gone; was it killed?");
}

}  // namespace dblock::process
