// One function a subcommand: typed option values become the request its use case takes.
#pragma once

#include <string>
#include <vector>

#include "app/requests.hpp"
#include "base/error.hpp"
#include "cli/values.hpp"

namespace dblock::cli {

// The keys that were named, in their order; and the one, which must have been.
[[nodiscard]] Result<std::vector<lease::Key>> named_keys(const Values& options);
[[nodiscard]] Result<lease::Key> only_key(const Values& options, std::string_view command);
// --wait and, where the subcommand has it, --nonblock; the one of higher rank wins.
[[nodiscard]] Result<lease::WaitPolicy> wait_policy(const Values& options);
// Where the store is, by command line, environment and configuration files.
[[nodiscard]] Result<store::SettingsSources> database_sources(const Values& options);

[[nodiscard]] Result<app::RunRequest> run_request(const Values& options);
[[nodiscard]] Result<app::AcquireRequest> acquire_request(const Values& options);
[[nodiscard]] Result<app::RenewRequest> renew_request(const Values& options);
[[nodiscard]] Result<app::ReleaseRequest> release_request(const Values& options);
[[nodiscard]] Result<app::InspectRequest> inspect_request(const Values& options);
[[nodiscard]] Result<app::HistoryRequest> history_request(const Values& options);
[[nodiscard]] Result<app::ReapRequest> reap_request(const Values& options);
[[nodiscard]] Result<app::MigrateRequest> migrate_request(const Values& options);
[[nodiscard]] Result<app::DoctorRequest> doctor_request(const Values& options);
[[nodiscard]] Result<app::KeysRequest> keys_request(const Values& options);

}  // namespace dblock::cli
