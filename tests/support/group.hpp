// Three MySQL servers on loopback in a replication group, gone with their owner.
#pragma once

#include <string>
#include <vector>

#include "support/nodes.hpp"

namespace dblock::test {

// Why no group can be started here; "" when it can.
[[nodiscard]] std::string why_no_group();

// The constructor returns with all nodes online, which takes about ten seconds. REQUIRES: why_no_group() is
// empty.
//
// A node that says nothing is suspected after five seconds, which no option changes, and thrown out of the
// group at once; until then no node commits anything. One that has been without a majority for five seconds
// leaves the group, which `options` may change.
class Group final : public Nodes {
 public:
  // Which nodes take writes.
  enum class Mode { single_primary, multi_primary };
  explicit Group(Mode mode, const std::vector<std::string>& options = {});

  void start(int node) override;
  // Again, after kill(), and outside the group: it takes writes, which no other node sees.
  void start_alone(int node);
  void catch_up(const std::string& database) override;

  void isolate(int node) override { set_network(node, '-'); }
  // The others get what it sends; it gets nothing, not even their answers.
  void deafen(int node) { set_network(node, '<'); }
  void await_cut_off(int node) override;
  // Waits until the node has left the group because it has had no majority for too long.
  void await_left(int node);
  // Waits until the node's server has ended because the node has left
  // (group_replication_exit_state_action=ABORT_SERVER); start() starts it again.
  void await_ended(int node);
  void heal(int node) override { set_network(node, '+'); }
  // A node that was thrown out, or has left, does not join again by itself: that would be in five minutes.
  void await_rejoined(int node) override;

  // The node that takes writes by what two nodes say, or 0; frozen ones are not asked. In multi-primary mode
  // any.
  [[nodiscard]] int primary();
  // Waits until there is one, which is another than `old`.
  [[nodiscard]] int await_primary(int old = 0);

 private:
  void set_network(int node, char letter);
  void join_if_out(int node) const;
  void speak_up(int node) const;
  // "ONLINE", "ERROR"…, by what the node says of itself.
  [[nodiscard]] std::string own_state(int node) const;
  [[nodiscard]] std::string at_work(int node) const;
  void await_answer(int node);
  void await_thrown_out(int node);
  [[nodiscard]] std::vector<std::string> words(int node) const;
  // "PORT STATE ROLE" of every member by what `node` says, sorted.
  [[nodiscard]] std::vector<std::string> members(int node) const;
  [[nodiscard]] State state(int node, int size) const override;

  Mode mode_;
  std::vector<std::string> options_;
  TempDir network_directory_;
  std::string network_ = network_directory_.file("network");  // see broken_network.cpp
};

// The groups of this process, one in each mode. Leave them as they were found: three nodes, online. With one
// primary, a node without a majority leaves its group after five seconds; where all nodes take writes, never.
[[nodiscard]] Group& shared_group(Group::Mode mode);

}  // namespace dblock::test
