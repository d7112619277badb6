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
    const auto kind = [this](const char* what, Act act, Act end) {
      return Kind{what, [this, what, act, end](Random&, int group, milliseconds length) {
                    return befall(what, group, length, act, end);
                  }};
    };
    add({kind("kill node", &Nodes::kill, &Nodes::start), kind("freeze node", &Nodes::freeze, &Nodes::thaw),
         kind("isolate node", &Nodes::isolate, &Nodes::heal)});
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
  using Act = void (Nodes::*)(int node);

  // The group's node rejoins while the campaign goes on; until then no other is in trouble.
  std::optional<Trouble> befall(const char* what, int group, milliseconds length, Act act, Act end) {
    if (!busy_.insert(k_server).second) return std::nullopt;
    const int node = group + 1;
    (*nodes.*act)(node);
    return Trouble{what, length, [this, group, node, from = now(), end] {
                     dark(from, group);
                     rejoining_ = worker_.start([this, node, end] {
                       (*nodes.*end)(node);
                       nodes->await_rejoined(node);
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
