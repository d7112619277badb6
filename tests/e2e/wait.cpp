// `dblock wait`: for free locks, and for jobs that have succeeded.
#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/proxy.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

using std::chrono::steady_clock;

Spawn waiting(const Database& database, const Words& options) {
  return dblock_spawn(database, with({"wait"}, options));
}

TEST_CASE("wait returns when the named locks are free, and not before", "[other-servers][asan-local]") {
  const Database database;
  LiveRun one(database, {}, patient_job, "a");
  LiveRun other(database, {"--shared"}, patient_job, "b");
  check_ended(dblock(database, {"wait", "-k", "a", "--timeout", "0"}), 75,
              {"(not yet)", "lock \"a\" is held by"});
  const auto begin = steady_clock::now();
  check_ended(dblock(database, {"wait", "-k", "a", "-k", "b", "--timeout", "300ms"}), 75,
              {"waited for --timeout 300ms"});
  CHECK(steady_clock::now() - begin >= 300ms);

  Process both(waiting(database, {"-v", "-k", "a", "-k", "b"}));
  REQUIRE(soon_says(both, "waiting: lock \"a\" is held by"));
  CHECK(one.end() == exited(0));
  CHECK_FALSE(both.try_wait(300ms).has_value());
  CHECK(other.end() == exited(0));
  CHECK(both.wait() == exited(0));
}

TEST_CASE("wait returns at once for a key that was never seen, and says so, since it may be mistyped") {
  const Database database;
  REQUIRE(run_true(database, "nightly-etl") == exited(0));
  const auto mistyped = dblock(database, {"wait", "-k", "nightly-etl", "-k", "nihgtly-etl"});
  CHECK(mistyped.exit == exited(0));
  CHECK(mistyped.err ==
        "dblock: warning: no lock is known under key \"nihgtly-etl\", so it counts as free; is the key spelt "
        "right?\n");
  CHECK(dblock(database, {"wait", "-k", "nightly-etl"}).err.empty());
  CHECK(dblock(database, {"-q", "wait", "-k", "nihgtly-etl"}).err.empty());
  CHECK(says(dblock(database, {"wait", "--prefix", "nihgtly-"}).err,
             "no key that starts with \"nihgtly-\" is known; is it spelt right?"));
  const auto shown = dblock(database, {"-v", "inspect", "-k", "nihgtly-etl", "--exit-code"});
  CHECK(shown.exit == exited(0));
  CHECK(says(shown.err, "no lock is known under key \"nihgtly-etl\""));
}

TEST_CASE("wait takes nothing and changes no row") {
  const Database database;
  REQUIRE(run_true(database) == exited(0));
  const std::string before = database.column("k", "version");
  CHECK(dblock(database, {"wait", "-k", "k"}).exit == exited(0));
  CHECK(database.column("k", "version") == before);
}

TEST_CASE("wait for a prefix waits for all known locks under it") {
  const Database database;
  CHECK(dblock(database, {"wait", "--prefix", "deploy-"}).exit == exited(0));
  LiveRun run(database, {}, patient_job, "deploy-web");
  check_ended(dblock(database, {"wait", "--prefix", "deploy-", "--timeout", "0"}), 75, {"\"deploy-web\""});
  CHECK(dblock(database, {"wait", "--prefix", "other-", "--timeout", "0"}).exit == exited(0));
  CHECK(run.end() == exited(0));
  CHECK(dblock(database, {"wait", "--prefix", "deploy-", "--timeout", "0"}).exit == exited(0));
}

TEST_CASE("wait for a success starts one job after another's") {
  Database database;
  Process after(waiting(database, {"-v", "-k", "import", "--success-within", "12h"}));
  REQUIRE(soon_says(after, "no job under key \"import\" is known to have succeeded"));
  REQUIRE(dblock(database, run_words("import", {}, sh("exit 3"))).exit == exited(3));
  CHECK_FALSE(after.try_wait(300ms).has_value());
  REQUIRE(run_true(database, "import") == exited(0));
  CHECK(after.wait() == exited(0));

  database.age("import", 13h);
  check_ended(dblock(database, {"wait", "-k", "import", "--success-within", "12h", "--timeout", "0"}), 75,
              {"the last success under key \"import\" was 13h ago"});
  LiveRun next(database, {}, patient_job, "import");
  CHECK(dblock(database, {"wait", "-k", "import", "--success-within", "1d", "--timeout", "0"}).exit ==
        exited(0));
}

TEST_CASE("a signal ends wait at once") {
  const Database database;
  LiveRun run(database);
  Process waiter(waiting(database, {"-v", "-k", "k"}));
  REQUIRE(soon_says(waiter, "waiting: lock \"k\""));
  waiter.signal(SIGTERM);
  CHECK(waiter.wait() == killed_by(SIGTERM));
}

TEST_CASE("wait asks again while the database is away, and is 69 at the end", "[server][asan-server]") {
  ServerDatabase database;
  Proxy proxy(database.server());
  proxy.refuse(true);
  check_ended(dblock_at(proxy.url(database.name()), {"wait", "-k", "k", "--timeout", "300ms"}), 69, {});
  Process waiter(dblock_spawn_at(proxy.url(database.name()), {"wait", "-k", "k"}));
  REQUIRE(soon_says(waiter, "; trying again"));
  proxy.refuse(false);
  CHECK(waiter.wait() == exited(0));
}

TEST_CASE("wait ends at its limit with a server that answers nothing", "[server]") {
  ServerDatabase database;
  Proxy proxy(database.server());
  proxy.stall();
  check_ended(dblock_at(proxy.url(database.name()), {"wait", "-k", "k", "--timeout", "1s"}), 69,
              {"did not answer at the end of --timeout 1s"});
}

TEST_CASE("wait names its usage errors") {
  const Database database;
  check_ended(dblock(database, {"wait"}), 64, {"--key", "--prefix"});
  check_ended(dblock(database, {"wait", "-k", "k", "--prefix", "p"}), 64, {"either --key"});
  check_ended(dblock(database, {"wait", "-k", "k", "--timeout", "10"}), 64, {"10s"});
}

}  // namespace
}  // namespace dblock::test
