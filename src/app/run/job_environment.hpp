// The environment variables that tell a job of its locks, and what a nested run learns from these.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/requests.hpp"
#include "lease/lease.hpp"

namespace dblock::app {

// The value of DBLOCK_KEY: the keys, one a line, sorted.
[[nodiscard]] std::string key_lines(const lease::Key& key, const std::vector<lease::Key>& further_keys);

// All variables for the job, as NAME=VALUE. `held`: DBLOCK_HELD as dblock inherited it. `store`: the store's
// name.
[[nodiscard]] std::vector<std::string> job_environment(const lease::Lease& lease, const std::string& held,
                                                       const std::string& store);

// The variables about the lock alone: for the job, and for the hooks.
[[nodiscard]] std::vector<std::string> lock_environment(const lease::Lease& lease);

// The owner id of an outer run that, by DBLOCK_HELD, holds all the request's keys in this store; nullopt if
// there is none, or the request does not want to share an outer run's locks.
[[nodiscard]] std::optional<lease::OwnerId> outer_of(const RunRequest& request, const std::string& store);

}  // namespace dblock::app
