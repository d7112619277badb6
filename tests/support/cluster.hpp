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

  void isolate(int node) override;
  void heal(int node) override;
  void await_cut_off(int node) override;
  void start(int node) override;
  void catch_up(const std::string& database) override;

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
