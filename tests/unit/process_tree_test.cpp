// A tree is about this process's children, so each case runs in a child of its own.
#include "process/tree.hpp"

#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "child.hpp"
#include "support/catch.hpp"
#include "support/privilege.hpp"

namespace dblock::process {
namespace {

using namespace std::chrono_literals;

// A child that sleeps, with this number; 0: any. -1 where that cannot be had.
pid_t fork_sleeper(pid_t number) {
  clone_args arguments{};
  arguments.exit_signal = SIGCHLD;
  if (number != 0) {
    arguments.set_tid = reinterpret_cast<std::uint64_t>(&number);
    arguments.set_tid_size = 1;
  }
  const auto pid = static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
  if (pid != 0) return pid;
  for (;;) ::pause();
}

enum class Answer { right = 0, wrong = 1, cannot_tell = 2 };

Answer in_child(Answer (*check)()) {
  const int code = code_of_child([&] { return static_cast<int>(check()); });
  return code < 0 ? Answer::wrong : Answer{code};
}

Answer forgets_the_number() {
  auto tree = Tree::open();
  if (!tree) return Answer::cannot_tell;
  const pid_t spared = fork_sleeper(0);
  tree->spare_children();
  if (!tree->descendants().empty()) return Answer::wrong;
  ::kill(spared, SIGKILL);
  while (!tree->collect_ended([](pid_t, int) {})) ::usleep(1000);
  const pid_t jobs = fork_sleeper(spared);
  if (jobs < 0) return Answer::cannot_tell;
  const auto seen = tree->descendants();
  const bool killed = tree->kill_all([](pid_t, int) {});
  const bool right = seen.size() == 1 && seen.front().pid == jobs && killed && ::kill(jobs, 0) != 0;
  ::kill(jobs, SIGKILL);
  return right ? Answer::right : Answer::wrong;
}

Answer signals_that_process_alone() {
  const pid_t pid = fork_sleeper(0);
  auto grandchild = process_info(pid).value();
  grandchild.parent = pid + 1;  // a child of ours cannot lose its number
  auto earlier = grandchild;
  --earlier.start_ticks;
  Tree::signal(earlier, SIGKILL);
  int status = 0;
  ::usleep(20'000);
  const bool spared = ::waitpid(pid, &status, WNOHANG) == 0;
  Tree::signal(grandchild, SIGKILL);
  const bool killed = !spared || ::waitpid(pid, &status, 0) == pid;
  return spared && killed ? Answer::right : Answer::wrong;
}

}  // namespace

TEST_CASE("a process that has the number of one that was to be signalled gets no signal") {
  CHECK(in_child(signals_that_process_alone) == Answer::right);
}

TEST_CASE("a process of the job with the number of a spared one that has ended is not spared", "[safety]") {
  Answer answer = Answer::cannot_tell;
  // Another process may have got the number before.
  for (int tries = 0; tries < 5 && answer == Answer::cannot_tell; ++tries)
    answer = in_child(forgets_the_number);
  DBLOCK_NEEDS(answer == Answer::cannot_tell ? "no process number may be chosen" : "");
  CHECK(answer == Answer::right);
}

}  // namespace dblock::process
