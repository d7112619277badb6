// One dblock command or application of a client, and the table of those under way, among which faults pick
// their victims.
#pragma once

#include <sys/types.h>

#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "support/config.hpp"

namespace dblock::campaign {

using test::milliseconds;
using Words = std::vector<std::string>;
using Random = std::mt19937_64;

// What a fault needs to know about a command.
struct Target {
  pid_t pid = 0;
  int op = 0;
  enum class Kind { command, run, application } kind = Kind::command;  // a run has a guardian and a job
  bool sure_to_die = false;  // its job has no child that would outlive dblock and guardian both
  bool hit = false;          // by a fault: one is enough
};

class Targets {
 public:
  // Nobody can be reaped, and no pid be another process's, while `act` looks at him.
  template <typename Act>
  void pick(Random& random, Act act) {
    const std::lock_guard lock(mutex_);
    if (targets_.empty()) return;
    auto chosen = targets_.begin();
    std::advance(chosen, static_cast<long>(random() % targets_.size()));
    act(chosen->second);
  }
  void add(const Target& target);
  [[nodiscard]] int reap(pid_t pid);  // its wait status

 private:
  std::mutex mutex_;
  std::map<pid_t, Target> targets_;
};

struct Outcome {
  int code = 0;  // -n: killed by signal n
  std::string out, err;
};

// Runs a program to its end. Nothing when it has not ended within `limit`: then it is killed.
[[nodiscard]] std::optional<Outcome> run_program(Targets& targets, Target target, const Words& words,
                                                 const Words& environment, milliseconds limit);
// … `dblock WORDS…`.
[[nodiscard]] std::optional<Outcome> run_command(Targets& targets, Target target, const Words& words,
                                                 const Words& environment, milliseconds limit);

}  // namespace dblock::campaign
