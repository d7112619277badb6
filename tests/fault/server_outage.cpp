// The server away for a while: short outages do not disturb the job, long ones end it before expire_time
// (I4).
#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/proxy.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

const Words k_short_lease{"--ttl", "3s", "--heartbeat", "400ms", "--kill-grace", "500ms"};

Words ends_at_term(const TempDir& directory) {
  return sh("trap 'exit 0' TERM; touch " + directory.file("up") + "; while :; do sleep 0.05; done");
}

TEST_CASE("a server frozen for longer than the ttl ends the whole tree before expire_time with 76",
          "[server][tsan][safety][asan-server]") {
  Server server;
  ServerDatabase database(server.address());
  const TempDir directory;
  TreeRun process(database, with(k_short_lease, {"--status-file", directory.file("status")}));
  CHECK(process.tree().size() >= 6);  // dblock, guardian, job, two children, the one with its own session
  const long long expires = await_renewal(database);
  server.freeze();
  CHECK(process.job_last_seen() < expires);
  check_ends(process, 76, {}, 20s * slowness());
  // Where the job's death was seen late, the guardian is not dismissed: it goes when dblock has gone.
  CHECK(soon_gone(process));
  const auto status = nlohmann::json::parse(read_file(directory.file("status")));
  CHECK(status.at("outcome") == "lost");
  CHECK(status.at("exit_code") == 76);
  CHECK(status.at("stop").at("reason") == "deadline");
  server.thaw();
}

TEST_CASE("a network that swallows packets ends the tree before expire_time with 76", "[server][safety]") {
  ServerDatabase database;
  Proxy proxy(database.server());
  TreeRun process(proxy.url(database.name()), k_short_lease);
  const long long expires = await_renewal(database);
  proxy.stall();
  CHECK(process.job_last_seen() < expires);
  CHECK(process.wait(20s * slowness()) == exited(76));
}

TEST_CASE("a job that would have exited 0 after the lease was lost is 76 all the same", "[server][safety]") {
  Server server;
  ServerDatabase database(server.address());
  LiveRun process(database, k_short_lease, ends_at_term);
  server.freeze();
  CHECK(process.wait(20s * slowness()) == exited(76));
  server.thaw();
}

TEST_CASE("a server killed and gone for longer than the ttl is 76", "[server][safety]") {
  Server server;
  ServerDatabase database(server.address());
  TreeRun process(database, k_short_lease);
  const long long expires = await_renewal(database);
  server.stop_hard();
  CHECK(process.job_last_seen() < expires);
  CHECK(process.wait(20s * slowness()) == exited(76));
}

TEST_CASE("an outage shorter than the lease is survived", "[server][tsan]") {
  Server server;
  ServerDatabase database(server.address());
  LiveRun process(database, {"--ttl", "6s", "--heartbeat", "400ms", "--kill-grace", "500ms"});
  await_renewal(database);
  server.freeze();
  pause_for(2500ms);
  server.thaw();
  await_renewal(database);
  CHECK(process.end(5) == exited(5));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a server restart mid-run is survived with the same lease",
          "[server][safety][other-servers][asan-server]") {
  Server server;
  ServerDatabase database(server.address());
  for (const bool graceful : {true, false}) {
    LiveRun process(database, {"--ttl", "12s", "--heartbeat", "500ms"});
    const std::string token = database.column("k", "token");
    if (graceful)
      server.stop_gracefully();
    else
      server.stop_hard();
    server.start();
    REQUIRE(wait_until([&] {
      try {
        return database.expires_micros("k") > 0;
      } catch (const std::exception&) {
        return false;  // our own old connection
      }
    }));
    CHECK(soon_renewed(database));
    CHECK(database.column("k", "token") == token);
    CHECK(process.end(5) == exited(5));
    CHECK_FALSE(database.has_holder("k"));
  }
}

TEST_CASE("killed connections are replaced and the run goes on", "[server][other-servers]") {
  ServerDatabase database;
  LiveRun process(database, {"--ttl", "6s", "--heartbeat", "300ms"});
  for (int round = 0; round < 3; ++round) {
    REQUIRE(wait_until([&] {
      const auto ids = database.sessions();
      return !ids.empty() && database.kill_session(ids.front());
    }));
    await_renewal(database);
  }
  CHECK(process.end(5) == exited(5));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a server that turns read-only for a while is survived", "[server][other-servers][asan-server]") {
  Server server;
  ServerDatabase database(server.address());
  LiveRun process(database, {"--ttl", "6s", "--heartbeat", "300ms", "--kill-grace", "500ms"});
  database.sql("SET GLOBAL read_only = 1");
  REQUIRE(soon_says(process, "trying again"));
  database.sql("SET GLOBAL read_only = 0");
  await_renewal(database);
  CHECK(process.end(5) == exited(5));
}

TEST_CASE("a row locked by somebody's transaction for a while is survived", "[server][other-servers]") {
  ServerDatabase database;
  LiveRun process(database, {"--ttl", "12s", "--heartbeat", "300ms"});
  Connection other(database.server(), "root", database.name());
  other.sql("START TRANSACTION");
  other.sql("SELECT * FROM dblock_lock WHERE lock_key = 'k' FOR UPDATE");
  REQUIRE(soon_says(process, "trying again"));
  other.sql("ROLLBACK");
  await_renewal(database);
  CHECK(process.end(5) == exited(5));
}

TEST_CASE("a global read lock for longer than the ttl ends the job before expire_time",
          "[server][safety][other-servers]") {
  Server server;
  ServerDatabase database(server.address());
  TreeRun process(database, k_short_lease);
  const long long expires = await_renewal(database);
  Connection backup(database.server());
  backup.sql("FLUSH TABLES WITH READ LOCK");
  const long long alive_at = process.job_last_seen();
  // A renewal may have slipped in before the lock was granted.
  CHECK(alive_at < std::max(expires, database.expires_micros("k")));
  CHECK(process.wait(20s * slowness()) == exited(76));
  backup.sql("UNLOCK TABLES");
}

TEST_CASE("a job that ends while the server is away keeps its own code with one warning",
          "[server][safety][asan-server]") {
  Server server;
  ServerDatabase database(server.address());
  const TempDir directory;
  LiveRun process(database, with(k_short_lease, {"--status-file", directory.file("status")}));
  await_renewal(database);
  server.freeze();
  CHECK(process.end(5, 30s * slowness()) == exited(5));
  INFO(process.err());
  CHECK(count_of(process.err(), "dblock: ") == 1);
  CHECK_FALSE(says(process.err(), "dblock: exit"));
  const auto status = nlohmann::json::parse(read_file(directory.file("status")));
  CHECK(status.at("release") == "unknown");
  CHECK(status.at("exit_code") == 5);
  server.thaw();
}

}  // namespace
}  // namespace dblock::test
