// reap: abandoned leases freed and told, long-idle rows forgotten; never anything else.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "support/dblock.hpp"

namespace dblock::test {
namespace {

void abandon(Database& database, const std::string& key) {
  REQUIRE(dblock(database, {"acquire", "--key", key, "--ttl", "60s", "--margin", "5s"}).exit == exited(0));
  database.sql("UPDATE dblock_lock SET expire_time = UTC_TIMESTAMP(6) - INTERVAL 6 SECOND WHERE lock_key = " +
               sql_hex(key));
}

TEST_CASE("reap frees a lease past its margin and reports the holder as abandoned") {
  Database database;
  abandon(database, "dead");
  const std::string token = database.column("dead", "token");
  const auto finished = dblock(database, {"reap"});
  INFO(finished.err);
  CHECK(finished.exit == exited(0));
  CHECK(finished.out.find("dead") != std::string::npos);
  CHECK(finished.out.find(database.column("dead", "holder_host")) != std::string::npos);
  CHECK_FALSE(database.has_holder("dead"));
  CHECK(database.column("dead", "last_outcome") == "abandoned");
  CHECK(database.column("dead", "token") == token);  // it never decreases
  CHECK(dblock(database, {"reap"}).out.find("dead") == std::string::npos);
}

TEST_CASE("reap leaves leases that are held or within their margin") {
  Database database;
  REQUIRE(dblock(database, {"acquire", "--key", "held", "--ttl", "60s"}).exit == exited(0));
  REQUIRE(dblock(database, {"acquire", "--key", "margin", "--ttl", "60s", "--margin", "60s"}).exit ==
          exited(0));
  database.sql(
      "UPDATE dblock_lock SET expire_time = UTC_TIMESTAMP(6) - INTERVAL 30 SECOND WHERE lock_key = 'margin'");
  REQUIRE(dblock(database, {"reap"}).exit == exited(0));
  CHECK(database.has_holder("held"));
  CHECK(database.has_holder("margin"));
}

TEST_CASE("a dry run of reap changes nothing and says the same") {
  Database database;
  abandon(database, "dead");
  const std::string before = database.column("dead", "version");
  const auto finished = dblock(database, {"reap", "--dry-run"});
  CHECK(finished.exit == exited(0));
  CHECK(finished.out.find("dead") != std::string::npos);
  CHECK(database.column("dead", "version") == before);
  CHECK(database.has_holder("dead"));
}

TEST_CASE("reap json lists what was abandoned") {
  Database database;
  abandon(database, "dead");
  const auto finished = dblock(database, {"--json", "reap"});
  const auto document = nlohmann::json::parse(finished.out);
  CHECK(document.at("format") == 1);
  CHECK(document.dump().find("dead") != std::string::npos);
}

TEST_CASE("rows idle for longer than forget-after are deleted and younger or held ones are not") {
  Database database;
  for (const char* key : {"old", "young", "kept"})
    REQUIRE(dblock(database, run_words(key, {}, {"true"})).exit == exited(0));
  REQUIRE(dblock(database, {"acquire", "--key", "held", "--ttl", "60s"}).exit == exited(0));
  const std::string long_ago = "UTC_TIMESTAMP(6) - INTERVAL 500 DAY";
  // A row may go only when token and update_time are old as well.
  database.sql("UPDATE dblock_lock SET update_time = " + long_ago + ", idle_since = " + long_ago +
               ", token = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " + long_ago +
               ") WHERE lock_key IN ('old', 'kept')");
  database.sql(
      "UPDATE dblock_lock SET keep_until = UTC_TIMESTAMP(6) + INTERVAL 1 DAY WHERE lock_key = 'kept'");
  CHECK(dblock(database, {"reap", "--dry-run"}).exit == exited(0));
  CHECK(database.number("SELECT COUNT(*) FROM dblock_lock") == 4);
  CHECK(dblock(database, {"reap", "--forget-after", "600d"}).exit == exited(0));
  CHECK(database.number("SELECT COUNT(*) FROM dblock_lock") == 4);
  CHECK(dblock(database, {"reap"}).exit == exited(0));
  CHECK(database.column("old", "1").empty());
  CHECK(database.column("young", "1") == "1");
  CHECK(database.column("kept", "1") == "1");
  CHECK(database.column("held", "1") == "1");
}

TEST_CASE("a row with a token from the last day stays whatever its age") {
  Database database;
  REQUIRE(dblock(database, run_words("k", {}, {"true"})).exit == exited(0));
  database.sql(
      "UPDATE dblock_lock SET update_time = UTC_TIMESTAMP(6) - INTERVAL 500 DAY, "
      "idle_since = UTC_TIMESTAMP(6) - INTERVAL 500 DAY");
  CHECK(dblock(database, {"reap", "--forget-after", "1d"}).exit == exited(0));
  CHECK(database.column("k", "1") == "1");
}

TEST_CASE("thousands of idle rows are forgotten in one reap") {
  Database database;
  REQUIRE(dblock(database, run_words("seed", {}, {"true"})).exit == exited(0));
  const std::string old = "UTC_TIMESTAMP(6) - INTERVAL 500 DAY";
  database.sql("UPDATE dblock_lock SET update_time = " + old + ", idle_since = " + old + ", token = 1");
  database.sql(
      "INSERT INTO dblock_lock SELECT CONCAT('row', s.seq), lock_value, create_time, update_time, "
      "expire_time, token, version, "
      "lock_count, kind, ttl_us, margin_us, heartbeat_us, hold_until, keep_until, revoke_time, idle_since, "
      "holder_host, "
      "holder_pid, holder_user, holder_command, holder_note, last_acquired_at, last_released_at, "
      "last_outcome, "
      "last_exit_code, success_acquired_at, success_released_at FROM dblock_lock, seq_1_to_5000 s");
  REQUIRE(dblock(database, {"reap"}).exit == exited(0));
  CHECK(database.number("SELECT COUNT(*) FROM dblock_lock") == 0);
}

TEST_CASE("reap every repeats until TERM and then dies of it or exits 0") {
  Database database;
  Process reaper(dblock_spawn(database, {"reap", "--every", "200ms"}));
  for (const char* key : {"first", "second"}) {
    abandon(database, key);
    CHECK(wait_until([&] { return !database.has_holder(key); }));
  }
  CHECK(reaper.running());
  reaper.signal(SIGTERM);
  const Exit exit = reaper.wait();
  CHECK(exit == exited(0));
  CHECK(reaper.out().find("first") != std::string::npos);
  CHECK(reaper.out().find("second") != std::string::npos);
}

TEST_CASE("reap every survives a server that is away for a while") {
  Server server;
  Database database(server.address());
  Process reaper(dblock_spawn(database, {"reap", "--every", "200ms"}));
  server.stop_gracefully();
  CHECK(wait_until([&] { return !reaper.err().empty(); }));
  CHECK(reaper.running());
  server.start();
  abandon(database, "dead");
  CHECK(wait_until([&] { return !database.has_holder("dead"); }));
}

}  // namespace
}  // namespace dblock::test
