// Makes the request of a use case out of option values, one function for each subcommand. All fail with
// Errc::usage, or Errc::config if a configuration file holds the bad value.
#pragma once

#include <string>
#include <vector>

#include "app/requests.hpp"
#include "base/error.hpp"
#include "cli/options/values.hpp"

namespace dblock::cli {

// The values of --key, in the order given; may be empty.
[[nodiscard]] Result<std::vector<lease::Key>> named_keys(const Values& options,
                                                         std::string_view option = "key");
// The value of --key; an error if --key is missing or repeated.
[[nodiscard]] Result<lease::Key> only_key(const Values& options, std::string_view command);
// The note to store, and the name to show in the place of user and host.
[[nodiscard]] app::Identity identity(const Values& options);
// How long to wait: --wait or --nonblock (where the subcommand has it), whichever has the higher rank.
[[nodiscard]] Result<lease::WaitPolicy> wait_policy(const Values& options);
// The location of the store, as named by the command line, the environment and configuration files.
[[nodiscard]] Result<store::SettingsSources> database_sources(const Values& options);

// When the job is started: after --splay, and again by --retry.
[[nodiscard]] Result<void> take_starts(const Values& options, app::RunRequest& request);
// The promise of --once-per is kept for one key, and by a lock that keeps a second job from starting before
// the first has succeeded: readers and slots do not. It is never dropped, wherever the options come from.
[[nodiscard]] Result<void> check_once_per(const Values& options, const app::RunRequest& request);

[[nodiscard]] Result<app::RunRequest> run_request(const Values& options);
[[nodiscard]] Result<app::AcquireRequest> acquire_request(const Values& options);
[[nodiscard]] Result<app::RenewRequest> renew_request(const Values& options);
[[nodiscard]] Result<app::ReleaseRequest> release_request(const Values& options);
[[nodiscard]] Result<app::PauseRequest> pause_request(const Values& options);
[[nodiscard]] Result<app::ResumeRequest> resume_request(const Values& options);
[[nodiscard]] Result<app::InspectRequest> inspect_request(const Values& options);
[[nodiscard]] Result<app::HistoryRequest> history_request(const Values& options);
[[nodiscard]] Result<app::WaitRequest> wait_request(const Values& options);
[[nodiscard]] Result<app::ReapRequest> reap_request(const Values& options);
[[nodiscard]] Result<app::MigrateRequest> migrate_request(const Values& options);
[[nodiscard]] Result<app::DoctorRequest> doctor_request(const Values& options);
[[nodiscard]] Result<app::KeysRequest> keys_request(const Values& options);

}  // namespace dblock::cli
