// Three servers on loopback that replicate to each other, gone with their owner: what Galera (cluster.hpp)
// and MySQL's Group Replication (group.hpp) have in common.
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

// Nodes are numbered from 1.
class Nodes {
 public:
  static constexpr int k_size = 3;

  virtual ~Nodes() = default;
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  [[nodiscard]] const ServerAddress& address(int node) const { return at(node).address; }
  // "mysql://app@HOST:PORT,HOST:PORT/…" in the order given.
  [[nodiscard]] std::string url(const std::string& database, const std::vector<int>& nodes) const;
  // A session as root, that shows what this node knows by now.
  [[nodiscard]] Connection sql(int node) const { return Connection(address(node)); }

  void kill(int node);  // SIGKILL
  void freeze(int node) { at(node).process->freeze(); }
  void thaw(int node) { at(node).process->signal(SIGCONT); }
  virtual void start(int node) = 0;  // again, after kill(); it has rejoined on return
  // Cut off from the others, as a broken network would, while clients reach it. It notices after some
  // seconds, and so do they.
  virtual void isolate(int node) = 0;
  // Waits until the node knows that it has no majority.
  virtual void await_cut_off(int node) = 0;
  virtual void heal(int node) = 0;  // no longer cut off; see await_rejoined()
  // Waits until the node says that all of a group of this size are up to date; throws when that does not
  // happen. A node that was frozen says so before it knows better: see await_rejoined().
  void await_synced(int node, int size = k_size);
  // After thaw().
  virtual void await_rejoined(int node);
  // Waits until every node has the tables of a database that one of them has made.
  virtual void catch_up(const std::string& database) = 0;

 protected:
  struct Node {
    ServerAddress address;
    int group_port = 0;
    std::string directory;
    std::vector<std::string> env;
    std::unique_ptr<Process> process;
  };
  static constexpr milliseconds k_patience = 120s;

  // `user`: the servers run as this one. Each node has this many ports in a row: for clients, for the group…
  Nodes(std::optional<uid_t> user, int ports_a_node);

  Node& at(int node) { return nodes_.at(static_cast<std::size_t>(node - 1)); }
  [[nodiscard]] const Node& at(int node) const { return nodes_.at(static_cast<std::size_t>(node - 1)); }
  [[nodiscard]] const std::optional<uid_t>& user() const { return user_; }
  void copy_data(const std::string& from, int node);
  // The server's program, the node's own places, and then server_options().
  [[nodiscard]] std::vector<std::string> basic_words(int node) const;
  void launch(int node, const std::vector<std::string>& words);
  [[nodiscard]] std::string log_of(int node) const;
  // Waits until a session of the node with this setting, which makes it wait for the others, reads the
  // tables. On a busy machine a node falls out of its group for a moment.
  void await_tables(int node, const std::string& database, const std::string& setting);
  // What the node says of its group, and whether that is to be awaited in a group of this size.
  struct State {
    std::string said;
    bool synced = false;
  };
  [[nodiscard]] virtual State state(int node, int size) const = 0;
  // HOST:PORT of every node for its group.
  [[nodiscard]] std::string group_addresses() const;

 private:
  std::optional<uid_t> user_;
  TempDir directory_;
  std::array<Node, k_size> nodes_;
};

[[nodiscard]] std::string on_loopback(int port);
// The first of some free ports in a row, below those that the kernel hands out: a node that is down for a
// while must find its own again.
[[nodiscard]] int free_ports(int count);

}  // namespace dblock::test
