// A primary and its replicas, all named in the URL: who may grant, what a change of roles does to a running
// job, and what a promoted replica that missed something does.
#include <filesystem>

#include "support/catch.hpp"
#include "support/certificates.hpp"
#include "support/dblock.hpp"
#include "support/deaf_port.hpp"
#include "support/live_run.hpp"
#include "support/proxy.hpp"
#include "support/replication.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

TEST_CASE("a read-only host is passed over within one try, whatever the account may do",
          "[server][mariadb]") {
  const ReplicatingPair pair;
  for (const std::string user : {"app", "root"}) {
    const auto done = dblock_at(pair.url_replica_first("", user), run_words("of-" + user, {}, {"true"}));
    INFO(done.err);
    CHECK(done.exit == exited(0));
    CHECK(pair.column(pair.primary, "of-" + user, "last_outcome") == "succeeded");
  }
  await_caught_up(pair.replica, pair.primary);
  CHECK(pair.column(pair.replica, "of-root", "last_outcome") == "succeeded");
}

TEST_CASE("where every host is read-only nothing is granted, and the reason is said",
          "[server][mariadb][safety][other-servers]") {
  const ReplicatingPair pair;
  const TempDir directory;
  set_read_only(pair.primary, true);
  for (const std::string user : {"app", "root"}) {
    for (const auto& url :
         {pair.url("", user), pair.primary.address().tcp_url(pair.database->name(), user)}) {
      const auto done = dblock_at(url, run_words("k", {}, {"touch", directory.file("ran")}));
      check_ended(done, 69, {"read_only is set"});
    }
  }
  CHECK(read_file(directory.file("ran")).empty());
  CHECK(says(dblock_at(pair.url(), run_words("k", {}, {"true"})).err, "no host takes writes"));
  CHECK(dblock_at(pair.url("", "root"), {"migrate", "--status"}).exit == exited(0));
  Connection(pair.primary.address(), "root", pair.database->name()).sql("DELETE FROM dblock_schema");
  CHECK(dblock_at(pair.url("", "root"), {"migrate"}).exit == exited(69));
}

TEST_CASE("inspect asks who takes writes, and a replica where nobody does", "[server][mariadb]") {
  const ReplicatingPair pair;
  LiveRun job(pair.url(), {}, patient_job, "before");
  await_caught_up(pair.replica, pair.primary);
  stop_replication(pair.replica);
  REQUIRE(dblock_at(pair.url(), {"acquire", "--key", "after", "--ttl", "1m"}).exit == exited(0));
  CHECK(says(dblock_at(pair.url_replica_first(), {"inspect"}).out, "after"));
  const auto alone = dblock_at(pair.replica.address().tcp_url(pair.database->name()), {"inspect"});
  CHECK(alone.exit == exited(0));
  CHECK(says(alone.out, "before"));
  CHECK_FALSE(says(alone.out, "after"));
  set_read_only(pair.primary, true);
  CHECK(says(dblock_at(pair.url_replica_first(), {"inspect"}).out, "before"));
  set_read_only(pair.primary, false);
  CHECK(job.end(5) == exited(5));
}

// An account that may write on read-only servers stays connected to the old primary and sees no error there.
TEST_CASE("a planned switchover is survived within the lease", "[server][mariadb][safety][other-servers]") {
  ReplicatingPair pair;
  for (const std::string user : {"app", "root"}) {
    INFO(user);
    LiveRun job(pair.url("", user), {"--ttl", "20s", "--heartbeat", "1500ms"});
    const std::string token = pair.column(pair.primary, "k", "token");
    switch_over(pair.primary, pair.replica);
    pair.await_renewal(pair.replica, "k");
    CHECK(pair.column(pair.replica, "k", "token") == token);
    CHECK(dblock_at(pair.url(), run_words("k", {}, {"true"})).exit == exited(75));
    CHECK(job.end(5) == exited(5));
    CHECK(pair.column(pair.replica, "k", "lock_value") == "NULL");
    // Nothing was written where nothing may be: the old primary follows the new one without a conflict.
    await_caught_up(pair.primary, pair.replica);
    CHECK(pair.column(pair.primary, "k", "last_outcome") == "failed");
    switch_over(pair.replica, pair.primary);
    await_caught_up(pair.replica, pair.primary);
  }
}

