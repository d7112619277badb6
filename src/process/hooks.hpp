// Commands that people hang on events of a run. They run beside dblock and outside of its tree: nothing that
// one of them does, or fails to do, holds up the job's stop, the release or dblock's end, and neither does
// the job's stop end it.
//
// dblock -> starter -> one watcher for each command -> /bin/sh -c COMMAND
// The starter is forked before dblock becomes a subreaper and is nobody's child that dblock waits for. It
// ends with dblock, however that ends; a watcher ends with all that its command has started.
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

// After it, whatever of a hook is left is killed.
inline constexpr Nanos k_hook_limit = std::chrono::seconds(30);

struct Hook {
  std::string option;   // for messages: "--on-lost"
  std::string command;  // for /bin/sh -c; empty: none
};

class HookStarter {
 public:
  // Forks the starter. Call before Supervisor::start() and before any thread exists. `environment`:
  // NAME=VALUE to set and NAME to take away in every hook's.
  [[nodiscard]] static Result<std::unique_ptr<HookStarter>> fork(std::vector<Hook> hooks,
                                                                 std::vector<std::string> environment,
                                                                 Nanos limit = k_hook_limit);

  // Has hooks[index] started with more `environment`. Never blocks; a failure is a warning. Thread-safe.
  void start(std::size_t index, const std::vector<std::string>& environment) const;

  HookStarter(std::vector<Hook> hooks, UniqueFd channel)
      : hooks_(std::move(hooks)), channel_(std::move(channel)) {}

 private:
  std::vector<Hook> hooks_;
  UniqueFd channel_;
};

}  // namespace dblock::process
