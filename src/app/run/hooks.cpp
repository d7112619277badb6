#include "app/run/hooks.hpp"

#include <algorithm>

#include "app/run/job_environment.hpp"
#include "app/words/describe.hpp"
#include "base/text.hpp"

namespace dblock::app {
namespace {

// The row's text is untrusted. A key stays as it is, unless it holds what no terminal shows.
std::vector<std::string> about(const lease::LockStatus& holder) {
  std::vector<std::string> environment{"DBLOCK_CONFLICT_KEY=" + escape_message(holder.key)};
  if (!holder.owner.empty()) environment.push_back("DBLOCK_CONFLICT_HOLDER=" + lease::display_holder(holder));
  if (!holder.holder.note.empty())
    environment.push_back("DBLOCK_CONFLICT_NOTE=" + escape_untrusted(holder.holder.note));
  return environment;
}

std::vector<std::string> about(const std::optional<lease::Lease>& lease) {
  return lease ? lock_environment(*lease) : std::vector<std::string>{};
}

}  // namespace

Result<std::shared_ptr<RunHooks>> RunHooks::prepare(const HookCommands& commands,
                                                    const lease::LeaseRequest& wanted) {
  std::vector<process::Hook> hooks(k_events);
  hooks[k_wait] = {"--on-wait", commands.wait};
  hooks[k_start] = {"--on-start", commands.start};
  hooks[k_lost] = {"--on-lost", commands.lost};
  hooks[k_conflict] = {"--on-conflict", commands.conflict};
  hooks[k_overdue] = {"--on-overdue", commands.overdue};
  hooks[k_end] = {"--on-end", commands.end};
  if (std::ranges::all_of(hooks, [](const process::Hook& hook) { return hook.command.empty(); }))
    return std::make_shared<RunHooks>(nullptr);
  // A hook runs under no lock, neither the one that it reports on nor one of an outer run. So the variables
  // that would claim a lease are removed.
  std::vector<std::string> environment =
      lock_environment(lease::granted(wanted, lease::Token{}, 0, BootTime{}).lease);
  for (const auto* const name : {"DBLOCK_TOKEN", "DBLOCK_SLOT", "DBLOCK_HELD", "DBLOCK_ATTEMPT",
                                 "DBLOCK_CONFLICT_KEY", "DBLOCK_CONFLICT_HOLDER", "DBLOCK_CONFLICT_NOTE",
                                 "DBLOCK_OUTCOME", "DBLOCK_EXIT_CODE", "DBLOCK_FAILURES"})
    environment.emplace_back(name);
  DBLOCK_TRY(auto starter, process::HookStarter::fork(std::move(hooks), std::move(environment)));
  return std::make_shared<RunHooks>(std::move(starter));
}

void RunHooks::waiting(const lease::LockStatus& holder) {
  if (starter_) start(k_wait, "wait", about(holder), describe_conflict(holder));
}

void RunHooks::conflict(const lease::LockStatus& holder, const std::string& message) {
  if (starter_) start(k_conflict, "conflict", about(holder), message);
}

void RunHooks::job_started(const lease::Lease& lease) {
  if (!starter_) return;
  const std::string message = "the job under " + lock_names(lease.key, lease.further_keys) + " has started";
  start(k_start, "start", lock_environment(lease), message);
}

void RunHooks::lost(const std::optional<lease::Lease>& lease, const std::string& message) {
  if (starter_) start(k_lost, "lost", about(lease), message);
}

void RunHooks::overdue(const lease::Lease& lease, const std::string& message) {
  if (starter_) start(k_overdue, "overdue", lock_environment(lease), message);
}

void RunHooks::ended(const std::optional<lease::Lease>& lease, const Ending& ending,
                     std::optional<std::uint32_t> failures, const std::string& message) {
  if (!starter_) return;
  const Outcome outcome = outcome_of(ending);
  std::vector<std::string> environment = about(lease);
  environment.push_back("DBLOCK_OUTCOME=" + std::string(outcome.word));
  environment.push_back("DBLOCK_EXIT_CODE=" + std::to_string(outcome.exit.code));
  if (failures) environment.push_back("DBLOCK_FAILURES=" + std::to_string(*failures));
  start(k_end, "end", std::move(environment), message);
}

void RunHooks::start(Event event, const char* word, std::vector<std::string> environment,
                     const std::string& message) {
  if (started_.at(event).exchange(true)) return;
  environment.push_back(std::string("DBLOCK_EVENT=") + word);
  environment.push_back("DBLOCK_MESSAGE=" + escape_message(message));  // may quote a server's own words
  starter_->start(event, environment);
}

}  // namespace dblock::app
