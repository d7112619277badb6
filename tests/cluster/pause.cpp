// A pause that is made through one node of a Galera cluster, while the others grant.
#include <atomic>
#include <set>
#include <thread>

#include "cluster/runs.hpp"
#include "support/catch.hpp"

namespace dblock::test {
namespace {

// Runs short jobs under old keys and new ones until it is told to stop.
void race(const ClusterDatabase& database, int node, const std::atomic<bool>& over, std::atomic<int>& ran) {
  for (int i = 0; !over; ++i) {
    const std::string own = std::to_string(node) + "-" + std::to_string(i);
    const Words options = i % 3 == 0 ? Words{"--shared"} : i % 3 == 1 ? Words{"-k", "p-b" + own} : Words{};
    const std::string key = i % 2 == 0 ? "p-" + own : "p-old-" + std::to_string(node);
    if (database.ask({node}, run_words(key, options, {"true"})).exit == exited(0)) ++ran;
  }
}

TEST_CASE("a pause through one node keeps the grants of the others away", "[contention]") {
  DBLOCK_NEEDS(why_no_cluster());
  ClusterDatabase database(shared_cluster());
  std::atomic<bool> over = false;
  std::atomic<int> ran = 0;
  std::vector<std::thread> racers;
  for (const int node : {1, 2, 3, 2, 3}) racers.emplace_back([&, node] { race(database, node, over, ran); });
  const std::string owner = database.rows.owner_url();
  std::vector<std::string> late;
  for (int round = 0; round < 15; ++round) {
    const auto paused = dblock_at(owner, {"pause", "--prefix", "p-", "--for", "1h"});
    if (paused.exit != exited(0)) late.push_back(paused.err);
    std::set<std::string> holders;
    for (int look = 0; look < 4; ++look) {
      for (const auto& row :
           database.rows.sql("SELECT lock_value FROM dblock_lock WHERE lock_value IS NOT NULL")) {
        if (look == 0) holders.insert(row.front());
        if (!holders.contains(row.front())) late.push_back(row.front());
      }
      pause_for(50ms);
    }
    if (const auto resumed = dblock_at(owner, {"resume", "--prefix", "p-"}); resumed.exit != exited(0))
      late.push_back(resumed.err);
    pause_for(100ms);
  }
  over = true;
  for (auto& racer : racers) racer.join();
  CHECK(late == Words{});
  CHECK(ran > 15);
}

}  // namespace
}  // namespace dblock::test
