// Nodes of a Galera cluster that are killed or frozen while a run holds a lock there. What must never happen
// is strict; a node that is back may take its time.

#include "cluster/runs.hpp"
#include "support/catch.hpp"
#include "support/live_run.hpp"
#include "support/privilege.hpp"

namespace dblock::test {
namespace {

// Time for the others to throw a silent node out, and then some.
const Words k_lease{"--ttl", "18s", "--kill-grace", "1s"};

TEST_CASE("a run survives the death of its node, and nobody else gets the lock", "[outage]") {
  DBLOCK_NEEDS(why_no_cluster());
  Cluster& cluster = shared_cluster();
  const ClusterDatabase database(cluster, 2);
  LiveRun holder(database.url({1, 2, 3}), k_lease);
  cluster.kill(1);
  for (const Exit exit : database.tries({3, 2}, 8s)) CHECK(exit == exited(75));
  INFO(holder.err());
  CHECK(holder.end(5, 30s) == exited(5));
  CHECK_FALSE(database.rows.has_holder("k"));
  // The others are tried where the first of a URL is gone.
  CHECK(database.tries({1, 2, 3}) == once(0));
  cluster.start(1);
  CHECK(database.tries({1}) == once(0));
}

TEST_CASE("a run survives its node being frozen, and the node is not believed when it is back", "[outage]") {
  DBLOCK_NEEDS(why_no_cluster());
  Cluster& cluster = shared_cluster();
  const ClusterDatabase database(cluster, 2);
  REQUIRE(database.tries({1}) == once(0));
  cluster.freeze(1);
  cluster.await_synced(2, 2);
  LiveRun holder(database.url({1, 2, 3}), k_lease);  // what the frozen node does not know
  cluster.thaw(1);
  // Until it has caught up it may say that it does not know, but never that the lock is free.
  std::vector<Exit> said;
  CHECK(wait_until(
      [&] {
        said.push_back(database.ask({1}, {"inspect", "--key", "k", "--exit-code"}).exit);
        return said.back() == exited(75);
      },
      60s));
  said.pop_back();
  for (const Exit exit : said) CHECK(exit == exited(69));
  cluster.await_synced(1);
  CHECK(database.tries({1}) == once(75));
  cluster.freeze(2);  // the holder's own node this time
  for (const Exit exit : database.tries({3}, 8s)) CHECK(exit == exited(75));
  cluster.thaw(2);
  INFO(holder.err());
  CHECK(holder.end(5, 30s) == exited(5));
  cluster.await_synced(2);
}

}  // namespace
}  // namespace dblock::test
