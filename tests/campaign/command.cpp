#include "campaign/command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "support/dblock.hpp"

namespace dblock::campaign {
namespace {

// Output in memory: it never blocks the writer, and costs no disk.
class Output {
 public:
  Output() : fd_(::memfd_create("output", MFD_CLOEXEC)) {
    if (fd_ < 0) throw std::runtime_error("no memory for output");
  }
  ~Output() { ::close(fd_); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] std::string text() const {
    std::string all;
    char part[4096];
    for (ssize_t got = 0; (got = ::pread(fd_, part, sizeof part, static_cast<off_t>(all.size()))) > 0;)
      all.append(part, static_cast<std::size_t>(got));
    return all;
  }

 private:
  int fd_;
};

pid_t spawn(const Words& words, const Words& environment, int out, int err) {
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, out, 1);
  ::posix_spawn_file_actions_adddup2(&files, err, 2);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, words.front().c_str(), &files, &attributes,
                                   test::pointers_to(words).data(), test::pointers_to(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  if (failed != 0) throw std::runtime_error("cannot start " + words.front());
  return pid;
}

bool ends_within(pid_t pid, milliseconds limit) {
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  pollfd entry{fd, POLLIN, 0};
  const int ended = ::poll(&entry, 1, static_cast<int>(limit.count()));
  ::close(fd);
  return ended == 1;
}

}  // namespace

void Targets::add(const Target& target) {
  const std::lock_guard lock(mutex_);
  targets_[target.pid] = target;
}

int Targets::reap(pid_t pid) {
  const std::lock_guard lock(mutex_);
  targets_.erase(pid);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status;
}

std::optional<Outcome> run_program(Targets& targets, Target target, const Words& words,
                                   const Words& environment, milliseconds limit) {
  const Output out, err;
  target.pid = spawn(words, environment, out.fd(), err.fd());
  targets.add(target);
  const bool ended = ends_within(target.pid, limit);
  if (!ended) ::kill(target.pid, SIGKILL);
  const int status = targets.reap(target.pid);
  if (!ended) return std::nullopt;
  return Outcome{WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status), out.text(), err.text()};
}

std::optional<Outcome> run_command(Targets& targets, Target target, const Words& words,
                                   const Words& environment, milliseconds limit) {
  return run_program(targets, target, test::dblock_words(words), environment, limit);
}

}  // namespace dblock::campaign
