// A Galera cluster, or a MySQL replication group, that falls apart: what has no majority grants nothing, and
// nothing overlaps.
#include <algorithm>
#include <random>

#include "cluster/runs.hpp"
#include "support/catch.hpp"
#include "support/group.hpp"
#include "support/overlap.hpp"
#include "support/privilege.hpp"

namespace dblock::test {
namespace {

// `says_why`: what a run is told that asks a node without a majority.
void check_minority(Nodes& nodes, const Words& lease, const std::string& says_why) {
  const ClusterDatabase database(nodes);
  const TempDir directory;
  const std::string log = directory.file("log");
  Process holder(database.at({3}, run_words("k", lease, interval_job(log, 600000))));
  REQUIRE(wait_until([&] { return !read_intervals(log).empty(); }));
  nodes.isolate(3);
  nodes.await_cut_off(3);
  const long long kept_until = database.rows.expires_micros("k") + 500'000;
  Process successor(database.at({1, 2}, run_words("k", {"--wait", "60s"}, interval_job(log, 10))));

  const auto refused = database.ask({3}, run_words("new", {}, {"touch", directory.file("never")}));
  INFO(refused.err);
  CHECK(refused.exit == exited(69));
  CHECK(says(refused.err, says_why));
  CHECK_FALSE(database.rows.has_row("new"));
  CHECK(read_file(directory.file("never")).empty());
  // Those who are told of the other nodes go there.
  CHECK(database.tries({3, 1}) == once(75));
  CHECK(database.ask({3, 1}, run_words("new", {}, {"true"})).exit == exited(0));

  CHECK(holder.wait(30s) == exited(76));
  CHECK(successor.wait(30s) == exited(0));
  CHECK(database.rows.micros("k", "last_acquired_at") >= kept_until);
  CHECK(exclusion_violation_despite_kills(read_intervals(log)) == "");

  nodes.heal(3);
  nodes.await_rejoined(3);
  CHECK(database.tries({3}) == once(0));
}

TEST_CASE("a minority grants nothing and its holder is stopped before the majority takes over",
          "[partition]") {
  DBLOCK_NEEDS(why_no_cluster());
  check_minority(shared_cluster(), {"--ttl", "8s", "--kill-grace", "500ms", "--margin", "500ms"},
                 "cut off from the majority");
}

void check_crowd(Nodes& nodes) {
  const auto seed = chosen_seed();
  INFO("seed " << seed);
  std::minstd_rand random(seed);
  const ClusterDatabase database(nodes);
  const TempDir directory;
  const std::string log = directory.file("log");
  std::vector<Process> runs;
  const Words options{"--wait", "100s", "--ttl", "18s", "--kill-grace", "1s"};
  const auto gather = [&] {
    auto running = std::ranges::count_if(runs, [](auto& run) { return run.running(); });
    for (; running < 9; ++running) {
      const int first = 1 + static_cast<int>(runs.size()) % 3;
      const std::vector<int> hosts{first, first % 3 + 1, (first + 1) % 3 + 1};
      runs.emplace_back(database.at(hosts, run_words("k", options, interval_job(log, 100))));
    }
  };
  const auto goes_on = [&] {
    const auto begun = [&] { return read_intervals(log).size(); };
    return wait_until([&, from = begun()] { return gather(), begun() > from + 2; }, 60s);
  };
  REQUIRE(goes_on());
  const int victim = 2 + static_cast<int>(random() % 2);
  nodes.kill(victim);
  CHECK(goes_on());
  nodes.start(victim);
  CHECK(goes_on());
  nodes.freeze(victim);
  CHECK(goes_on());
  pause_for(milliseconds(random() % 1000));
  nodes.thaw(victim);
  nodes.await_rejoined(victim);
  CHECK(goes_on());
  nodes.isolate(victim);
  CHECK(goes_on());
  nodes.heal(victim);
  nodes.await_rejoined(victim);
  CHECK(goes_on());
  std::size_t succeeded = 0;
  for (auto& run : runs) {
    const Exit exit = run.wait(120s);
    INFO(run.err());
    CHECK((exit == exited(0) || exit == exited(76)));
    succeeded += exit == exited(0) ? 1 : 0;
  }
  CHECK(succeeded + 5 >= runs.size());
  CHECK(exclusion_violation_despite_kills(read_intervals(log)) == "");
}

TEST_CASE("a crowd never overlaps while nodes are killed, frozen and cut off", "[partition]") {
  DBLOCK_NEEDS(why_no_cluster());
  check_crowd(shared_cluster());
}

// A member without a majority stays in the group, and what it has not committed waits.
TEST_CASE("a minority of a replication group grants nothing, and a crowd on all members never overlaps",
          "[group_partition]") {
  DBLOCK_NEEDS(why_no_group());
  Group& group = shared_group(Group::Mode::multi_primary);
  check_minority(group, {"--ttl", "15s", "--kill-grace", "500ms", "--margin", "500ms"},
                 "is not an ONLINE member of its replication group");
  check_crowd(group);
}

}  // namespace
}  // namespace dblock::test
