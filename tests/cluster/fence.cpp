// dblock_assert_held() where nodes replicate to each other: a job's transaction on one, the takeover through
// another.
#include <catch2/catch.hpp>

#include "cluster/runs.hpp"
#include "support/privilege.hpp"

namespace dblock::test {
namespace {

// A job's session on a node: a lease that nobody renews unasked, and a transaction that has asserted it.
class FencedJob {
 public:
  FencedJob(const ClusterDatabase& database, int node, const std::string& ttl = "2s")
      : session_(database.cluster.sql(node)) {
    const auto taken = database.ask({node}, {"acquire", "--key", "k", "--ttl", ttl, "--margin", "0"});
    REQUIRE(taken.exit == exited(0));
    owner_ = lines(taken.out).at(0);
    session_.sql("USE " + database.rows.name());
    session_.sql("START TRANSACTION");
    session_.sql("CALL dblock_assert_held('k'," +
                 session_.value("SELECT token FROM dblock_lock WHERE lock_key='k'") + ")");
    session_.sql("INSERT INTO effect VALUES (1)");
  }
  [[nodiscard]] const std::string& owner() const { return owner_; }
  // Whether the server let it; nobody tries again.
  bool commits() {
    try {
      session_.sql_in_session("COMMIT");
    } catch (const std::exception&) {
      return false;
    }
    return true;
  }

 private:
  Connection session_;
  std::string owner_;
};

class FencedCluster {
 public:
  FencedCluster() : database(shared_cluster()), session_(shared_cluster().sql(1)) {
    session_.sql("CREATE TABLE " + name() + ".effect (n INT PRIMARY KEY)");
    for (int node = 1; node <= Cluster::k_size; ++node) REQUIRE(effects(node) == 0);
  }
  [[nodiscard]] const std::string& name() const { return database.rows.name(); }
  // What the node knows when it has caught up with the others.
  [[nodiscard]] long long effects(int node) const {
    auto session = database.cluster.sql(node);
    session.sql("SET SESSION wsrep_sync_wait=1");
    return session.number("SELECT COUNT(*) FROM " + name() + ".effect");
  }
  void check_effects(int count) const {
    for (int node = 1; node <= Cluster::k_size; ++node) CHECK(effects(node) == count);
  }
  // By way of another node than the job's, as soon as the lease lets it.
  void take_over() const {
    const auto taken = database.ask({2}, run_words("k", {"--wait", "20s"}, {"true"}));
    INFO(taken.err);
    REQUIRE(taken.exit == exited(0));
  }

  const ClusterDatabase database;

 private:
  Connection session_;
};

TEST_CASE("a takeover through another node aborts the transaction that had asserted the lock", "[fence]") {
  DBLOCK_NEEDS(why_no_cluster());
  const FencedCluster cluster;
  FencedJob job(cluster.database, 1);
  cluster.take_over();
  CHECK_FALSE(job.commits());
  cluster.check_effects(0);
}

TEST_CASE("a transaction that asserted the lock and commits in time is not harmed by other nodes",
          "[fence]") {
  DBLOCK_NEEDS(why_no_cluster());
  const FencedCluster cluster;
  const auto& database = cluster.database;
  FencedJob job(database, 1, "60s");
  CHECK(database.ask({2}, run_words("k", {}, {"true"})).exit == exited(75));
  CHECK(database.ask({3}, {"renew", "--key", "k", "--owner", job.owner()}).exit == exited(0));
  CHECK(database.ask({2}, {"reap"}).exit == exited(0));
  CHECK(job.commits());
  cluster.check_effects(1);
  CHECK(database.ask({3}, {"release", "--key", "k", "--owner", job.owner()}).exit == exited(0));
  CHECK(database.tries({2}) == once(0));
}

// A node that has much to apply knows of the takeover before it has done it: its locks do not see it yet, and
// what has been put in order before must decide.
TEST_CASE("a node that lags behind lets no transaction pass whose lock was taken over", "[fence]") {
  DBLOCK_NEEDS(why_no_cluster());
  const FencedCluster cluster;
  const std::string bulk = cluster.name() + ".bulk";
  auto other = cluster.database.cluster.sql(2);
  other.sql("USE " + cluster.name());  // a sequence's table needs one
  other.sql("CREATE TABLE " + bulk + " (n INT PRIMARY KEY, pad VARCHAR(200))");
  FencedJob job(cluster.database, 1);
  other.sql("INSERT INTO " + bulk + " SELECT seq,REPEAT('x',200) FROM seq_1_to_300000");
  cluster.take_over();
  auto session = cluster.database.cluster.sql(1);
  const bool behind = session.number("SELECT COUNT(*) FROM " + bulk) == 0;
  CHECK_FALSE(job.commits());
  CHECK(behind);
  cluster.check_effects(0);
}

}  // namespace
}  // namespace dblock::test
