// dblock_assert_held() where nodes replicate to each other: a job's transaction on one, the takeover through
// another.

#include <future>

#include "cluster/runs.hpp"
#include "support/catch.hpp"
#include "support/privilege.hpp"

namespace dblock::test {
namespace {

// A lease that nobody renews unasked, by way of `node`: its owner id.
std::string acquire(const ClusterDatabase& database, int node, const std::string& ttl) {
  const auto taken = database.ask({node}, {"acquire", "--key", "k", "--ttl", ttl, "--margin", "0"});
  INFO(taken.err);
  REQUIRE(taken.exit == exited(0));
  return lines(taken.out).at(0);
}

// A transaction on a node that has asserted the lease of now, and written `effect`.
class Fenced {
 public:
  Fenced(const ClusterDatabase& database, int node, int effect = 1, const std::string& kind = "READ WRITE")
      : session_(database.cluster.sql(node)) {
    session_.sql("USE " + database.rows.name());
    session_.sql("SET SESSION wsrep_sync_wait=1");
    const std::string token = session_.value("SELECT token FROM dblock_lock WHERE lock_key='k'");
    session_.sql("START TRANSACTION " + kind);
    session_.sql_in_session("CALL dblock_assert_held('k'," + token + ")");
    session_.sql_in_session("INSERT INTO effect VALUES (" + std::to_string(effect) + ")");
  }
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
};

class FencedCluster {
 public:
  FencedCluster() : database(shared_cluster()) {
    database.cluster.sql(1).sql("CREATE TABLE " + name() + ".effect (n INT PRIMARY KEY)");
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
};

TEST_CASE("a takeover through another node aborts the transaction that had asserted the lock", "[fence]") {
  DBLOCK_NEEDS(why_no_cluster());
  const FencedCluster cluster;
  acquire(cluster.database, 1, "2s");
  Fenced job(cluster.database, 1);
  cluster.take_over();
  CHECK_FALSE(job.commits());
  cluster.check_effects(0);
}

TEST_CASE("a transaction that asserted the lock and commits in time is not harmed by other nodes",
          "[fence]") {
  DBLOCK_NEEDS(why_no_cluster());
  const FencedCluster cluster;
  const auto& database = cluster.database;
  const std::string owner = acquire(database, 1, "60s");
  Fenced job(database, 1);
  CHECK(database.ask({2}, run_words("k", {}, {"true"})).exit == exited(75));
  CHECK(database.ask({3}, {"renew", "--key", "k", "--owner", owner}).exit == exited(0));
  CHECK(database.ask({2}, {"reap"}).exit == exited(0));
  CHECK(job.commits());
  cluster.check_effects(1);
  CHECK(database.ask({3}, {"release", "--key", "k", "--owner", owner}).exit == exited(0));
  CHECK(database.tries({2}) == once(0));
}

TEST_CASE("of two transactions under one token the second waits on the same node and is aborted on another",
          "[fence]") {
  DBLOCK_NEEDS(why_no_cluster());
  const FencedCluster cluster;
  acquire(cluster.database, 1, "60s");
  Fenced first(cluster.database, 1, 1);
  Fenced second(cluster.database, 2, 2);
  auto beside_first = cluster.database.cluster.sql(1);
  beside_first.sql("USE " + cluster.name());
  const std::string token = beside_first.value("SELECT token FROM dblock_lock WHERE lock_key='k'");
  beside_first.sql("SET SESSION innodb_lock_wait_timeout=1");
  beside_first.sql_in_session("START TRANSACTION");
  CHECK_THROWS_WITH(beside_first.sql_in_session("CALL dblock_assert_held('k'," + token + ")"),
                    Catch::Contains("Lock wait timeout"));
  CHECK(first.commits());
  CHECK_FALSE(second.commits());
  cluster.check_effects(1);
  CHECK_THROWS(Fenced(cluster.database, 1, 3, "READ ONLY"));
}

// A node that has not applied the takeover yet knows of it all the same: its locks do not see it, and what
// has been put in order before must decide.
TEST_CASE("a node that lags behind lets no transaction pass whose lock was taken over", "[fence]") {
  DBLOCK_NEEDS(why_no_cluster());
  const FencedCluster cluster;
  const std::string applied = cluster.name() + ".applied_before";
  auto other = cluster.database.cluster.sql(2);
  other.sql("CREATE TABLE " + applied + " (n INT PRIMARY KEY)");
  acquire(cluster.database, 1, "2s");
  Fenced job(cluster.database, 1);
  auto session = cluster.database.cluster.sql(1);
  session.sql("LOCK TABLES " + applied + " READ");
  other.sql("INSERT INTO " + applied + " VALUES (1)");
  cluster.take_over();
  CHECK(session.number("SELECT COUNT(*) FROM " + applied) == 0);
  // The node answers once it has applied what comes before.
  auto commits = std::async(std::launch::async, [&] { return job.commits(); });
  REQUIRE(wait_until([&] {
    return session.number("SELECT COUNT(*) FROM information_schema.processlist WHERE info='COMMIT'") == 1;
  }));
  session.sql("UNLOCK TABLES");
  CHECK_FALSE(commits.get());
  cluster.check_effects(0);
}

// What the calling transaction's session says to the call, as the first of its transaction; "" when it
// passes.
std::string asserted(Connection& session, const std::string& token) {
  std::string said;
  session.sql_in_session("START TRANSACTION");
  try {
    session.sql_in_session("CALL dblock_assert_held('k'," + token + ")");
  } catch (const SqlError& error) {
    said = error.what();
  }
  session.sql_in_session("ROLLBACK");
  return said;
}

TEST_CASE("on each node a lease is refused to a transaction that was released, or has expired", "[fence]") {
  DBLOCK_NEEDS(why_no_cluster());
  const FencedCluster cluster;
  const std::string released = acquire(cluster.database, 1, "60s");
  auto session = cluster.database.cluster.sql(2);
  session.sql("USE " + cluster.name());
  session.sql("SET SESSION wsrep_sync_wait=15");
  const auto token = [&] { return session.value("SELECT token FROM dblock_lock WHERE lock_key='k'"); };
  CHECK(asserted(session, token()) == "");
  REQUIRE(cluster.database.ask({3}, {"release", "--key", "k", "--owner", released}).exit == exited(0));
  CHECK_THAT(asserted(session, token()), Catch::Contains("it was released"));
  acquire(cluster.database, 1, "1s");
  CHECK(wait_until(
      [&] { return asserted(session, token()).find("its lease has expired") != std::string::npos; }));
}

}  // namespace
}  // namespace dblock::test
