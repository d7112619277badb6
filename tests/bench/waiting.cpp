// bench_waiting DBLOCK HOW APPLICATIONS RUNS HOLD_MS SECONDS: so many applications and loops of `dblock run
// --wait` want one lock again and again, and hold it for HOLD_MS each. An application asks dblock_acquire
// every 100 to 300 ms. HOW: `line` (meanwhile it has a place in the line) or `no-place` (whoever waits comes
// first). The database is $DBLOCK_DB, migrated. waiting.sh calls it.
//
// Prints one line: turns, and waits in milliseconds (of a run, from its start). A wait that the end cuts off
// counts for the longest:
//   applications TURNS MEDIAN LONGEST runs TURNS MEDIAN LONGEST
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/application.hpp"

namespace {

using namespace std::chrono_literals;
using dblock::test::Application;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

struct Plan {
  std::string dblock;
  bool in_line;
  std::chrono::milliseconds hold;
  Clock::time_point end;
};

class Waits {
 public:
  void add(Milliseconds wait, bool had_its_turn) {
    const std::lock_guard lock(mutex_);
    longest_ = std::max(longest_, wait.count());
    if (had_its_turn) waits_.push_back(wait.count());
  }
  void print(const char* whose) {
    std::ranges::sort(waits_);
    std::printf("%s %zu %.0f %.0f ", whose, waits_.size(), waits_.empty() ? 0 : waits_[waits_.size() / 2],
                longest_);
  }

 private:
  std::mutex mutex_;
  std::vector<double> waits_;
  double longest_ = 0;
};

void be_application(const Plan& plan, Waits& waits) {
  const char* const url = std::getenv("DBLOCK_DB");
  Application application(url == nullptr ? "" : url);
  const dblock::test::LockTerms terms{60s, 3s};
  while (Clock::now() < plan.end) {
    const auto begun = Clock::now();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(plan.end - begun);
    const std::string owner = dblock::test::new_owner_id("bench");
    const auto acquire = plan.in_line ? dblock::test::acquire_by_polling : dblock::test::acquire_behind_all;
    const auto answer = acquire(application, "waiting", owner, terms, left);
    const bool held = answer.outcome == "granted";
    waits.add(Clock::now() - begun, held);
    if (held) {
      std::this_thread::sleep_for(plan.hold);
      if (application.release("waiting", owner).outcome != "released") std::exit(70);
    }
  }
}

pid_t start(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = -1;
  if (::posix_spawn(&pid, arguments.front(), nullptr, nullptr, arguments.data(), environ) != 0) std::exit(70);
  return pid;
}

void be_run(const Plan& plan, Waits& waits) {
  const std::string seconds = std::to_string(static_cast<double>(plan.hold.count()) / 1000);
  while (Clock::now() < plan.end) {
    const auto begun = Clock::now();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(plan.end - begun);
    const pid_t pid = start({plan.dblock, "-q", "run", "--key", "waiting", "--wait",
                             std::to_string(left.count()) + "ms", "--", "/bin/sleep", seconds});
    int status = 0;
    ::waitpid(pid, &status, 0);
    const bool held = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    waits.add(Clock::now() - begun - (held ? plan.hold : 0ms), held);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 64;
  const Plan plan{argv[1], std::string(argv[2]) == "line", std::chrono::milliseconds(std::atol(argv[5])),
                  Clock::now() + std::chrono::seconds(std::atol(argv[6]))};
  Waits of_applications, of_runs;
  {
    std::vector<std::jthread> threads;
    for (long i = 0; i < std::atol(argv[3]); ++i)
      threads.emplace_back([&] { be_application(plan, of_applications); });
    for (long i = 0; i < std::atol(argv[4]); ++i) threads.emplace_back([&] { be_run(plan, of_runs); });
  }
  of_applications.print("applications");
  of_runs.print("runs");
  std::printf("\n");
  return 0;
}
