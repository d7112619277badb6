#include "store/config/password_command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/duration.hpp"
#include "base/missing_call.hpp"
#include "base/unique_fd.hpp"

namespace dblock::store {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

// More than any server takes for a password. What follows is most likely no password at all.
constexpr std::size_t k_longest = 4096;
// How often the caller is asked whether it still wants the password.
constexpr milliseconds k_glance = 50ms;
constexpr int k_not_executable = 126;
constexpr int k_not_found = 127;

// Holds back the signals that end dblock, so that the command can be killed before dblock ends by them.
class EndingSignals {
 public:
  EndingSignals() {
    sigset_t ending;
    sigemptyset(&ending);
    for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) {
      struct sigaction callers {};
      ::sigaction(number, nullptr, &callers);
      if (callers.sa_handler != SIG_IGN) sigaddset(&ending, number);
    }
    ::sigprocmask(SIG_BLOCK, &ending, &callers_mask_);
    came_.reset(::signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;
  ~EndingSignals() { ::sigprocmask(SIG_SETMASK, &callers_mask_, nullptr); }

  [[nodiscard]] int fd() const { return came_.get(); }  // readable: a signal has come

 private:
  UniqueFd came_;
  sigset_t callers_mask_{};
};

struct Pipe {
  UniqueFd read_end, write_end;

  [[nodiscard]] bool open() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
    return ::fcntl(read_end.get(), F_SETFL, O_NONBLOCK) == 0;
  }
};

// dblock's environment, and what keeps a dblock in the command from running the command again.
std::vector<const char*> environment_of_command() {
  constexpr std::string_view k_event = "DBLOCK_EVENT=";
  std::vector<const char*> environment{"DBLOCK_EVENT=password"};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with(k_event)) environment.push_back(*entry);
  }
  environment.push_back(nullptr);
  return environment;
}

// What runs in the processes that dblock forks for the command. Other threads may have been in the middle of
// anything at the fork, so only system calls are made here.
//
// dblock -> watcher -> /bin/sh -c COMMAND
// The watcher waits for the command, because any thread of dblock may wait for dblock's own children. It
// kills the command when nobody reads its report any more.
struct Forked {
  const char* command;
  const char* directory;
  const char* const* environment;
  int output;                    // of the command
  int report;                    // gets the command's wait status
  std::array<int, 2> read_ends;  // of both pipes

  [[noreturn]] void watch() const;
  void keep_own_descriptors() const;
  [[noreturn]] void become_command(pid_t watcher) const;
};

// dblock's connections must not stay open here.
void Forked::keep_own_descriptors() const {
  const auto low = static_cast<unsigned>(std::min(output, report));
  const auto high = static_cast<unsigned>(std::max(output, report));
  if (low > 3) ::close_range(3, low - 1, 0);
  if (high > low + 1) ::close_range(low + 1, high - 1, 0);
  ::close_range(high + 1, ~0U, 0);
}

void Forked::watch() const {
  ::setsid();
  ::prctl(PR_SET_NAME, "dblock-password");
  // By themselves: close_range() is missing before Linux 5.9, and without this the end of dblock goes unseen.
  for (const int fd : read_ends) ::close(fd);
  keep_own_descriptors();
  for (int s = 1; s < NSIG; ++s) ::signal(s, s == SIGPIPE ? SIG_IGN : SIG_DFL);
  const pid_t self = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become_command(self);
  int status = -errno;
  if (pid > 0) {
    const auto ended = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U));
    const int missing = ended < 0 ? errno : 0;
    std::array<pollfd, 2> fds{pollfd{ended, POLLIN, 0}, pollfd{report, 0, 0}};
    while (missing == 0 && ::poll(fds.data(), fds.size(), -1) < 0 && errno == EINTR) {
    }
    if (fds[0].revents == 0) {
      ::kill(-pid, SIGKILL);
      ::kill(pid, SIGKILL);  // it may not have made its session yet
    }
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (missing != 0) status = -missing;
  }
  [[maybe_unused]] const ssize_t written = ::write(report, &status, sizeof status);
  ::_exit(0);
}

void Forked::become_command(pid_t watcher) const {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != watcher) ::_exit(125);
  ::setsid();
  ::dup2(output, STDOUT_FILENO);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  // Close-on-exec: stderr is main.cpp's stand-in for a missing one. The command gets /dev/null instead.
  if ((::fcntl(STDERR_FILENO, F_GETFD) & FD_CLOEXEC) != 0) ::dup2(null, STDERR_FILENO);
  ::dup2(null, STDIN_FILENO);
  ::close_range(3, ~0U, 0);
  [[maybe_unused]] const int moved = ::chdir(directory);
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const std::array<const char*, 4> argv{"sh", "-c", command, nullptr};
  ::execve("/bin/sh", const_cast<char* const*>(argv.data()), const_cast<char* const*>(environment));
  ::_exit(k_not_found);
}

