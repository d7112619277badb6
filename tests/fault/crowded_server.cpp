// A server with no connection to spare, and sessions whose host has vanished.

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/proxy.hpp"

namespace dblock::test {
namespace {

// Every connection that an ordinary account can have.
std::vector<std::unique_ptr<Connection>> fill(const ServerDatabase& database) {
  std::vector<std::unique_ptr<Connection>> crowd;
  try {
    for (int i = 0; i < 100; ++i) {
      auto connection = std::make_unique<Connection>(database.server(), "app", database.name());
      connection->sql("DO 1");
      crowd.push_back(std::move(connection));
    }
  } catch (const std::exception&) {  // one too many
  }
  return crowd;
}

// How many waiters sleep on the server, each in a statement of its own.
std::size_t sleepers(ServerDatabase& database) {
  return database.sessions("info LIKE '%GET_LOCK%' AND state = 'User lock'").size();
}

TEST_CASE("a run that loses its connection to a full server goes on when there is room again",
          "[server][other-servers]") {
  Server server({"--max-connections=10"});
  ServerDatabase database(server.address());
  database.sql("DO 1");  // the session that looks on comes before the crowd
  LiveRun process(database, {"--ttl", "20s", "--heartbeat", "200ms", "-v"});
  auto crowd = fill(database);
  REQUIRE(crowd.size() >= 5);
  // The run is frozen while its place goes to the crowd.
  process.freeze();
  REQUIRE(database.kill_session(database.sessions().front()));
  REQUIRE(wait_until([&] {
    auto late = fill(database);
    std::move(late.begin(), late.end(), std::back_inserter(crowd));
    return !late.empty();
  }));
  process.signal(SIGCONT);
  REQUIRE(soon_says(process, "Too many connections"));
  const auto before = database.expires_micros("k");
  crowd.clear();
  CHECK(wait_until([&] { return database.expires_micros("k") > before; }));
  CHECK(process.end() == exited(0));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a full server grants nothing to those who do not wait, and says that it is full",
          "[server][safety]") {
  Server server({"--max-connections=10"});
  const ServerDatabase database(server.address());
  const auto crowd = fill(database);
  const auto finished = dblock(database, run_words("k", {}, {"true"}));
  INFO(finished.err);
  CHECK(finished.exit == exited(69));
  CHECK(says(finished.err, "Too many connections"));
}

TEST_CASE("a waiter sleeps on while its server is full, and is granted the lock when its turn comes",
          "[server][other-servers]") {
  Server server({"--max-connections=10"});
  ServerDatabase database(server.address());
  LiveRun holder(database);
  Process waiter(dblock_spawn(database, run_words("k", {"--wait", "1h"}, {"true"})));
  REQUIRE(wait_until([&] { return sleepers(database) == 1; }));
  const auto crowd = fill(database);
  REQUIRE(crowd.size() >= 5);
  CHECK(sleepers(database) == 1);
  CHECK(holder.end() == exited(0));
  CHECK(waiter.wait() == exited(0));
  CHECK_FALSE(database.has_holder("k"));
}

// Its session, and the named lock with it, stay on the server: nothing tells the server that nobody is there
// any more.
TEST_CASE("a holder whose host vanished without a word blocks the key for its lease and no longer",
          "[server][safety]") {
  ServerDatabase database;
  Proxy proxy(database.server());
  LiveRun process(proxy.url(database.name()), {"--ttl", "3s", "--margin", "500ms"});
  proxy.stall();
  CHECK(process.wait(20s * slowness()) == exited(76));
  CHECK(database.sessions().size() == 1);
  // The row alone decides.
  REQUIRE(wait_until([&] { return run_true(database) == exited(0); }));
}

// A sleeper looks at the row once a minute at least.
TEST_CASE("a waiter that sleeps behind a holder whose host vanished gets the lock in a minute",
          "[server][safety]") {
  ServerDatabase database;
  Proxy proxy(database.server());
  LiveRun holder(proxy.url(database.name()), {"--ttl", "3s", "--margin", "500ms"});
  Process waiter(dblock_spawn(database, run_words("k", {"--wait", "1h"}, {"true"})));
  REQUIRE(wait_until([&] { return sleepers(database) == 1; }));
  proxy.stall();
  CHECK(holder.wait(20s * slowness()) == exited(76));
  CHECK(waiter.running());
  CHECK(waiter.wait(60s * slowness()) == exited(0));
  CHECK_FALSE(database.sessions("command = 'Sleep'").empty());  // the holder's session is still there
}

}  // namespace
}  // namespace dblock::test
