// Gives the lock back after the job's end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "app/requests.hpp"
#include "app/words/ending.hpp"
#include "lease/session.hpp"
#include "process/supervisor.hpp"
#include "store/config/settings.hpp"

namespace dblock::app {

// What became of the lease, and of the wait for it.
struct GivenBack {
  std::string release = "none";  // as RunStatus::release
  process::Stop wait_stopped{};  // why the wait for a release, or for a nested run, was given up
  // How many runs of the key have failed in a row, this one included; nullopt where that is not known. Read
  // only for --on-end.
  std::optional<std::uint32_t> failures{};
};

// What the release works on. All of it outlives the call.
struct EndedJob {
  const RunRequest& request;
  const store::Settings& settings;
  lease::Session& session;  // it renews the lease until the release
  process::Supervisor& supervisor;
  const lease::Lease& lease;
  const std::string& locks;  // as lock_names() names them
  const process::JobEnd& end;
  const Ending& ending;        // which the row records
  std::uint64_t attempts = 0;  // as Attempts::count
};

// Releases the lock, unless processes of the job are left: then the lease is left to expire. Dismisses the
// guardian where nothing is left for it to do. Blocks for seconds where the database does not answer; for as
// long as the lease lasts where a nested run holds it too, or where --once-per or --keep-on-failure need to
// know how the job ended. A signal ends that wait.
[[nodiscard]] GivenBack release_after_job(const EndedJob& job);

// A run whose dblock has died. All of it outlives the call.
struct DeadRun {
  const RunRequest& request;
  const store::Settings& settings;
  const lease::LeaseRequest& wanted;
  const process::JobAtDeath& job;
};

// Releases the lock in the guardian. Records how the job ended, as dblock would have; that dblock has
// abandoned the run where the job or its leftovers had not ended by then.
// True when nothing is left of its request.
bool release_for_dead_run(const DeadRun& run);

}  // namespace dblock::app
