// What the user asks of each subcommand: plain values, which `cli` has checked, free of the command line's
// syntax.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lease/acquire.hpp"
#include "lease/lease.hpp"
#include "lease/pause.hpp"
#include "lease/place.hpp"
#include "lease/server_time.hpp"
#include "lease/timing.hpp"
#include "process/job.hpp"
#include "store/config/settings.hpp"

namespace dblock::app {

// --note's default is the CI job's URL where the environment tells it; `display_name` is DBLOCK_HOLDER.
struct Identity {
  std::optional<std::string> display_name;
  std::string note;
};

// Commands for /bin/sh -c, each started at most once; none where empty.
struct HookCommands {
  std::string wait;      // the wait for a held lock begins
  std::string start;     // the job has started
  std::string lost;      // the lease is lost
  std::string conflict;  // the run is given up, since the lock is held
  std::string overdue;   // the job has run for longer than expected
  std::string end;       // the run has ended
};

// --retry: a job that fails is started again, `count` times at most. The first pause before that is `delay`,
// each next one twice as long, up to `max_delay`.
struct JobRetry {
  std::uint64_t count = 0;
  Micros delay{0};
  Micros max_delay{0};
};

struct RunRequest {
  store::SettingsSources database;
  Identity identity;
  lease::Key key;
  std::vector<lease::Key> further_keys{};  // further keys, sorted, after `key`
  std::vector<lease::Key> any{};           // a pool: `key` or one of these, in the order of preference
  lease::Sharing sharing{};
  std::string held{};     // DBLOCK_HELD as inherited
  bool reentrant = true;  // share the locks that an outer run holds
  lease::Timing timing;
  lease::WaitPolicy wait;
  Micros splay{0};  // the longest wait before the first try
  lease::Promises promises{};
  lease::Line line = lease::Line::fifo;
  bool replaces = false;     // revoke a replaceable holder instead of waiting for its end
  bool replaceable = false;  // such a run may revoke this one
  int conflict_exit_code = 75;
  int first_signal = 15;
  std::optional<Micros> stop_grace{};  // default: timing.kill_grace
  std::optional<Micros> max_runtime;
  JobRetry retry{};
  std::optional<Micros> expect{};  // after this time a running job is overdue
  bool with_parent = false;
  process::Leftovers leftovers = process::Leftovers::automatic;
  Micros warn_after{0};
  bool record_args = false;
  std::optional<std::string> status_file;
  HookCommands hooks{};
  std::optional<std::string> shell_command;  // -c STRING
  std::vector<std::string> command;          // COMMAND ARG…; empty with -c
};

// --while-pid PID: hold the lock until PID ends, and send it `lost_signal` should the lease be lost.
struct WhilePid {
  pid_t pid = 0;
  int lost_signal = 15;
};

struct AcquireRequest {
  store::SettingsSources database;
  Identity identity;
  lease::Key key;
  lease::Sharing sharing{};
  lease::Timing timing;
  lease::WaitPolicy wait;
  lease::Promises promises{};
  std::optional<WhilePid> while_pid{};
  Micros warn_after{0};
};

struct RenewRequest {
  store::SettingsSources database;
  lease::Key key;
  lease::OwnerId owner;
  std::optional<Micros> ttl;
};

struct ReleaseRequest {
  store::SettingsSources database;
  Identity identity{};
  // " --local" or " --db URL" as typed, for the command that --force proposes; empty when not typed or
  // secret.
  std::string typed_store;
  lease::Key key;
  std::optional<lease::OwnerId> owner;  // without --force
  bool force = false;
  std::optional<lease::Token> token;      // --force --token T
  bool now = false;                       // --now
  std::optional<lease::WaitPolicy> wait;  // --wait D: how long to wait until the revoked lease has ended
};

struct InspectRequest {
  store::SettingsSources database;
  std::vector<lease::Key> keys;
  std::optional<std::string> prefix;
  bool all = false;
  bool exit_code = false;
  std::optional<Micros> max_age;
  std::optional<Micros> max_held{};
  std::optional<std::uint32_t> max_failures{};
  bool from_primary = false;      // as lease::Selection::from_primary
  std::optional<Micros> watch{};  // --watch: the interval between two listings
};

struct PauseRequest {
  store::SettingsSources database;
  Identity identity;
  lease::PauseScope scope;
  std::variant<Micros, lease::ServerTime> end;  // --for or --until
  std::optional<lease::WaitPolicy> wait{};      // wait for the end of the holders
};

struct ResumeRequest {
  store::SettingsSources database;
  lease::PauseScope scope;
};

// `inspect` judges, by --exit-code or by --max-age. `timeout`: nullopt waits for ever.
struct WaitRequest {
  InspectRequest inspect;
  std::optional<Micros> timeout;
};

struct ReapRequest {
  store::SettingsSources database;
  bool dry_run = false;
  std::optional<Micros> every;
  Micros forget_after{0};
  Micros forget_history{0};
};

struct HistoryRequest {
  store::SettingsSources database;
  lease::HistoryQuery query;
};

struct MigrateRequest {
  store::SettingsSources database;
  enum class Action { apply, status, dry_run, print_grants } action = Action::apply;
  std::string grants_user;      // print_grants
  bool applications = false;    // print_grants: for an account that only calls the procedures
  std::optional<bool> history;  // apply: switch it on or off; print_grants: true adds the grants for it
};

struct UnreadVariable {
  std::string name;
  std::string meant;  // the nearest name that dblock reads; empty: none is near
};

struct DoctorRequest {
  store::SettingsSources database;
  std::vector<UnreadVariable> unread{};  // variables named like dblock's that nobody reads
  std::optional<Identity> tries{};       // --try: does what jobs do, under this name
};

struct KeysRequest {
  store::SettingsSources database;
  std::string prefix;
};

}  // namespace dblock::app
