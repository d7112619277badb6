#include "support/process.hpp"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace dblock::test {
namespace {

const std::string& empty_home() {
  static const TempDir home;
  return home.path();
}

// In the child, between fork or vfork and exec: async-signal-safe calls only.
[[noreturn]] void become(const Spawn& spec, pid_t test, int in, int out, int err, char* const* argv,
                         char* const* env, const char* program) {
  if (spec.own_session) ::setsid();
  ::dup2(in, 0);
  ::dup2(out, 1);
  if (spec.close_stderr)
    ::close(2);
  else
    ::dup2(err, 2);
  for (const int fd : spec.keep_fds) ::fcntl(fd, F_SETFD, 0);
  if (spec.user && (::setgroups(0, nullptr) != 0 || ::setgid(*spec.user) != 0 || ::setuid(*spec.user) != 0))
    ::_exit(125);
  if (!spec.cwd.empty() && ::chdir(spec.cwd.c_str()) != 0) ::_exit(125);
  if (spec.ends_with_test) {  // not before setuid(), which takes it back
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != test) ::_exit(125);
  }
  reset_signals();
  for (const int number : spec.ignored_signals) ::signal(number, SIG_IGN);
  if (spec.stopped) ::raise(SIGSTOP);
  ::execvpe(program, argv, env);
  ::_exit(125);
}

}  // namespace

std::string new_mark() {
  static std::atomic<unsigned> count = 0;
  return std::to_string(::getpid()) + "-" + std::to_string(realtime_micros()) + "-" + std::to_string(++count);
}

std::vector<std::string> bare_environment(const std::string& mark, const std::vector<std::string>& more) {
  std::vector<std::string> env{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + empty_home(),
                               std::string(k_mark_variable) + "=" + mark};
  for (const char* passed : {"ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"}) {
    if (const char* value = std::getenv(passed)) env.push_back(std::string(passed) + "=" + value);
  }
  env.insert(env.end(), more.begin(), more.end());
  return env;
}

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> list;
  for (const auto& word : words) list.push_back(const_cast<char*>(word.c_str()));
  list.push_back(nullptr);
  return list;
}

void reset_signals() {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int number = 1; number < 32; ++number) ::signal(number, SIG_DFL);
}

void kill_tree(const std::string& mark) {
  // Again until nothing is found: a process may fork while the list is read.
  for (int round = 0; round < 50; ++round) {
    const auto left = processes_with_mark(mark);
    for (const pid_t pid : left) ::kill(pid, SIGKILL);
    if (left.empty()) return;
    pause_for(2ms);
  }
}

std::string to_string(const Exit& exit) {
  return exit.signalled ? std::string("killed by ") + ::strsignal(exit.number)
                        : "exit " + std::to_string(exit.number);
}

std::ostream& operator<<(std::ostream& out, const Exit& exit) {
  return out << to_string(exit);
}

// Output goes to a file without a name: it can be read at any time and never blocks the writer.
struct Process::CapturedFile {
  CapturedFile() : fd(::open("/tmp", O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, 0600)) {
    if (fd < 0) throw std::runtime_error("cannot make a file for captured output");
  }
  ~CapturedFile() { ::close(fd); }
  CapturedFile(const CapturedFile&) = delete;
  CapturedFile& operator=(const CapturedFile&) = delete;

  [[nodiscard]] std::string text() const {
    std::string all;
    char part[4096];
    for (ssize_t got = 0; (got = ::pread(fd, part, sizeof part, static_cast<off_t>(all.size()))) > 0;)
      all.append(part, static_cast<std::size_t>(got));
    return all;
  }
  int fd;
};

Process::Process(const Spawn& spec)
    : out_(std::make_shared<CapturedFile>()), err_(std::make_shared<CapturedFile>()), mark_(new_mark()) {
  const auto env_words = bare_environment(mark_, spec.env);
  const auto argv = pointers_to(spec.argv);
  const auto env = pointers_to(env_words);
  int input[2] = {-1, -1};
  int in = spec.stdin_fd;
  if (in < 0 && !spec.input.empty()) {
    if (::pipe2(input, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    in = input[0];
  } else if (in < 0) {
    in = input[0] = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  }
  const int out = spec.stdout_fd >= 0 ? spec.stdout_fd : out_->fd;
  const int err = spec.stderr_fd >= 0 ? spec.stderr_fd : err_->fd;
  const pid_t test = ::getpid();
  // fork() copies the page tables of a large program, for each of thousands of processes. With vfork() the
  // child must not stop, for this thread waits for its exec; nor change its user, for glibc would change that
  // of the other threads too.
  pid_ = spec.stopped || spec.user ? ::fork() : ::vfork();
  if (pid_ == 0) become(spec, test, in, out, err, argv.data(), env.data(), spec.argv.front().c_str());
  if (input[0] >= 0) ::close(input[0]);
  if (input[1] >= 0) {
    if (::write(input[1], spec.input.data(), spec.input.size()) < 0) std::perror("write");
    ::close(input[1]);
  }
  if (pid_ < 0) throw std::runtime_error("cannot fork");
}

Process::~Process() {
  if (pid_ < 0) return;
  kill_tree(mark_);
  if (!exit_) ::waitpid(pid_, nullptr, 0);
}

std::optional<Exit> Process::try_wait(milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!exit_) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      has_ended(status);
      break;
    }
    const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
    if (left <= 0ms) break;
    const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
    pollfd entry{fd, POLLIN, 0};
    const bool ended = ::poll(&entry, 1, static_cast<int>(left.count())) == 1;
    ::close(fd);
    // A parent is told of a traced process only when its tracer has let go of it. LeakSanitizer is one.
    if (ended) pause_for(1ms);
  }
  return exit_;
}

void Process::has_ended(int wait_status) {
  dumped_core_ = WIFSIGNALED(wait_status) && WCOREDUMP(wait_status);
  exit_ = WIFSIGNALED(wait_status) ? killed_by(WTERMSIG(wait_status)) : exited(WEXITSTATUS(wait_status));
}

Exit Process::wait(milliseconds limit) {
  if (const auto ended = try_wait(limit)) return *ended;
  std::string found;
  for (const pid_t pid : tree()) found += " " + std::to_string(pid) + "(" + proc_info(pid).name + ")";
  for (const pid_t pid : tree()) ::kill(pid, SIGKILL);
  throw std::runtime_error("not ended in time; alive:" + found + "\nstdout: " + out() + "\nstderr: " + err());
}

std::string Process::out() const {
  return out_->text();
}
std::string Process::err() const {
  return err_->text();
}
std::vector<pid_t> Process::tree() const {
  return processes_with_mark(mark_);
}

Finished run_program(const Spawn& spec, milliseconds limit) {
  Process process(spec);
  const Exit exit = process.wait(limit);
  return {exit, process.out(), process.err()};
}

}  // namespace dblock::test
