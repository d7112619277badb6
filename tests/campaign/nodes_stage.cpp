#include "campaign/nodes_stage.hpp"

#include <functional>
#include <future>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "campaign/proxied_stage.hpp"
#include "support/cluster.hpp"
#include "support/group.hpp"

namespace dblock::campaign {
namespace {

using test::Nodes;

std::unique_ptr<Nodes> nodes_of(const std::string& store) {
  const bool galera = store == "galera";
  if (const auto why = galera ? test::why_no_cluster() : test::why_no_group(); !why.empty())
    throw std::runtime_error("--store " + store + ": " + why);
  if (galera) return std::make_unique<test::Cluster>();
  return std::make_unique<test::Group>(store == "group" ? test::Group::Mode::single_primary
                                                        : test::Group::Mode::multi_primary);
}

// A node that was killed answers by what it had, until it is a member of its group again.
std::vector<std::string> newest_of(const std::string& store) {
  if (store == "galera") return {"SET SESSION wsrep_sync_wait=15"};
  return {"DO group_replication_get_communication_protocol()",
          "SET SESSION group_replication_consistency='BEFORE'"};
}

// Before the database on them.
struct ThreeNodes {
  explicit ThreeNodes(const std::string& store) : nodes(nodes_of(store)) {}
  [[nodiscard]] std::vector<test::ServerAddress> addresses() const {
    return {nodes->address(1), nodes->address(2), nodes->address(3)};
  }
  const std::unique_ptr<Nodes> nodes;
};

// Does one thing after the other, on one thread: a server ends with the thread that has started it.
class Worker {
 public:
  Worker() : thread_([this] { work(); }) {}
  ~Worker() { begin_.release(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // REQUIRES: what it was given before is done.
  std::future<void> start(std::function<void()> what) {
    task_ = std::packaged_task<void()>(std::move(what));
    auto done = task_.get_future();
    begin_.release();
    return done;
  }

 private:
  void work() {
    for (;;) {
      begin_.acquire();
      if (!task_.valid()) return;
      std::exchange(task_, {})();
    }
  }
  std::binary_semaphore begin_{0};
  std::packaged_task<void()> task_;
  std::jthread thread_;
};

// One node at a time is in trouble. Meanwhile it does no renewal, whether it is dead, frozen or alone.
class NodesStage final : private ThreeNodes, public ProxiedStage {
 public:
  NodesStage(const Options& options, const History& history)
      : ThreeNodes(options.store),
        ProxiedStage(options, history, addresses(), options.store == "group", newest_of(options.store)) {
    nodes->catch_up(database());
    const auto node = [](int group) { return group + 1; };
    const auto in_trouble = [this, node](const char* what, void (Nodes::*act)(int), void (Nodes::*end)(int)) {
      return Kind{what, [this, node, what, act, end](Random&, int group, milliseconds length) {
                    return befall(
                        what, group, length, [this, node, group, act] { (*nodes.*act)(node(group)); },
                        [this, node, group, end] { (*nodes.*end)(node(group)); });
                  }};
    };
    add({in_trouble("kill node", &Nodes::kill, &Nodes::start),
         in_trouble("freeze node", &Nodes::freeze, &Nodes::thaw),
         in_trouble("isolate node", &Nodes::isolate, &Nodes::heal)});
  }

  [[nodiscard]] std::optional<Trouble> trouble(Random& random) override {
    if (rejoining_.valid() && rejoining_.wait_for(milliseconds(0)) == std::future_status::ready) {
      rejoining_.get();
      busy_.erase(k_server);
    }
    return ProxiedStage::trouble(random);
  }
  void heal() override {
    if (rejoining_.valid()) rejoining_.get();
  }

 private:
  // The node rejoins while the campaign goes on; until then no other is in trouble.
  std::optional<Trouble> befall(const char* what, int group, milliseconds length,
                                const std::function<void()>& act, std::function<void()> end) {
    if (!busy_.insert(k_server).second) return std::nullopt;
    act();
    return Trouble{what, length, [this, group, from = now(), end = std::move(end)] {
                     dark(from, group);
                     rejoining_ = worker_.start([this, group, end] {
                       end();
                       nodes->await_rejoined(group + 1);
                     });
                   }};
  }

  std::future<void> rejoining_;
  Worker worker_;
};

}  // namespace

std::unique_ptr<Stage> make_nodes_stage(const Options& options, const History& history) {
  return std::make_unique<NodesStage>(options, history);
}

}  // namespace dblock::campaign