TEST_CASE("a waiter in the line of the old primary keeps its place on the new one, and is granted there",
          "[server][mariadb][safety]") {
  ReplicatingPair pair;
  const TempDir directory;
  LiveRun job(pair.url(), {"--ttl", "20s", "--heartbeat", "500ms"});
  Process waiter(
      dblock_spawn_at(pair.url(), run_words("k", {"--wait", "100s"}, {"touch", directory.file("second")})));
  // Its statement is the one that sleeps behind the holder.
  REQUIRE(wait_until(
      [&] { return pair.database->sessions("info LIKE '%GET_LOCK%' AND state = 'User lock'").size() == 1; }));
  const std::string place = "SELECT owner_id, arrival FROM dblock_waiter";
  const auto taken = pair.database->sql(place);
  REQUIRE(taken.size() == 1);
  switch_over(pair.primary, pair.replica);
  pair.await_renewal(pair.replica, "k");
  CHECK(read_file(directory.file("second")).empty());
  Connection new_primary(pair.replica.address(), "root", pair.database->name());
  CHECK(new_primary.sql(place) == taken);
  CHECK(job.end(5) == exited(5));
  CHECK(waiter.wait(60s * slowness()) == exited(0));
  CHECK(pair.column(pair.replica, "k", "last_outcome") == "succeeded");
  CHECK(new_primary.sql(place).empty());
}

TEST_CASE("a promoted replica that missed the grant is a lost lease, and its next token is greater",
          "[server][mariadb][safety][other-servers]") {
  ReplicatingPair pair;
  REQUIRE(dblock_at(pair.url(), run_words("k", {}, {"true"})).exit == exited(0));
  await_caught_up(pair.replica, pair.primary);
  stop_replication(pair.replica);
  LiveRun first(pair.url(), {"--ttl", "1h", "--heartbeat", "1s", "--kill-grace", "500ms"}, tree_job);
  const auto first_token = std::stoull(pair.column(pair.primary, "k", "token"));
  pair.primary.stop_hard();
  promote(pair.replica);
  // Nobody can know better: until the first has asked the new primary, both believe.
  LiveRun second(pair.url(), {}, [](const TempDir& directory) {
    return sh(print_into(directory.file("up"), "echo $DBLOCK_TOKEN") + "; sleep 600");
  });
  CHECK(std::stoull(read_file(second.file("up"))) > first_token);
  check_ends(first, 76);
  CHECK(first.tree().empty());
  // The second is left alone by it.
  CHECK(second.running());
  CHECK(pair.column(pair.replica, "k", "token") + "\n" == read_file(second.file("up")));
}

TEST_CASE("a frozen primary costs no lease when its replica is promoted", "[server][mariadb]") {
  ReplicatingPair pair;
  LiveRun job(pair.url(), {"--ttl", "30s", "--heartbeat", "1s"});
  pair.await_renewal(pair.primary, "k");
  await_caught_up(pair.replica, pair.primary);
  pair.primary.freeze();
  promote(pair.replica);
  pair.await_renewal(pair.replica, "k");
  CHECK(job.end(5) == exited(5));
  CHECK(pair.column(pair.replica, "k", "lock_value") == "NULL");
  pair.primary.thaw();
}

// A balancer that has reads answered by a replica, which has learned nothing since these keys were free.
struct BehindBalancer {
  BehindBalancer(const Words& keys, bool read_only) {
    for (const auto& key : keys)
      REQUIRE(dblock_at(pair.url(), run_words(key, {}, {"true"})).exit == exited(0));
    await_caught_up(pair.replica, pair.primary);
    Connection(pair.replica.address()).sql("STOP SLAVE SQL_THREAD");
    set_read_only(pair.replica, read_only);
    balancer.read_from(pair.replica.address());
  }
  ReplicatingPair pair{};
  Proxy balancer{pair.primary.address()};
  std::string url = balancer.url(pair.database->name());
};

