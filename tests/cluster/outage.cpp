// Nodes of a Galera cluster that are killed or frozen while a run holds a lock there. What must never happen
// is strict; a node that is back may take its time. Then members of a MySQL replication group that leave it.

#include "cluster/runs.hpp"
#include "support/catch.hpp"
#include "support/group.hpp"
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

const Words k_group_lease{"--ttl", "30s", "--kill-grace", "1s"};

TEST_CASE("a member that is restarted outside its replication group grants and renews nothing", "[group]") {
  DBLOCK_NEEDS(why_no_group());
  Group group(Group::Mode::multi_primary);
  const ClusterDatabase database(group, 2);
  CHECK(says(database.ask({1}, {"doctor"}).out, "ONLINE, multi-primary, "));
  LiveRun holder(database.url({1}), k_group_lease);
  group.kill(1);
  group.start_alone(1);
  auto left = group.sql(1);
  REQUIRE(left.value("SELECT @@global.read_only") == "0");

  const TempDir directory;
  const Words job{"sh", "-c", "echo ran >" + directory.file("never")};
  const auto refused = database.ask({1}, run_words("new", {}, job));
  INFO(refused.err);
  CHECK(refused.exit == exited(69));
  CHECK(says(refused.err, "is not an ONLINE member of its replication group"));
  CHECK(database.ask({1}, run_words("new", {"--shared"}, job)).exit == exited(69));
  CHECK(read_file(directory.file("never")).empty());
  CHECK(database.tries({1, 2, 3}) == once(75));
  CHECK(database.ask({1, 2, 3}, run_words("new", {}, {"true"})).exit == exited(0));

  const auto doctored = database.ask({1}, {"doctor"});
  CHECK(doctored.exit == exited(78));
  CHECK(says(doctored.out, "bad   replication-group"));
  CHECK(says(database.ask({1, 2, 3}, {"doctor"}).out, "not ONLINE, takes writes"));
  left.sql("USE " + database.rows.name());
  for (const std::string call :
       {"dblock_acquire('new','owner',10000,NULL,NULL,NULL)", "dblock_renew('k','owner',NULL)"}) {
    CHECK_THROWS_WITH(left.sql_in_session("CALL " + call), Catch::Contains("not an ONLINE member"));
  }
  CHECK(holder.wait(45s) == exited(76));
}

// No restart: the sessions stay open.
TEST_CASE("a renewal fails on a member that has left its replication group since the session began",
          "[group]") {
  DBLOCK_NEEDS(why_no_group());
  Group group(Group::Mode::multi_primary);
  const ClusterDatabase database(group);
  LiveRun holder(database.url({3}), k_group_lease, patient_job, "k");
  LiveRun mobile(database.url({3, 1, 2}), k_group_lease, patient_job, "mobile");
  auto left = group.sql(3);
  left.sql("STOP GROUP_REPLICATION");
  left.sql("SET GLOBAL super_read_only=OFF");
  left.sql("SET GLOBAL read_only=OFF");
  const long long expires = database.rows.expires_micros("mobile");
  CHECK(wait_until([&] { return database.rows.expires_micros("mobile") > expires; }, 30s));
  CHECK(holder.wait(45s) == exited(76));
  CHECK(says(holder.err(), "is not an ONLINE member of its replication group"));
  CHECK(mobile.end(5) == exited(5));
}

}  // namespace
}  // namespace dblock::test
