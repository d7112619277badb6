// Three mariadbd on loopback that replicate to each other synchronously (Galera), gone with their owner.
#pragma once

#include <string>
#include <vector>

#include "support/nodes.hpp"

namespace dblock::test {

// Why no cluster can be started here; "" when it can.
[[nodiscard]] std::string why_no_cluster();

// The constructor returns with all nodes synced, which takes some seconds: share one (shared_cluster()).
// REQUIRES: why_no_cluster() is empty.
//
// A node that says nothing is thrown out of the cluster after two to four seconds (five to fifteen by
// Galera's defaults); until then no node commits anything.
class Cluster final : public Nodes {
 public:
  explicit Cluster(const std::vector<std::string>& env_of_last = {});

  // Cut off from the others, as a broken network would; it notices after some seconds, and so do they.
  void isolate(int node);
  void heal(int node);
  void start(int node) override;
  void catch_up(const std::string& database) override;
  // Waits until the node knows that it has no majority.
  void await_cut_off(int node);

 private:
  void found();
  void launch_with(int node, const std::vector<std::string>& more);
  void join(int node, const std::vector<std::string>& more, int size);
  [[nodiscard]] std::string position(int node) const;
  [[nodiscard]] std::vector<std::string> words(int node) const;
  [[nodiscard]] State state(int node, int size) const override;
};

// The cluster of this process. Leave it as it was found: three nodes, synced.
[[nodiscard]] Cluster& shared_cluster();

}  // namespace dblock::test
