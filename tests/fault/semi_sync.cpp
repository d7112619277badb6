// min-replicas on a real semi-synchronous pair: what is granted while replicas acknowledge, while they do
// not, and when they stop in the middle.
#include <filesystem>

#include "support/catch.hpp"
#include "support/connection.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/proxy.hpp"
#include "support/replication.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

// A pair whose replica acknowledges.
struct SemiSyncPair : ReplicatingPair {
  explicit SemiSyncPair(milliseconds timeout) {
    wait_for_acknowledgements(primary, timeout);
    acknowledge(replica, primary);
  }
  [[nodiscard]] std::string asking_for(int replicas) const {
    return url("min-replicas=" + std::to_string(replicas));
  }
};

constexpr auto k_endless = 1h;

// Every way to be granted something.
std::vector<Words> all_modes(const TempDir& directory) {
  const Words job{"touch", directory.file("ran")};
  return {run_words("k", {}, job),
          run_words("k", {"--key", "l"}, job),
          run_words("s", {"--slots", "2"}, job),
          run_words("r", {"--shared"}, job),
          {"acquire", "--key", "a", "--ttl", "5s"}};
}

TEST_CASE("with min-replicas nothing is granted while fewer acknowledge",
          "[server][mariadb][safety][other-servers]") {
  const TempDir directory;
  SemiSyncPair pair(k_endless);
  const auto ran = [&] { return std::filesystem::exists(directory.file("ran")); };
  for (const auto& words : all_modes(directory)) {
    const auto two = dblock_at(pair.asking_for(2), words);
    check_ended(two, 69, {"min-replicas=2"});
  }
  CHECK_FALSE(ran());
  CHECK(pair.database->rows() == 0);
  for (const auto& words : all_modes(directory)) {
    const auto one = dblock_at(pair.asking_for(1), words);
    INFO(one.err);
    CHECK(one.exit == exited(0));
  }
  CHECK(ran());
  // What it was told is what the replica has, at once: it had acknowledged it.
  LiveRun job(pair.asking_for(1), {}, patient_job, "now");
  stop_replication(pair.replica);
  CHECK(dblock_at(pair.asking_for(1), run_words("k", {}, {"true"})).exit == exited(69));
  // Nothing but the parameter makes it so. Nobody is there to acknowledge, so the server must not wait.
  wait_for_acknowledgements(pair.primary, 100ms);
  CHECK(dblock_at(pair.asking_for(0), run_words("k", {}, {"true"})).exit == exited(0));
  CHECK(dblock_at(pair.asking_for(1), run_words("k", {}, {"true"})).exit == exited(69));
  // Who waits gets it when the replica is back.
  Process waiter(dblock_spawn_at(pair.asking_for(1), run_words("w", {"--wait", "100s"}, {"true"})));
  REQUIRE(soon_says(waiter, "min-replicas=1"));
  CHECK(waiter.running());
  start_replication(pair.replica);
  CHECK(waiter.wait(60s * slowness()) == exited(0));
  CHECK(job.end(5) == exited(5));
}

TEST_CASE("min-replicas=1 costs two statements a grant and none a renewal", "[server][mariadb]") {
  SemiSyncPair pair(k_endless);
  REQUIRE(dblock_at(pair.url(), run_words("k", {}, {"true"})).exit == exited(0));
  Proxy proxy(pair.primary.address());
  const std::string url = proxy.url(pair.database->name());
  const auto statements = [&](const std::string& parameters) {
    proxy.forget_statements();
    const auto done = dblock_at(url + parameters, run_words("k", {}, {"true"}));
    INFO(done.err);
    REQUIRE(done.exit == exited(0));
    return proxy.statements().size();
  };
  CHECK(statements("?min-replicas=1") == statements("") + 2);
  LiveRun job(url + "?min-replicas=1", {"--ttl", "6s", "--heartbeat", "200ms"});
  pair.await_renewal(pair.primary, "k");
  proxy.forget_statements();
  REQUIRE(wait_until([&] { return proxy.statements().size() >= 3; }));
  for (const auto& statement : proxy.statements()) CHECK_FALSE(says(statement, "STATUS"));
  CHECK(job.end(5) == exited(5));
}

