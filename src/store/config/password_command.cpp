#include "store/config/password_command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "base/clock.hpp"
#include "base/duration.hpp"
#include "base/missing_call.hpp"
#include "base/unique_fd.hpp"

namespace dblock::store {
namespace {

using std::chrono::milliseconds;

// More than any server takes for a password. What follows is most likely no password at all.
constexpr std::size_t k_longest = 4096;

// Holds back the signals that end dblock, so that the command can be killed before dblock ends by them; and
// lets dblock wait for the command even if its caller ignores SIGCHLD.
class Signals {
 public:
  Signals() {
    sigset_t ending;
    sigemptyset(&ending);
    for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) {
      struct sigaction callers {};
      ::sigaction(number, nullptr, &callers);
      if (callers.sa_handler != SIG_IGN) sigaddset(&ending, number);
    }
    ::sigprocmask(SIG_BLOCK, &ending, &callers_mask_);
    came_.reset(::signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK));
    struct sigaction by_default {};
    by_default.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &by_default, &callers_sigchld_);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals() {
    ::sigaction(SIGCHLD, &callers_sigchld_, nullptr);
    unblock();
  }

  [[nodiscard]] int fd() const { return came_.get(); }  // readable: a signal has come
  void unblock() const { ::sigprocmask(SIG_SETMASK, &callers_mask_, nullptr); }

 private:
  UniqueFd came_;
  sigset_t callers_mask_{};
  struct sigaction callers_sigchld_ {};
};

class CommandRun {
 public:
  CommandRun(std::string source, milliseconds limit) : source_(std::move(source)), limit_(limit) {}

  Result<std::string> run(const std::string& command) {
    DBLOCK_CHECK(start(command));
    auto awaited =
        ended_ ? await_end() : refuse(with_missing_call("cannot be waited for", errno, k_pidfd_open));
    if (!awaited) kill_all();
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    if (!awaited) return std::unexpected(std::move(awaited.error()));
    return judge(status);
  }

 private:
  Result<void> start(const std::string& command);
  [[noreturn]] void become_command(const std::string& command, int output, pid_t parent) const;
  Result<void> await_end();
  bool read_output();
  void kill_all() const;
  [[nodiscard]] Result<std::string> judge(int status) const;
  [[nodiscard]] std::unexpected<Error> refuse(const std::string& why) const {
    return fail(Errc::config, "the " + source_ + " " + why);
  }

  const std::string source_;
  const milliseconds limit_;
  const Signals signals_;
  pid_t pid_ = -1;
  UniqueFd output_;
  UniqueFd ended_;  // readable once the command has ended
  std::string text_;
};

Result<void> CommandRun::start(const std::string& command) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return refuse(with_errno("cannot be started", errno));
  output_.reset(ends[0]);
  const UniqueFd theirs(ends[1]);
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
  const pid_t self = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become_command(command, theirs.get(), self);
  if (pid_ < 0) return refuse(with_errno("cannot be started", errno));
  ended_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0U)));
  return {};
}

void CommandRun::become_command(const std::string& command, int output, pid_t parent) const {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(125);
  ::setsid();
  ::dup2(output, STDOUT_FILENO);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  // Close-on-exec: stderr is main.cpp's stand-in for a missing one. The command gets /dev/null instead.
  if ((::fcntl(STDERR_FILENO, F_GETFD) & FD_CLOEXEC) != 0) ::dup2(null, STDERR_FILENO);
  ::dup2(null, STDIN_FILENO);
  ::close_range(3, ~0U, 0);
  ::setenv("DBLOCK_EVENT", "password", 1);  // a dblock in there must not run the command again
  signals_.unblock();
  ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  ::_exit(127);
}

// Returns when the command itself has ended. What it has left in the background may keep the pipe open.
Result<void> CommandRun::await_end() {
  const BootTime give_up = BootClock::now() + limit_;
  for (bool more = true;;) {
    const auto left = std::chrono::ceil<milliseconds>(give_up - BootClock::now());
    std::array<pollfd, 3> fds{pollfd{ended_.get(), POLLIN, 0}, pollfd{signals_.fd(), POLLIN, 0},
                              pollfd{more ? output_.get() : -1, POLLIN, 0}};
    const int ready =
        ::poll(fds.data(), fds.size(), static_cast<int>(std::max(left, milliseconds{0}).count()));
    if (ready < 0 && errno != EINTR) return refuse(with_errno("cannot be waited for", errno));
    more = more && read_output();
    if (fds[0].revents != 0) return {};
    if (fds[1].revents != 0) return refuse("was broken off by a signal");
    if (left <= milliseconds{0}) {
      return refuse("did not end within " + format_duration(limit_) +
                    " (connect-timeout) and was killed; make it faster, or raise connect-timeout");
    }
  }
}

// Reads what there is; false at the end of the output. Keeps no more than shows that a line is too long.
bool CommandRun::read_output() {
  std::array<char, 4096> block{};
  for (;;) {
    const ssize_t n = ::read(output_.get(), block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0;
    if (text_.size() <= k_longest) text_.append(block.data(), static_cast<std::size_t>(n));
  }
}

void CommandRun::kill_all() const {
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);  // it may not have made its session yet
}

Result<std::string> CommandRun::judge(int status) const {
  if (WIFSIGNALED(status))
    return refuse("was killed by signal " + std::to_string(WTERMSIG(status)) + "; run it by hand to see why");
  if (WEXITSTATUS(status) != 0) {
    return refuse("failed with exit status " + std::to_string(WEXITSTATUS(status)) +
                  "; run it by hand, as the user who runs dblock");
  }
  std::string line = text_.substr(0, text_.find('\n'));
  if (line.empty()) return refuse("printed no password; the first line of its output must be the password");
  if (line.size() > k_longest) return refuse("printed a line that is too long for a password");
  return line;
}

}  // namespace

Result<std::string> run_password_command(const std::string& command, const std::string& source,
                                         milliseconds limit) {
  return CommandRun(source, limit).run(command);
}

}  // namespace dblock::store
