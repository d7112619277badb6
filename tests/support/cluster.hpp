// Three mariadbd on loopback that replicate to each other synchronously (Galera), gone with their owner.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/connection.hpp"
#include "support/process.hpp"
#include "support/server.hpp"

namespace dblock::test {

// Why no cluster can be started here; "" when it can.
[[nodiscard]] std::string why_no_cluster();

// Nodes are numbered from 1. The constructor returns with all of them synced, which takes some seconds: share
// one (shared_cluster()). REQUIRES: why_no_cluster() is empty.
//
// A node that says nothing is thrown out of the cluster after two to four seconds (five to fifteen by
// Galera's defaults); until then no node commits anything.
class Cluster {
 public:
  static constexpr int k_size = 3;

  explicit Cluster(const std::vector<std::string>& env_of_last = {});
  ~Cluster() = default;
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  [[nodiscard]] const ServerAddress& address(int node) const { return at(node).address; }
  // "mysql://app@HOST:PORT,HOST:PORT/…" in the order given.
  [[nodiscard]] std::string url(const std::string& database, const std::vector<int>& nodes) const;
  // A session as root, that shows what this node knows by now.
  [[nodiscard]] Connection sql(int node) const { return Connection(address(node)); }

  void kill(int node);  // SIGKILL
  void freeze(int node) { at(node).process->freeze(); }
  void thaw(int node) { at(node).process->signal(SIGCONT); }
  // Cut off from the others, as a broken network would; it notices after some seconds, and so do they.
  void isolate(int node);
  void heal(int node);
  void start(int node);  // again, after kill(); it has rejoined on return

  // Waits until every node has the tables of a database that one of them has made.
  void catch_up(const std::string& database);
  // Waits until the node is in a cluster of this size and up to date; throws when that does not happen.
  void await_synced(int node, int size = k_size);
  // … until it knows that it has no majority.
  void await_cut_off(int node);

 private:
  struct Node {
    ServerAddress address;
    int group_port = 0;
    std::string directory;
    std::vector<std::string> env;
    std::unique_ptr<Process> process;
  };

  Node& at(int node) { return nodes_.at(static_cast<std::size_t>(node - 1)); }
  [[nodiscard]] const Node& at(int node) const { return nodes_.at(static_cast<std::size_t>(node - 1)); }
  void name(int node, int first_port);
  void copy_data(const std::string& from, int node);
  void found();
  void launch(int node, const std::vector<std::string>& more);
  void join(int node, const std::vector<std::string>& more, int size);
  [[nodiscard]] std::string position(int node) const;
  [[nodiscard]] std::vector<std::string> words(int node) const;
  [[nodiscard]] std::string log_of(int node) const;

  std::optional<uid_t> user_;  // rsync, which a state transfer uses, gives up root's rights
  TempDir directory_;
  std::array<Node, k_size> nodes_;
};

// The cluster of this process. Leave it as it was found: three nodes, synced.
[[nodiscard]] Cluster& shared_cluster();

}  // namespace dblock::test