TEST_CASE("min-replicas holds for a run inside a run, and needs semi-synchronous replication",
          "[server][mariadb][safety][asan-server]") {
  const ReplicatingPair pair;  // asynchronous
  const auto alone = dblock_at(pair.url("min-replicas=1"), run_words("k", {}, {"true"}));
  INFO(alone.err);
  CHECK(alone.exit == exited(69));
  const auto judged = dblock_at(pair.url("min-replicas=1"), {"doctor"});
  INFO(judged.out);
  CHECK(judged.exit == exited(78));
  CHECK(says(judged.out, "min-replicas=1"));
  const auto inner = "'" + dblock_binary() + "' --db '" + pair.url("min-replicas=1") + "' run -k k -- true";
  const auto outer = dblock_at(pair.url(), run_words("k", {}, sh(inner)));
  INFO(outer.err);
  CHECK(outer.exit == exited(69));
  CHECK(says(outer.err, "min-replicas=1"));
}

// The server gives up waiting and grants all the same: known only afterwards.
TEST_CASE("a grant that no replica acknowledged in time is given back",
          "[server][mariadb][safety][other-servers]") {
  const TempDir directory;
  SemiSyncPair pair(500ms);
  for (const auto& words : all_modes(directory)) {
    pair.replica.freeze();
    const auto refused = dblock_at(pair.asking_for(1), words);
    pair.replica.thaw();
    INFO(refused.err);
    CHECK(refused.exit == exited(69));
    CHECK(says(refused.err, "min-replicas=1"));
    CHECK(pair.database->number("SELECT COUNT(*) FROM dblock_lock WHERE lock_value IS NOT NULL") == 0);
    REQUIRE(wait_until([&] { return semi_sync(pair.primary, "status") == "ON"; }));
  }
  CHECK_FALSE(std::filesystem::exists(directory.file("ran")));
}

TEST_CASE("a primary that cannot get acknowledgements ends its runs before expire_time",
          "[server][mariadb][safety]") {
  SemiSyncPair pair(k_endless);
  TreeRun job(pair.asking_for(1), {"--ttl", "6s", "--heartbeat", "500ms", "--kill-grace", "500ms"});
  pair.replica.freeze();
  // What the replica has not acknowledged nobody sees: the last expiry that can be read is the last promise.
  const long long alive_at = job.job_last_seen();
  CHECK(alive_at < pair.expires_micros(pair.primary, "k"));
  CHECK(job.wait(30s * slowness()) == exited(76));
  pair.replica.thaw();
}

TEST_CASE("where the server falls back, a running job goes on and nothing new is granted",
          "[server][mariadb][safety]") {
  SemiSyncPair pair(300ms);
  LiveRun job(pair.asking_for(1), {"--ttl", "12s", "--heartbeat", "500ms"});
  pair.replica.freeze();
  REQUIRE(wait_until([&] { return semi_sync(pair.primary, "status") == "OFF"; }));
  pair.await_renewal(pair.primary, "k");
  CHECK(dblock_at(pair.asking_for(1), run_words("other", {}, {"true"})).exit == exited(69));
  pair.await_renewal(pair.primary, "k");
  CHECK(job.end(5) == exited(5));
  pair.replica.thaw();
}

// Its session is gone before the server has its acknowledgement: the server commits all the same once it
// comes.
TEST_CASE("a grant that is acknowledged too late starts nothing and ends by itself",
          "[server][mariadb][safety]") {
  const TempDir directory;
  SemiSyncPair pair(k_endless);
  REQUIRE(dblock_at(pair.asking_for(1), run_words("k", {}, {"true"})).exit == exited(0));
  const auto token = pair.database->column("k", "token");
  pair.replica.freeze();
  Process late(
      dblock_spawn_at(pair.asking_for(1), run_words("k", {"--ttl", "4s"}, {"touch", directory.file("ran")})));
  const Exit ended = late.wait(60s * slowness());
  INFO(late.err());
  CHECK(ended == exited(69));
  CHECK(says(late.err(), "acknowledge"));
  CHECK_FALSE(says(late.err(), "dblock_assert_held"));
  CHECK(pair.database->column("k", "token") == token);  // not visible yet
  pair.replica.thaw();
  CHECK(wait_until([&] { return pair.database->column("k", "token") != token; }));
  CHECK_FALSE(std::filesystem::exists(directory.file("ran")));
  CHECK(dblock_at(pair.asking_for(1), run_words("k", {"--wait", "30s"}, {"true"})).exit == exited(0));
}

