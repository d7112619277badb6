// Hooks: commands of the user for events of a run. They run outside of dblock's tree. So no hook can hold up
// the job's stop, the release or dblock's end, and stopping the job's tree ends no hook.
//
// dblock -> starter -> one watcher for each command -> /bin/sh -c COMMAND
// dblock forks the starter before it becomes a subreaper, and does not wait for it. The starter ends when
// dblock ends, for any reason. A watcher ends when all processes that its command has started have ended.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/unique_fd.hpp"

namespace dblock::process {

// The name of starter and watchers.
inline constexpr const char* k_hooks_name = "dblock-hooks";

// How long a hook may run. Its watcher kills what is left then.
inline constexpr Nanos k_hook_limit = std::chrono::seconds(30);

struct Hook {
  std::string option;   // for messages: "--on-lost"
  std::string command;  // for /bin/sh -c; empty: none
};

class HookStarter {
 public:
  // Forks the starter. Call before Supervisor::start() and before any thread exists. `environment`: changes
  // for every hook's environment; NAME=VALUE sets a variable, NAME alone removes it.
  [[nodiscard]] static Result<std::unique_ptr<HookStarter>> fork(std::vector<Hook> hooks,
                                                                 std::vector<std::string> environment,
                                                                 Nanos limit = k_hook_limit);

  // Asks the starter to start hooks[index] with further changes to its environment. Does nothing when the
  // hook has no command. Never blocks; logs a failure as a warning. Thread-safe.
  void start(std::size_t index, const std::vector<std::string>& environment) const;

  HookStarter(std::vector<Hook> hooks, UniqueFd channel)
      : hooks_(std::move(hooks)), channel_(std::move(channel)) {}

 private:
  std::vector<Hook> hooks_;
  UniqueFd channel_;
};

}  // namespace dblock::process
