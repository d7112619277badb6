// One function per subcommand. Each connects, does its work and returns values; printing is the caller's.
// All may block on the network within the timeouts of the settings. Call from the main thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "app/ending.hpp"
#include "app/requests.hpp"
#include "base/error.hpp"
#include "doctor/finding.hpp"
#include "lease/store.hpp"
#include "store/schema.hpp"

namespace dblock::app {

// Runs the job under the lock. Blocks every signal first and takes over the process's signal handling;
// messages go to the log. Returns when the job, what it left behind and the release are done.
[[nodiscard]] Ending run(const RunRequest& request, const ExitCodeOf& exit_code_of);

class Keeper;

// Ends with How::held or How::interrupted, or yields the lease.
struct Acquired {
  lease::Lease lease;
  lease::LockStatus status;  // as read back: the server's times
  std::shared_ptr<Keeper> keeper{};
};
[[nodiscard]] Result<std::variant<Acquired, Ending>> acquire(const AcquireRequest& request);
// The caller has been told: a keeper's lease now lasts as long as the process it is for. Without this it is
// given back when dblock ends.
void confirm(const Acquired& acquired);

struct RenewedLease {
  lease::Key key;
  lease::OwnerId owner;
  Micros ttl{0};
  lease::ServerTime expires_at;
};
[[nodiscard]] Result<std::variant<RenewedLease, Ending>> renew(const RenewRequest& request);

// What `release` did or, for --force without --token, could do.
struct ReleaseReport {
  enum class Action { released, described, revoked, freed } action = Action::released;
  // A lease or a cooldown that was ended, or, where described, can be.
  struct Affected {
    lease::LockStatus status;
    std::string next_command{};  // described: the complete command, shell-quoted
  };
  std::string key;
  std::vector<Affected> locks;  // described: all, maybe none; revoked and freed: one; released: none
  Ending ending;                // success, refused (64), lost (76) or held (75)
};
[[nodiscard]] Result<ReleaseReport> release(const ReleaseRequest& request);

struct InspectReport {
  lease::Listing listing;
  std::vector<std::string> stale;          // one sentence a key, for --max-age
  std::optional<std::string> local_store;  // its URL, unescaped, when these are locks of this host only
  std::string remark{};                    // a sentence to say beside the result, or empty
  Ending ending;
};
[[nodiscard]] Result<InspectReport> inspect(const InspectRequest& request);

// Calls `on_report` once, or with --every once a round until TERM, INT or HUP; with --every a failed round is
// logged and the next one tried.
[[nodiscard]] Result<Ending> reap(const ReapRequest& request,
                                  const std::function<void(const lease::ReapReport&)>& on_report);

[[nodiscard]] Result<lease::History> history(const HistoryRequest& request);

struct MigrateReport {
  std::vector<store::MigrationState> states;  // status, dry_run: all; apply: those applied by this call
  std::vector<std::string> grants;            // print_grants
  unsigned schema_version = 0;                // the one this binary needs
  std::optional<bool> assert_held;            // the procedure is there; status, apply: where there can be one
  std::optional<bool> history;                // one is kept; status, and apply when it was asked for
};
[[nodiscard]] Result<MigrateReport> migrate(const MigrateRequest& request);

struct DoctorReport {
  std::vector<doctor::Finding> findings;
  doctor::Level verdict = doctor::Level::ok;  // the worst of them
  Ending ending;
};
// Never fails as a whole: what stands in the way is a finding.
[[nodiscard]] DoctorReport doctor(const DoctorRequest& request);

// The first hundred keys that start with the prefix, for somebody who has just pressed Tab: after 300 ms the
// process ends, with nothing said.
[[nodiscard]] Result<std::vector<std::string>> known_keys(const KeysRequest& request);

}  // namespace dblock::app
