// `run --on-wait`, `--on-start`, `--on-lost`, `--on-conflict`, `--on-overdue`, `--on-end`: sets each
// command's environment and starts each at most once.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/requests.hpp"
#include "app/words/ending.hpp"
#include "process/hooks.hpp"

namespace dblock::app {

// Thread-safe, and never blocks.
class RunHooks {
 public:
  // Forks the starter if there is any command; HookStarter::fork() says when this may be called.
  [[nodiscard]] static Result<std::shared_ptr<RunHooks>> prepare(const HookCommands& commands,
                                                                 const lease::LeaseRequest& wanted);
  explicit RunHooks(std::unique_ptr<process::HookStarter> starter) : starter_(std::move(starter)) {}

  // Each starts its command, unless that has been started before. `message`: the sentence for the command.
  void waiting(const lease::LockStatus& holder);
  void conflict(const lease::LockStatus& holder, const std::string& message);
  void job_started(const lease::Lease& lease);
  // `lease` is empty where the lease was over before the run knew of it.
  void lost(const std::optional<lease::Lease>& lease, const std::string& message);
  void overdue(const lease::Lease& lease, const std::string& message);
  // `lease` is empty where the run had none, `failures` where it is not known how many runs have failed in a
  // row.
  void ended(const std::optional<lease::Lease>& lease, const Ending& ending,
             std::optional<std::uint32_t> failures, const std::string& message);

 private:
  enum Event : std::size_t { k_wait, k_start, k_lost, k_conflict, k_overdue, k_end, k_events };
  void start(Event event, const char* word, std::vector<std::string> environment, const std::string& message);

  std::unique_ptr<process::HookStarter> starter_;  // null: no command
  std::array<std::atomic<bool>, k_events> started_{};
};

}  // namespace dblock::app
