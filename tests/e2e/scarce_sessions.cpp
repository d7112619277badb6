// Waiters where sessions or threads are scarce: they leave enough of them to the holder and to others.
#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

const Words k_quick{"--ttl", "12s", "--heartbeat", "500ms"};

// A run that waits for each of the keys.
std::vector<Process> waiting_runs(const std::string& url, const Words& keys, const Words& options = {}) {
  std::vector<Process> waiters;
  for (const auto& key : keys)
    waiters.emplace_back(
        dblock_spawn_at(url, run_words(key, with({"-v", "--wait", "120s"}, options), {"true"})));
  for (const auto& waiter : waiters) REQUIRE(soon_says(waiter, "waiting: "));
  return waiters;
}

// Cuts the session of the account that has been there for longer than any waiter's.
void cut_session_of_holder(ServerDatabase& database, const std::string& user) {
  const auto oldest =
      database.value("SELECT MIN(id) FROM information_schema.processlist WHERE user = '" + user + "'");
  REQUIRE(database.kill_session(oldest));
}

TEST_CASE("the waiters of an account with five sessions leave one to the holder whose session is cut",
          "[server][other-servers]") {
  ServerDatabase database;
  const std::string user = database.account("WITH MAX_USER_CONNECTIONS 5");
  const std::string url = database.url(user) + "&connection=keep";
  const Words options =
      GENERATE(Words{}, Words{"--attempts", "5000", "--backoff", "100ms", "--backoff-multiplier", "1"});
  CAPTURE(options);
  LiveRun holder(url, k_quick);
  auto waiters = waiting_runs(url, Words(7, "k"), options);
  cut_session_of_holder(database, user);
  for (int renewals = 0; renewals < 3; ++renewals) await_renewal(database);
  CHECK(holder.end() == exited(0));
  check_all_succeed(waiters, 60s * slowness());
}

TEST_CASE("so do the waiters of seven keys, each of which looks often", "[server][other-servers]") {
  ServerDatabase database;
  const std::string user = database.account("WITH MAX_USER_CONNECTIONS 5");
  const std::string url = database.url(user) + "&connection=keep";
  const std::string policy = GENERATE("one", "newest");
  CAPTURE(policy);
  const Words keys{"a", "b", "c", "d", "e", "f", "g"};
  Words owners;
  for (const auto& key : keys) owners.push_back(take(database, key, {"--ttl", "10m"}));
  LiveRun holder(url, k_quick);
  auto waiters = waiting_runs(url, keys, {"--line", policy});
  cut_session_of_holder(database, user);
  for (int renewals = 0; renewals < 3; ++renewals) await_renewal(database);
  CHECK(holder.end() == exited(0));
  for (std::size_t i = 0; i < keys.size(); ++i) release_lease(database, owners[i], keys[i]);
  check_all_succeed(waiters, 60s * slowness());
}

TEST_CASE("waiters leave threads of a thread pool to the holder and to other clients", "[server][mariadb]") {
  const Server server({"--thread-handling=pool-of-threads", "--thread-pool-size=1",
                       "--thread-pool-max-threads=8", "--max-connections=200"});
  ServerDatabase database(server.address());
  LiveRun holder(database, k_quick);
  auto waiters = waiting_runs(database.url(), Words(12, "k"));
  CHECK(Connection::can_connect(server.address(), "app"));
  for (int renewals = 0; renewals < 3; ++renewals) await_renewal(database);
  CHECK(database.line().size() == 12);
  CHECK(holder.end() == exited(0));
  check_all_succeed(waiters, 60s * slowness());
}

// Each try of a reader locks the rows of the lock over several statements, while others that wait for the
// rows take the threads.
TEST_CASE("readers that ask together leave threads of a small thread pool to the holder's renewals",
          "[server][mariadb]") {
  const Server server({"--thread-handling=pool-of-threads", "--thread-pool-size=2",
                       "--thread-pool-max-threads=6", "--max-connections=200"});
  ServerDatabase database(server.address());
  LiveRun holder(database, {"--ttl", "10s", "--heartbeat", "1s"});
  auto waiters = waiting_runs(database.url(), Words(24, "k"), {"--shared"});
  for (int renewals = 0; renewals < 3; ++renewals) await_renewal(database);
  CHECK(holder.end() == exited(0));
  check_all_succeed(waiters, 60s * slowness());
}

TEST_CASE("more jobs hold their locks at a time than their account may have sessions", "[server]") {
  ServerDatabase database;
  const std::string url = database.url(database.account("WITH MAX_USER_CONNECTIONS 5"));
  std::vector<std::unique_ptr<LiveRun>> runs;
  for (int i = 0; i < 8; ++i) {
    const std::string key = "k" + std::to_string(i);
    runs.push_back(std::make_unique<LiveRun>(url, Words{"--ttl", "12s", "--heartbeat", "1s", "--wait", "60s"},
                                             patient_job, key));
  }
  for (int renewals = 0; renewals < 3; ++renewals) {
    for (int i = 0; i < 8; ++i) await_renewal(database, "k" + std::to_string(i));
  }
  for (const auto& run : runs) CHECK(run->end() == exited(0));
}

TEST_CASE("connection=brief: a lock is held without a session, and handed on when the job ends", "[server]") {
  ServerDatabase database;
  const std::string url = database.url() + "&connection=brief";
  LiveRun holder(url, k_quick);
  CHECK(wait_until([&] { return database.sessions().empty(); }));
  Process waiter(dblock_spawn_at(url, run_words("k", {"-v", "--wait", "120s"}, {"true"})));
  REQUIRE(soon_says(waiter, "waiting: "));
  for (int renewals = 0; renewals < 3; ++renewals) await_renewal(database);
  CHECK(waiter.running());
  CHECK(holder.end() == exited(0));
  CHECK(waiter.wait() == exited(0));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("connection=brief: a keeper holds its lock without a session, and releases it when the script ends",
          "[server]") {
  ServerDatabase database;
  KeptScript script(database.url() + "&connection=brief", "--ttl 12s");
  CHECK(wait_until([&] { return database.sessions().empty(); }));
  for (int renewals = 0; renewals < 2; ++renewals) await_renewal(database);
  CHECK(wait_until([&] { return database.sessions().empty(); }));
  script.signal(SIGKILL);
  CHECK(soon_free(database));
}

TEST_CASE("connection=brief: a renewal that finds no session is tried again, and the job goes on",
          "[server]") {
  ServerDatabase database;
  const std::string user = database.account("WITH MAX_USER_CONNECTIONS 2");
  LiveRun holder(database.url(user) + "&connection=brief", {"-v", "--ttl", "120s", "--heartbeat", "500ms"});
  {
    std::vector<Connection> others;
    const auto both_are_taken = [&] {
      others.emplace_back(database.server(), user, database.name());
      try {
        others.back().sql("DO 1");
      } catch (const std::runtime_error&) {  // a renewal has the other one just now
        others.pop_back();
      }
      return others.size() == 2;
    };
    REQUIRE(wait_until(both_are_taken));
    REQUIRE(soon_says(holder, "max_user_connections"));
  }
  await_renewal(database);
  CHECK(holder.end() == exited(0));
}

}  // namespace
}  // namespace dblock::test
