// What a job is told of its locks, and what a run inside another learns from that.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/requests.hpp"
#include "lease/types.hpp"

namespace dblock::app {

// The keys, one a line, sorted: DBLOCK_KEY.
[[nodiscard]] std::string key_lines(const lease::Key& key, const std::vector<lease::Key>& also);

// NAME=VALUE of everything the job is told. `held`: DBLOCK_HELD as dblock inherited it. `store`: the store's
// name.
[[nodiscard]] std::vector<std::string> job_environment(const lease::Lease& lease, const std::string& held,
                                                       const std::string& store);

// What is told of the lock alone: to the job, and to a hook once it is lost.
[[nodiscard]] std::vector<std::string> lock_environment(const lease::Lease& lease);

// The acquisition of an ancestor that says it holds all the request's keys in this store, if there is one.
[[nodiscard]] std::optional<lease::OwnerId> outer_of(const RunRequest& request, const std::string& store);

}  // namespace dblock::app
