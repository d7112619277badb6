// dblock against nodes of a cluster, or of a replication group.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "support/cluster.hpp"
#include "support/dblock.hpp"

namespace dblock::test {

// A fresh database that every node knows.
struct ClusterDatabase {
  // Looked at by way of `node`.
  explicit ClusterDatabase(Nodes& its_cluster, int node = 1)
      : cluster(its_cluster), rows(cluster.address(node)) {
    cluster.catch_up(rows.name());
  }
  [[nodiscard]] std::string url(const std::vector<int>& nodes) const {
    return cluster.url(rows.name(), nodes);
  }
  // `dblock WORDS…` with these hosts in its URL, in this order.
  [[nodiscard]] Spawn at(const std::vector<int>& nodes, const Words& words) const {
    return dblock_spawn_at(url(nodes), words);
  }
  [[nodiscard]] Finished ask(const std::vector<int>& nodes, const Words& words) const {
    return run_program(at(nodes, words), 40s);
  }
  // Tries "k" without waiting, again and again for `time` and at least once: what it was told each time.
  [[nodiscard]] std::vector<Exit> tries(const std::vector<int>& nodes, milliseconds time = 0ms) const {
    std::vector<Exit> exits;
    const auto end = std::chrono::steady_clock::now() + time;
    do exits.push_back(ask(nodes, run_words("k", {}, {"true"})).exit);
    while (std::chrono::steady_clock::now() < end);
    return exits;
  }

  Nodes& cluster;
  ServerDatabase rows;
};

[[nodiscard]] inline std::vector<Exit> once(int code) {
  return {exited(code)};
}

}  // namespace dblock::test
