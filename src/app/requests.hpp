// What the user asks of each subcommand: plain values, which `cli` has checked, free of the command line's
// syntax.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "lease/acquire.hpp"
#include "lease/timing.hpp"
#include "lease/types.hpp"
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
  std::string lost;      // the lease is lost
  std::string conflict;  // the run is given up, since the lock is held
};

struct RunRequest {
  store::SettingsSources database;
  Identity identity;
  lease::Key key;
  std::vector<lease::Key> also{};  // further keys, sorted, after `key`
  lease::Sharing sharing{};
  std::string held{};     // DBLOCK_HELD as inherited
  bool reentrant = true;  // share the locks that an outer run holds
  lease::Timing timing;
  lease::WaitPolicy wait;
  lease::Promises promises{};
  int conflict_exit_code = 75;
  int first_signal = 15;
  std::optional<Micros> max_runtime;
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
  std::optional<Micros> watch{};  // --watch: the interval between two listings
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
  std::optional<bool> history;  // apply: switch it on or off; print_grants: true adds the grants for it
};

struct DoctorRequest {
  store::SettingsSources database;
};

struct KeysRequest {
  store::SettingsSources database;
  std::string prefix;
};

}  // namespace dblock::app
