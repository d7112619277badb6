// Invariants I1 and I2 through the real binary: no overlap, rising tokens, no takeover before its time.
#include <set>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/overlap.hpp"
#include "support/proxy.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

TEST_CASE("sixteen racing processes never overlap and their tokens rise", "[tsan][safety][other-servers]") {
  Database database;
  const TempDir directory;
  const std::string log = directory.file("log");
  constexpr std::size_t k_rounds = 3;
  constexpr std::size_t k_racers = 16;
  for (std::size_t round = 0; round < k_rounds; ++round) {
    std::vector<Process> racers;
    for (std::size_t i = 0; i < k_racers; ++i) {
      racers.emplace_back(dblock_spawn(database, run_words("race", {"--wait", "60s"}, interval_job(log, 5))));
    }
    check_all_succeed(racers, 60s * slowness());
  }
  const auto intervals = read_intervals(log);
  CHECK(intervals.size() == k_rounds * k_racers);
  CHECK(exclusion_violation(intervals).empty());
}

TEST_CASE("of racers that do not wait those who lose run nothing", "[safety]") {
  Database database;
  const TempDir directory;
  const std::string log = directory.file("log");
  for (int round = 0; round < 3; ++round) {
    const std::string key = "round" + std::to_string(round);  // a fresh row: INSERT against INSERT
    std::vector<Process> racers;
    for (int i = 0; i < 16; ++i)
      racers.emplace_back(dblock_spawn(database, run_words(key, {}, interval_job(log, 300))));
    int won = 0;
    for (auto& racer : racers) {
      const Exit exit = racer.wait();
      INFO(racer.err());
      CHECK((exit == exited(0) || exit == exited(75)));
      won += exit == exited(0) ? 1 : 0;
    }
    CHECK(won >= 1);
  }
  CHECK(exclusion_violation(read_intervals(log)).empty());
}

TEST_CASE("racers whose first inserter is killed neither deadlock nor overlap",
          "[server][safety][other-servers]") {
  ServerDatabase database;
  const TempDir directory;
  const std::string log = directory.file("log");
  std::vector<Process> racers;
  for (int i = 0; i < 12; ++i)
    racers.emplace_back(dblock_spawn(database, run_words("k", {"--wait", "60s"}, interval_job(log, 20))));
  // Whichever connection is inserting now loses its statement.
  for (int i = 0; i < 20; ++i) {
    const auto inserting = database.sessions("info LIKE '%INSERT%'");
    if (!inserting.empty()) database.kill_session(inserting.front());
  }
  check_all_succeed(racers, 60s * slowness());
  CHECK(exclusion_violation(read_intervals(log)).empty());
}

unsigned long long token_of_run(const Database& database) {
  const auto finished = dblock(database, run_words("k", {"--wait", "60s"}, sh("echo $DBLOCK_TOKEN")));
  REQUIRE(finished.exit == exited(0));
  return std::stoull(finished.out);
}

unsigned long long token_of_acquire(const Database& database, const Words& more) {
  const Words words = with({"acquire", "--key", "k", "--format", "shell"}, more);
  const auto finished = dblock(database, words);
  REQUIRE(finished.exit == exited(0));
  const auto at = finished.out.find("DBLOCK_TOKEN=");
  REQUIRE(at != std::string::npos);
  const auto digits = finished.out.find_first_of("0123456789", at);
  return std::stoull(finished.out.substr(digits));
}

TEST_CASE("tokens rise across release and expiry and takeover and reap and a lost row",
          "[safety][other-servers]") {
  Database database;
  std::vector<unsigned long long> tokens;
  tokens.push_back(token_of_run(database));
  tokens.push_back(token_of_run(database));
  tokens.push_back(token_of_acquire(database, {"--ttl", "1s", "--margin", "0"}));
  tokens.push_back(
      token_of_acquire(database, {"--ttl", "1s", "--margin", "0", "--wait", "60s"}));  // takeover
  REQUIRE(wait_until([&] { return database.expires_micros("k") < realtime_micros(); }));
  REQUIRE(dblock(database, {"reap"}).exit == exited(0));
  CHECK_FALSE(database.has_holder("k"));
  tokens.push_back(token_of_run(database));
  // A deleted row: the clock alone must carry the order.
  database.delete_rows();
  tokens.push_back(token_of_run(database));
  for (std::size_t i = 1; i < tokens.size(); ++i) CHECK(tokens[i] > tokens[i - 1]);
}

TEST_CASE("tokens rise across a server restart", "[server][safety][other-servers]") {
  Server server;
  ServerDatabase database(server.address());
  std::vector<unsigned long long> tokens;
  tokens.push_back(token_of_run(database));
  server.stop_gracefully();
  server.start();
  tokens.push_back(token_of_run(database));
  server.stop_hard();
  server.start();
  tokens.push_back(token_of_run(database));
  database.delete_rows();
  tokens.push_back(token_of_run(database));
  for (std::size_t i = 1; i < tokens.size(); ++i) CHECK(tokens[i] > tokens[i - 1]);
}

TEST_CASE("a token grows even when the clock stands in the past", "[safety]") {
  Database database;
  REQUIRE(token_of_run(database) > 0);
  database.set_number("k", "token", 9000000000000000);  // the year 2255: an earlier clock ran ahead
  CHECK(token_of_run(database) == 9000000000000001ULL);
}

TEST_CASE("an acquired lease is taken over not before expire_time plus margin by the store's clock",
          "[safety]") {
  Database database;
  for (const char* margin : {"0", "400ms", "1s"}) {
    INFO(margin);
    take(database, "k", {"--ttl", "1s", "--margin", margin});
    const long long free_at = database.expires_micros("k") + std::stoll(database.column("k", "margin_us"));
    // Asked again and again, since a waiter would know itself when asking makes sense.
    REQUIRE(wait_until([&] {
      return dblock(database, {"acquire", "--key", "k", "--ttl", "60s"}).exit == exited(0);
    }));
    CHECK(database.micros("k", "create_time") >= free_at);
    database.delete_rows();
  }
}

TEST_CASE("just before its time an expired lease is still held for everyone", "[safety]") {
  Database database;
  take(database, "k", {"--ttl", "1h", "--margin", "1h"});
  // Move the lease into the past instead of waiting: most of the margin is over.
  database.age_until_expired("k", 59min);
  CHECK(run_true(database) == exited(75));
  CHECK(dblock(database, {"inspect", "--key", "k", "--exit-code"}).exit == exited(75));
  database.age_until_expired("k", 1h - 700ms);
  const long long free_at = database.expires_micros("k") + 3'600'000'000;
  CHECK(run_true(database, "k", {"--wait", "1h"}) == exited(0));
  CHECK(database.micros("k", "last_acquired_at") >= free_at);
}

TEST_CASE("a and A and a-with-space and a-acute are four locks", "[safety][other-servers]") {
  Database database;
  const std::vector<std::string> keys{"a", "A", "a ", "\xc3\xa1"};
  std::set<std::string> owners;
  for (const auto& key : keys) {
    const auto finished = dblock(database, {"acquire", "--key", key, "--ttl", "60s"});
    INFO(finished.err);
    CHECK(finished.exit == exited(0));
    owners.insert(finished.out);
  }
  CHECK(owners.size() == 4);
  CHECK(database.rows() == 4);
  for (const auto& key : keys) CHECK(run_true(database, key) == exited(75));
  CHECK(run_true(database, "a\xcc\x81") == exited(0));  // not normalised: a fifth lock
}

}  // namespace
}  // namespace dblock::test
