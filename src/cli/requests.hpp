// One function a subcommand: typed option values become the request its use case takes.
#pragma once

#include <string>
#include <vector>

#include "app/requests.hpp"
#include "base/error.hpp"
#include "cli/values.hpp"

namespace dblock::cli {

struct RequestSource {
  const Values& options;
  const Surroundings& surroundings;
  const ParsedWords& parsed;
};

// The keys that were named, in their order.
[[nodiscard]] Result<std::vector<lease::Key>> named_keys(const Values& options);

// Where the store is, by command line, environment and configuration files.
[[nodiscard]] Result<store::SettingsSources> database_sources(const RequestSource& from);

[[nodiscard]] Result<app::RunRequest> run_request(const RequestSource& from);
[[nodiscard]] Result<app::AcquireRequest> acquire_request(const RequestSource& from);
[[nodiscard]] Result<app::RenewRequest> renew_request(const RequestSource& from);
[[nodiscard]] Result<app::ReleaseRequest> release_request(const RequestSource& from);
[[nodiscard]] Result<app::InspectRequest> inspect_request(const RequestSource& from);
[[nodiscard]] Result<app::HistoryRequest> history_request(const RequestSource& from);
[[nodiscard]] Result<app::ReapRequest> reap_request(const RequestSource& from);
[[nodiscard]] Result<app::MigrateRequest> migrate_request(const RequestSource& from);
[[nodiscard]] Result<app::DoctorRequest> doctor_request(const RequestSource& from);
[[nodiscard]] Result<app::KeysRequest> keys_request(const RequestSource& from);

}  // namespace dblock::cli