class CommandRun {
 public:
  CommandRun(const PasswordCommand& command, milliseconds limit, const std::function<bool()>& broken_off)
      : command_(command), limit_(limit), broken_off_(broken_off) {
    if (!broken_off_) signals_.emplace();
  }

  Result<std::string> run() {
    DBLOCK_CHECK(start());
    const auto status = await_end();
    report_.read_end.reset();  // a command that is still there is killed now
    siginfo_t ignored{};
    while (::waitid(P_PID, static_cast<id_t>(watcher_), &ignored, WEXITED) < 0 && errno == EINTR) {
    }
    if (!status) return std::unexpected(status.error());
    return password_after(*status);
  }

 private:
  Result<void> start();
  Result<int> await_end();
  bool read_output();
  [[nodiscard]] Result<std::string> password_after(int status) const;
  [[nodiscard]] std::unexpected<Error> refuse(const std::string& why, Errc code = Errc::unreachable) const {
    return fail(code, "the " + command_.from + " " + why);
  }

  const PasswordCommand& command_;
  const milliseconds limit_;
  const std::function<bool()>& broken_off_;
  std::optional<EndingSignals> signals_;
  pid_t watcher_ = -1;
  Pipe output_;
  Pipe report_;
  std::string text_;
};

Result<void> CommandRun::start() {
  if (!output_.open() || !report_.open()) return refuse(with_errno("cannot be started", errno));
  const auto environment = environment_of_command();
  const Forked forked{command_.command.c_str(), command_.directory.c_str(),
                      environment.data(),       output_.write_end.get(),
                      report_.write_end.get(),  {output_.read_end.get(), report_.read_end.get()}};
  watcher_ = ::fork();
  if (watcher_ == 0) forked.watch();
  if (watcher_ < 0) return refuse(with_errno("cannot be started", errno));
  output_.write_end.reset();
  report_.write_end.reset();
  return {};
}

// RETURNS: the command's wait status, once the command itself has ended. What it has left in the background
// may keep the pipe open.
Result<int> CommandRun::await_end() {
  const BootTime give_up = BootClock::now() + limit_;
  for (bool more = true;;) {
    auto left = std::chrono::ceil<milliseconds>(give_up - BootClock::now());
    if (broken_off_) left = std::min(left, k_glance);
    std::array<pollfd, 3> fds{pollfd{report_.read_end.get(), POLLIN, 0},
                              pollfd{signals_ ? signals_->fd() : -1, POLLIN, 0},
                              pollfd{more ? output_.read_end.get() : -1, POLLIN, 0}};
    const int ready =
        ::poll(fds.data(), fds.size(), static_cast<int>(std::max(left, milliseconds{0}).count()));
    if (ready < 0 && errno != EINTR) return refuse(with_errno("cannot be waited for", errno));
    more = more && read_output();
    if (fds[0].revents != 0) {
      int status = 0;
      if (::read(report_.read_end.get(), &status, sizeof status) == sizeof status) return status;
      return SIGKILL;  // the watcher has been killed, and with it the command
    }
    if (fds[1].revents != 0 || (broken_off_ && broken_off_()))
      return refuse("was broken off by a signal", Errc::config);
    if (BootClock::now() >= give_up) {
      return refuse("did not end within " + format_duration(limit_) +
                    " (connect-timeout) and was killed; make it faster, or raise connect-timeout");
    }
  }
}

// Reads what there is; false at the end of the output. Keeps no more than shows that a line is too long.
bool CommandRun::read_output() {
  std::array<char, 4096> block{};
  for (;;) {
    const ssize_t n = ::read(output_.read_end.get(), block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0;
    if (text_.size() <= k_longest) text_.append(block.data(), static_cast<std::size_t>(n));
  }
}

Result<std::string> CommandRun::password_after(int status) const {
  if (status < 0) return refuse(with_missing_call("cannot be started and waited for", -status, k_pidfd_open));
  if (WIFSIGNALED(status))
    return refuse("was killed by signal " + std::to_string(WTERMSIG(status)) + "; run it by hand to see why");
  if (const int code = WEXITSTATUS(status); code != 0) {
    const bool never_works = code == k_not_found || code == k_not_executable;
    return refuse("failed with exit status " + std::to_string(code) +
                      (never_works ? " (not found, or not executable)" : "") +
                      "; run it by hand, as the user who runs dblock",
                  never_works ? Errc::config : Errc::unreachable);
  }
  std::string line = text_.substr(0, text_.find('\n'));
  if (line.ends_with('\r')) line.pop_back();
  if (line.empty()) return refuse("printed no password; the first line of its output must be the password");
  if (line.size() > k_longest) return refuse("printed a line that is too long for a password");
  return line;
}

}  // namespace

Result<std::string> run_password_command(const PasswordCommand& command, milliseconds limit,
                                         const std::function<bool()>& broken_off) {
  return CommandRun(command, limit, broken_off).run();
}

}  // namespace dblock::store
