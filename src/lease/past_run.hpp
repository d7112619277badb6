// How runs end, and what is kept of those that have ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "lease/lease.hpp"
#include "lease/server_time.hpp"

namespace dblock::lease {

// How the run under a lease ended.
enum class RunOutcome {
  succeeded,  // the job returned 0
  failed,     // the job returned another code
  signalled,  // the job was killed by a signal
  timed_out,  // --max-runtime stopped the job
  lost,       // the lease was lost or revoked and the job stopped
  released,   // a lease of `dblock acquire` was released
  not_run,    // granted, but the job never started
  abandoned,  // the lease expired or was ended by force; recorded by the takeover, the reap or free_now()
};

// True where the job did not do its work: the run failed, or ended with dblock or its host.
[[nodiscard]] bool is_failure(RunOutcome outcome);

struct RunEnd {
  RunOutcome outcome = RunOutcome::released;
  std::optional<int> exit_code;
  // The lock cools down for this long from the release; not after a revocation, which wants the lock free.
  Micros cooldown{0};
  std::optional<std::uint32_t> attempts{};  // how often the job was started; for the history
};

struct PastRun {
  std::optional<ServerTime> acquired_at;
  std::optional<ServerTime> released_at;
  std::optional<RunOutcome> outcome;
  std::optional<int> exit_code;
  std::string host{};          // only for the last run of a free lock; else empty
  std::uint32_t failures = 0;  // how many runs under the row had failed in a row by its end; 0 for a success
};

// One run, or lease of `dblock acquire`, that has ended, as the history records it. Text is untrusted.
struct RecordedRun {
  std::string key;
  Token token;
  std::string owner;
  Kind kind = Kind::run;
  Mode mode = Mode::exclusive;
  Holder holder;
  std::optional<ServerTime> acquired_at;
  std::optional<ServerTime> released_at;  // nullopt: it ended without a release
  ServerTime recorded_at;                 // a time by which it had ended
  std::optional<RunOutcome> outcome;
  std::optional<int> exit_code;
  std::optional<std::uint32_t> attempts;  // how often the job was started; nullopt: no job, or not known
};

[[nodiscard]] std::string_view to_string(RunOutcome outcome);
[[nodiscard]] std::optional<RunOutcome> parse_outcome(std::string_view text);

}  // namespace dblock::lease
