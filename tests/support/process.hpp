// Running a program as cron would: a bare environment, no terminal, output captured, nothing left behind.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "support/config.hpp"
#include "support/proc_tree.hpp"

namespace dblock::test {

struct Exit {
  bool signalled = false;
  int number = 0;  // exit code, or the signal

  bool operator==(const Exit&) const = default;
};
[[nodiscard]] inline Exit exited(int code) {
  return {false, code};
}
[[nodiscard]] inline Exit killed_by(int signal) {
  return {true, signal};
}
std::ostream& operator<<(std::ostream& out, const Exit& exit);
[[nodiscard]] std::string to_string(const Exit& exit);  // as << shows it

struct Spawn {
  std::vector<std::string> argv;
  std::vector<std::string> env{};  // NAME=VALUE, after PATH, HOME (an empty directory) and the tree's mark
  std::string input{};             // given on stdin through a pipe; empty: /dev/null
  int stdin_fd = -1;               // instead of the above
  int stdout_fd = -1;              // instead of capturing
  int stderr_fd = -1;
  bool close_stderr = false;
  std::string cwd{};
  std::vector<int> keep_fds{};         // stay open in the program, at the same numbers
  std::vector<int> ignored_signals{};  // SIG_IGN when the program starts
  bool own_session = true;             // no controlling terminal
  bool stopped = false;                // stops itself before the program begins, for a tracer
  std::optional<uid_t> user{};  // run as this one, group of the same number; the test itself must be root
  bool ends_with_test = false;  // killed when the thread that started it ends, however it does
};

// For other ways to start a program (see pty.hpp).
[[nodiscard]] std::string new_mark();
[[nodiscard]] std::vector<std::string> bare_environment(const std::string& mark,
                                                        const std::vector<std::string>& more);
// For exec: ends with a null pointer, valid as long as the words are.
[[nodiscard]] std::vector<char*> pointers_to(const std::vector<std::string>& words);
void reset_signals();                     // default dispositions, nothing blocked; async-signal-safe
void kill_tree(const std::string& mark);  // SIGKILL to all who bear it, until none is left

// One program and everything it started. The destructor kills the whole tree. Not thread-safe.
class Process {
 public:
  explicit Process(const Spawn& spec);
  ~Process();
  Process(Process&& other) noexcept
      : out_(std::move(other.out_)),
        err_(std::move(other.err_)),
        mark_(std::move(other.mark_)),
        pid_(std::exchange(other.pid_, -1)),  // its destructor waits for nobody
        exit_(other.exit_),
        dumped_core_(other.dumped_core_) {}
  Process& operator=(Process&&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  bool freeze() const { return test::freeze(pid_); }

  // Throws when the program does not end in time (its tree is killed first).
  Exit wait(milliseconds limit = patience());
  [[nodiscard]] std::optional<Exit> try_wait(milliseconds limit = 0ms);
  [[nodiscard]] bool running() { return !try_wait().has_value(); }
  // A tracer has waited for it.
  void has_ended(int wait_status);

  // It has ended and left a core dump.
  [[nodiscard]] bool dumped_core() const { return dumped_core_; }

  // Everything written so far.
  [[nodiscard]] std::string out() const;
  [[nodiscard]] std::string err() const;

  // Every live process of the tree, this one included.
  [[nodiscard]] std::vector<pid_t> tree() const;
  [[nodiscard]] const std::string& mark() const { return mark_; }

 private:
  struct CapturedFile;
  std::shared_ptr<CapturedFile> out_, err_;
  std::string mark_;
  pid_t pid_ = -1;
  std::optional<Exit> exit_;
  bool dumped_core_ = false;
};

struct Finished {
  Exit exit;
  std::string out, err;
};
// Runs to the end.
Finished run_program(const Spawn& spec, milliseconds limit = patience());

}  // namespace dblock::test