// It knows neither the present holder nor that a key has one; whether it says that it is a replica is up to
// its operator.
TEST_CASE("what a lagging replica behind a balancer says of a refused lock is not believed",
          "[server][mariadb][safety]") {
  const bool read_only = GENERATE(true, false);
  CAPTURE(read_only);
  BehindBalancer servers({"k", "cut"}, read_only);
  auto& [pair, balancer, url] = servers;
  LiveRun holder(pair.url(), {"--note", "the holder", "--key", "new"});
  for (const auto* const key : {"k", "new"}) {
    const auto refused = dblock_at(url, run_words(key, {}, {"true"}));
    INFO(refused.err);
    CHECK(refused.exit == exited(75));
    CHECK(says(refused.err, "note: the holder"));
  }
  // A grant whose reply is lost is read back where it was made.
  balancer.cut(Proxy::Cut::before_reply, containing("UPDATE dblock_lock"));
  const auto cut = dblock_at(url, run_words("cut", {}, {"true"}));
  INFO(cut.err);
  CHECK(cut.exit == exited(0));
  CHECK(balancer.cuts() == 1);
  Process waiter(dblock_spawn_at(
      url,
      run_words("k", {"--attempts", "1000", "--backoff", "100ms", "--backoff-multiplier", "1"}, {"true"})));
  balancer.forget_statements();
  REQUIRE(wait_until([&] { return balancer.statements().size() >= 4; }));
  CHECK(waiter.running());
  CHECK(holder.end(5) == exited(5));
  const Exit granted = waiter.wait(60s * slowness());
  INFO(waiter.err());
  CHECK(granted == exited(0));
}

TEST_CASE(
    "who is refused behind a balancer is told the holder of now, not the one that a lagging replica knows",
    "[server][mariadb]") {
  const ReplicatingPair pair;
  const auto before = dblock_at(pair.url(), {"acquire", "--key", "k", "--ttl", "1h", "--note", "of before"});
  REQUIRE(before.exit == exited(0));
  await_caught_up(pair.replica, pair.primary);
  Connection(pair.replica.address()).sql("STOP SLAVE SQL_THREAD");
  const Words release{"release", "--key", "k", "--owner", lines(before.out).at(0)};
  REQUIRE(dblock_at(pair.url(), release).exit == exited(0));
  LiveRun holder(pair.url(), {"--note", "of now"});
  Proxy balancer(pair.primary.address());
  balancer.read_from(pair.replica.address());
  const auto refused = dblock_at(balancer.url(pair.database->name()), run_words("k", {}, {"true"}));
  check_ended(refused, 75, {"note: of now"});
  CHECK(holder.end() == exited(0));
}

// The replica does not know of the holder, so it would say that nobody is left.
TEST_CASE("waits for the end of holders are not ended by what a lagging replica says", "[server][mariadb]") {
  const bool read_only = GENERATE(true, false);
  CAPTURE(read_only);
  BehindBalancer servers({"k"}, read_only);
  auto& [pair, balancer, url] = servers;
  LiveRun holder(pair.url(), {"--heartbeat", "1h", "--ttl", "9h"});
  const std::string token = pair.column(pair.primary, "k", "token");
  check_ended(dblock_at(url, {"wait", "-k", "k", "--timeout", "0"}), 75, {"held by"});
  check_ended(dblock_at(url, {"pause", "-k", "k", "--for", "1h", "--wait", "0"}), 75, {"the pause stays"});
  check_ended(dblock_at(url, {"release", "-k", "k", "--force"}), 75, {"held by"});
  check_ended(dblock_at(url, {"release", "-k", "k", "--force", "--token", token, "--wait", "0"}), 75,
              {"its lease stays revoked"});
  CHECK(holder.end() == exited(0));
}