// Its commit keeps the row, as a job's transaction with dblock_assert_held() would keep the fence.
TEST_CASE("a grant that others' waiting commit is in the way of is the database's failure, not a conflict",
          "[server][mariadb][safety][other-servers]") {
  const TempDir directory;
  SemiSyncPair pair(k_endless);
  REQUIRE(dblock_at(pair.url(), run_words("k", {}, {"true"})).exit == exited(0));
  pair.replica.freeze();
  Process waiting(dblock_spawn_at(pair.url(), run_words("k", {"--ttl", "60s"}, {"true"})));
  REQUIRE(wait_until([&] { return semi_sync(pair.primary, "wait_sessions") == "1"; }));
  const auto silent =
      dblock_at(pair.url(), run_words("k", {"--ttl", "60s", "-E", "0"}, {"touch", directory.file("ran")}));
  INFO(silent.err);
  check_ended(silent, 69, {"acknowledge"});
  CHECK_FALSE(std::filesystem::exists(directory.file("ran")));
  pair.replica.thaw();
  waiting.wait(60s * slowness());
  // And the other way round: a job's transaction is known for one where replication is semi-synchronous.
  test::Connection job(pair.primary.address(), "root", pair.database->name());
  REQUIRE(wait_until([&] { return semi_sync(pair.primary, "wait_sessions") == "0"; }));
  const auto lease = dblock_at(pair.url(), {"acquire", "--key", "k", "--ttl", "1s", "--margin", "0"});
  REQUIRE(lease.exit == exited(0));
  job.sql("START TRANSACTION");
  job.sql("CALL dblock_assert_held('k'," + pair.database->column("k", "token") + ")");
  REQUIRE(wait_until([&] {
    return pair.database->number(
               "SELECT expire_time<UTC_TIMESTAMP(6) FROM dblock_lock "
               "WHERE lock_key='k'") == 1;
  }));
  const auto fenced = dblock_at(pair.url(), run_words("k", {}, {"true"}));
  INFO(fenced.err);
  CHECK(fenced.exit == exited(75));
  CHECK(says(fenced.err, "dblock_assert_held"));
  job.sql("ROLLBACK");
  // A reader's release keeps the reader's row alone.
  const auto reader = dblock_at(pair.url(), {"acquire", "--key", "r", "--shared", "--ttl", "60s"});
  REQUIRE(reader.exit == exited(0));
  pair.replica.freeze();
  const Words release{"release", "--key", "r", "--owner", lines(reader.out).front()};
  Process leaving(dblock_spawn_at(pair.url(), release));
  REQUIRE(wait_until([&] { return semi_sync(pair.primary, "wait_sessions") == "1"; }));
  const auto writer = dblock_at(pair.url(), run_words("r", {"--ttl", "60s", "-E", "0"}, {"true"}));
  INFO(writer.err);
  CHECK(writer.exit == exited(69));
  CHECK(says(writer.err, "acknowledge"));
  pair.replica.thaw();
  leaving.wait(60s * slowness());
}

TEST_CASE("doctor finds a replica that has the primary's settings and applies nothing of what it receives",
          "[server][mariadb]") {
  SemiSyncPair pair(k_endless);
  const auto at_primary = [&] {
    return dblock_at(url_of({pair.primary.address().port}, pair.database->name()), {"doctor"});
  };
  const auto at_both = [&] { return dblock_at(pair.url(), {"doctor"}); };
  CHECK(says(at_primary().out, "received by a replica"));
  CHECK_FALSE(says(at_both().out, "applies none"));
  wait_for_acknowledgements(pair.replica, k_endless);
  REQUIRE(dblock_at(pair.url(), run_words("k", {}, {"true"})).exit == exited(0));
  REQUIRE(wait_until([&] { return semi_sync(pair.replica, "wait_sessions") == "1"; }));
  CHECK(pair.column(pair.replica, "k", "last_outcome") != "succeeded");
  CHECK(says(at_primary().out, "received by a replica"));  // which is all that it can know
  const auto judged = at_both();
  INFO(judged.out);
  CHECK(judged.exit == exited(78));
  CHECK(says(judged.out, "applies none"));
  Connection(pair.replica.address()).sql("SET GLOBAL rpl_semi_sync_master_enabled = 0");
  await_caught_up(pair.replica, pair.primary);
  CHECK(pair.column(pair.replica, "k", "last_outcome") == "succeeded");
}

}  // namespace
}  // namespace dblock::test
