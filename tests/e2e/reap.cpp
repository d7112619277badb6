// reap: abandoned leases freed and told, long-idle rows forgotten; never anything else.
#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

constexpr auto k_day = 24h;

void abandon(Database& database, const std::string& key) {
  take(database, key, {"--ttl", "60s", "--margin", "5s"});
  database.age_until_expired(key, 6s);
}

TEST_CASE("reap frees a lease past its margin and reports the holder as abandoned",
          "[safety][other-servers]") {
  Database database;
  abandon(database, "dead");
  const std::string token = database.column("dead", "token");
  const auto finished = dblock(database, {"reap"});
  INFO(finished.err);
  CHECK(finished.exit == exited(0));
  CHECK(says(finished.out, "dead"));
  CHECK(says(finished.out, database.column("dead", "holder_host")));
  CHECK_FALSE(database.has_holder("dead"));
  CHECK(database.column("dead", "last_outcome") == "abandoned");
  CHECK(database.column("dead", "token") == token);  // it never decreases
  CHECK_FALSE(says(dblock(database, {"reap"}).out, "dead"));
}

TEST_CASE("reap leaves leases that are held or within their margin", "[safety]") {
  Database database;
  take(database, "held");
  take(database, "margin", {"--ttl", "60s", "--margin", "60s"});
  database.age_until_expired("margin", 30s);
  REQUIRE(dblock(database, {"reap"}).exit == exited(0));
  CHECK(database.has_holder("held"));
  CHECK(database.has_holder("margin"));
}

TEST_CASE("a dry run of reap changes nothing and says the same") {
  Database database;
  abandon(database, "dead");
  const std::string before = database.row("dead");
  const auto finished = dblock(database, {"reap", "--dry-run"});
  CHECK(finished.exit == exited(0));
  CHECK(says(finished.out, "dead"));
  CHECK(database.row("dead") == before);
}

TEST_CASE("reap json lists what was abandoned", "[asan-local]") {
  Database database;
  abandon(database, "dead");
  const auto finished = dblock(database, {"--json", "reap"});
  const auto document = nlohmann::json::parse(finished.out);
  CHECK(document.at("format") == 1);
  CHECK(says(document.dump(), "dead"));
}

TEST_CASE("rows idle for longer than forget-after are deleted and younger or held ones are not",
          "[safety][other-servers]") {
  Database database;
  for (const char* key : {"old", "young", "kept"}) REQUIRE(run_true(database, key) == exited(0));
  take(database, "held");
  // A row may go only when token and update_time are old as well.
  for (const char* key : {"old", "kept"}) {
    database.age(key, 500 * k_day);
    database.set_number(key, "token", database.micros(key, "update_time"));
  }
  database.set_keep_until("kept", k_day);
  CHECK(dblock(database, {"reap", "--dry-run"}).exit == exited(0));
  CHECK(database.rows() == 4);
  CHECK(dblock(database, {"reap", "--forget-after", "600d"}).exit == exited(0));
  CHECK(database.rows() == 4);
  CHECK(dblock(database, {"reap"}).exit == exited(0));
  CHECK_FALSE(database.has_row("old"));
  CHECK(database.has_row("young"));
  CHECK(database.has_row("kept"));
  CHECK(database.has_row("held"));
}

TEST_CASE("a row with a token from the last day stays whatever its age", "[safety]") {
  Database database;
  REQUIRE(run_true(database) == exited(0));
  database.age("k", 500 * k_day);
  CHECK(dblock(database, {"reap", "--forget-after", "1d"}).exit == exited(0));
  CHECK(database.has_row("k"));
}

TEST_CASE("thousands of idle rows are forgotten in one reap", "[asan-server]") {
  Database database;
  REQUIRE(run_true(database, "seed") == exited(0));
  database.age("seed", 500 * k_day);
  database.set_number("seed", "token", 1);
  std::vector<std::string> keys;
  for (int i = 1; i <= 5000; ++i) keys.push_back("row" + std::to_string(i));
  database.copy_row("seed", keys);
  REQUIRE(database.rows() == 5001);
  REQUIRE(dblock(database, {"reap"}).exit == exited(0));
  CHECK(database.rows() == 0);
}

TEST_CASE("reap removes the places of dead waiters, and no others") {
  const Database database;
  LiveRun holder(database);
  Process waiter = waiting_run(database);
  Process dead = waiting_run(database, {"--line", "newest", "--wait", "60s"});
  const auto places = database.line();
  REQUIRE(places.size() == 2);
  kill_with_guardian(dead);
  // The dead one's place counts for three seconds at most, and a reap before is too early.
  CHECK(wait_until([&] {
    REQUIRE(dblock(database, {"reap"}).exit == exited(0));
    return database.line().size() < 2;
  }));
  CHECK(database.line() == Words{places.front()});
  CHECK(holder.end() == exited(0));
  CHECK(waiter.wait() == exited(0));
}

TEST_CASE("reap every repeats until TERM and then dies of it or exits 0", "[asan-server]") {
  Database database;
  Process reaper(dblock_spawn(database, {"reap", "--every", "200ms"}));
  for (const char* key : {"first", "second"}) {
    abandon(database, key);
    CHECK(soon_free(database, key));
  }
  CHECK(reaper.running());
  reaper.signal(SIGTERM);
  const Exit exit = reaper.wait();
  CHECK(exit == exited(0));
  CHECK(says(reaper.out(), "first"));
  CHECK(says(reaper.out(), "second"));
}

TEST_CASE("reap every survives a server that is away for a while", "[server]") {
  Server server;
  ServerDatabase database(server.address());
  Process reaper(dblock_spawn(database, {"reap", "--every", "200ms"}));
  server.stop_gracefully();
  CHECK(wait_until([&] { return !reaper.err().empty(); }));
  CHECK(reaper.running());
  server.start();
  abandon(database, "dead");
  CHECK(soon_free(database, "dead"));
}

}  // namespace
}  // namespace dblock::test
