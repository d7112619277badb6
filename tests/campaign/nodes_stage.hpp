// A stage of three servers that replicate to each other.
#pragma once

#include <memory>

#include "campaign/stage.hpp"

namespace dblock::campaign {

// The store of `options` is galera, multi_primary (a replication group whose nodes all take writes: each
// group of clients has a node of its own), or group (one takes writes, and all clients look for it). Throws
// where none can be started here.
[[nodiscard]] std::unique_ptr<Stage> make_nodes_stage(const Options& options, const History& history);

}  // namespace dblock::campaign
