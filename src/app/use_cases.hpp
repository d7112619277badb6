// One function per subcommand. Each connects, does its work and returns values; printing is the caller's.
// All may block on the network within the timeouts of the settings. Call from the main thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "app/requests.hpp"
#include "app/words/ending.hpp"
#include "base/error.hpp"
#include "doctor/doctor.hpp"
#include "lease/store.hpp"
#include "store/schema.hpp"

namespace dblock::app {

// Runs the job under the lock. Takes over the process's signal handling (process/signals.hpp); messages go to
// the log. Returns when the job and its leftovers are dealt with and the release is done.
[[nodiscard]] Ending run(const RunRequest& request);

class KeeperHandle;

struct Acquired {
  lease::Lease lease;
  lease::LockStatus status;  // the row as read back, with the server's times
  std::shared_ptr<KeeperHandle> keeper{};
};
// Takes the lock for a script. Returns the lease, or an Ending: held, interrupted, refused (PID ended) or
// lost.
[[nodiscard]] Result<std::variant<Acquired, Ending>> acquire(const AcquireRequest& request);
// Call this when dblock's caller has been told of the lease: from then on a keeper keeps it until PID ends.
// Without this call the keeper releases the lease when dblock ends.
void confirm(const Acquired& acquired);

struct RenewedLease {
  lease::Key key;
  lease::OwnerId owner;
  Micros ttl{0};
  lease::ServerTime expires_at;
};
// Extends a script's lease. Returns the renewed lease, or an Ending: lost, or refused (a running job's
// lease).
[[nodiscard]] Result<std::variant<RenewedLease, Ending>> renew(const RenewRequest& request);

// What `release` did or, for --force without --token, could do.
struct ReleaseReport {
  enum class Action { released, described, revoked, freed } action = Action::released;
  // A lease or a cooldown that was ended; with Action::described one that can be ended.
  struct Affected {
    lease::LockStatus status;
    std::string next_command{};  // described: the complete command, shell-quoted
  };
  std::string key;
  std::vector<Affected> locks;  // described: all, maybe none; revoked and freed: one; released: none
  std::string now{};            // revoked, with --wait: what has become of the lock, a part of a sentence
  Ending ending;                // success, refused (64), lost (76) or held (75)
};
// Releases a script's lease; with --force describes or ends another holder's lease or a cooldown.
[[nodiscard]] Result<ReleaseReport> release(const ReleaseRequest& request);

struct PauseReport {
  lease::Paused paused;
  Ending ending;  // success; with --wait also held (75), or interrupted: the pause stays
};
// Pauses locks; with --wait also waits until nobody holds one of them.
[[nodiscard]] Result<PauseReport> pause(const PauseRequest& request);
// Ends a pause, where there is one of this scope.
[[nodiscard]] Result<lease::Resumed> resume(const ResumeRequest& request);

struct InspectReport {
  lease::Listing listing;
  std::vector<std::string> complaints;  // --max-age, --max-held, --max-failures: one for each bad key or lock
  std::optional<std::string> local_store;  // the store's URL, unescaped, when it is a file of this host
  std::string notice{};                    // a sentence to say beside the result, or empty
  Ending ending;
};
// Lists the locks that the request selects, and judges them where it asks for that. Changes nothing.
[[nodiscard]] Result<InspectReport> inspect(const InspectRequest& request);

// Waits until the judgement that the request asks for is good, or until its timeout: then not_yet. A database
// that does not answer is asked again until then, and its error is returned at the end.
[[nodiscard]] Result<Ending> wait(const WaitRequest& request);

// Calls `on_report` once, or with --every once a round until a signal comes that ends a wait. With --every,
// logs a round that did not reach the database and tries the next one.
[[nodiscard]] Result<Ending> reap(const ReapRequest& request,
                                  const std::function<void(const lease::ReapReport&)>& on_report);

// Lists the recorded runs that have ended. Warns where runs are not recorded. Changes nothing.
[[nodiscard]] Result<lease::History> history(const HistoryRequest& request);

struct MigrateReport {
  std::vector<store::MigrationState> states;  // status, dry_run: all; apply: those applied by this call
  std::vector<std::string> grants;            // print_grants
  unsigned schema_version = 0;                // the one this binary needs
  std::vector<store::Procedure> installed;    // apply: the procedures installed by this call
  std::optional<store::ProceduresState> procedures;  // status, dry_run, apply on a server
  std::optional<bool> history;                       // status, and apply where asked for: a history is kept
};
// Brings dblock's tables to the version that this binary needs, or reports on them, as the action says.
[[nodiscard]] Result<MigrateReport> migrate(const MigrateRequest& request);

struct DoctorReport {
  std::vector<doctor::Finding> findings;
  doctor::Level verdict = doctor::Level::ok;  // the worst level of the findings
  Ending ending;
};
// Never fails as a whole: whatever prevents a check is a finding.
[[nodiscard]] DoctorReport doctor(const DoctorRequest& request);

// The first hundred keys that start with the prefix, for a shell's completion. The process ends silently 300
// ms after this call, so that a user who has pressed Tab does not wait longer.
[[nodiscard]] Result<std::vector<std::string>> known_keys(const KeysRequest& request);

}  // namespace dblock::app