// Renewals go elsewhere, so the holder's lease seems to have ended here.
TEST_CASE("a wait for holders does not believe a server that takes no writes any more",
          "[server][mariadb][other-servers]") {
  const Server server;
  ServerDatabase database(server.address());
  take(database, "k", {"--ttl", "10m"});
  Proxy way(server.address());
  Process waiter(
      dblock_spawn_at(way.url(database.name()), {"pause", "-k", "k", "--for", "1h", "--wait", "3s"}));
  // Beside the pause itself, which reads the table as well.
  REQUIRE(wait_until([&] {
    const auto sent = way.statements();
    return std::ranges::count_if(sent, containing("FROM dblock_pause USE INDEX (PRIMARY) WHERE end_time>")) >
           2;
  }));
  set_read_only(server, true);
  CHECK(waiter.wait() == exited(69));
  CHECK(says(waiter.err(), "which takes no writes and may lag behind"));
}

TEST_CASE("a wait does not believe a listing that took long to read", "[server]") {
  const ServerDatabase database;
  Proxy proxy(database.server());
  const Words words{"wait", "-k", "k", "--timeout", "8s"};
  CHECK(dblock_at(proxy.url(database.name()), words).exit == exited(0));
  proxy.delay(250ms);
  check_ended(dblock_at(proxy.url(database.name()), words), 69, {"so what was read may be out of date"});
}

TEST_CASE("a look that a balancer gives to a read-only replica costs three statements more",
          "[server][mariadb]") {
  const ReplicatingPair pair;
  LiveRun holder(pair.url());
  await_caught_up(pair.replica, pair.primary);
  Proxy plain(pair.primary.address());
  Proxy balancer(pair.primary.address());
  balancer.read_from(pair.replica.address());
  const auto statements = [&](Proxy& proxy) {
    CHECK(dblock_at(proxy.url(pair.database->name()), run_words("k", {}, {"true"})).exit == exited(75));
    UNSCOPED_INFO(proxy.statements().size());
    return proxy.statements().size();
  };
  CHECK(statements(balancer) == statements(plain) + 3);
  CHECK(holder.end() == exited(0));
}

TEST_CASE("a server that takes no writes any more is not believed about a lock that was refused",
          "[server][mariadb][asan-server]") {
  const Server server;
  ServerDatabase database(server.address());
  const std::string owner = take(database, "k", {"--ttl", "10m"});
  Process waiter =
      waiting_run(database, {"--attempts", "1000", "--backoff", "100ms", "--backoff-multiplier", "1"});
  set_read_only(server, true);
  CHECK(soon_says(waiter, "which takes no writes and may lag behind"));
  set_read_only(server, false);
  release_lease(database, owner);
  CHECK(waiter.wait() == exited(0));
}

TEST_CASE("a dead host in front costs its connect-timeout once, and no lease", "[server][other-servers]") {
  ServerDatabase database;
  const DeafPort dead;
  const auto begun = std::chrono::steady_clock::now();
  LiveRun job(url_of({dead.number(), database.server().port}, database.name(), "connect-timeout=4s"),
              {"--ttl", "3s", "--heartbeat", "400ms", "--kill-grace", "500ms"});
  CHECK(std::chrono::steady_clock::now() - begun >= 3s);
  for (int round = 0; round < 3; ++round) {
    REQUIRE(wait_until([&] {
      const auto ids = database.sessions();
      return !ids.empty() && database.kill_session(ids.front());
    }));
    await_renewal(database);
  }
  CHECK(job.end(5) == exited(5));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("what the settings ask of tls holds for each host", "[server][mariadb]") {
  const Certificates certificates;
  const TempDir directory;
  const std::string verified = "tls=verify-full&tls-ca=" + certificates.authority();
  for (const bool both : {true, false}) {
    ReplicatingPair pair(both ? certificates.server_options("good") : Words{},
                         certificates.server_options("good"));
    set_read_only(pair.replica, true);
    const auto url =
        url_of({pair.replica.address().port, pair.primary.address().port}, pair.database->name(), verified);
    const auto done = dblock_at(url, run_words("k", {}, {"touch", directory.file(both ? "both" : "one")}));
    INFO(done.err);
    CHECK(done.exit == exited(both ? 0 : 69));
    CHECK(std::filesystem::exists(directory.file(both ? "both" : "one")) == both);
  }
}

}  // namespace
}  // namespace dblock::test
