// What a run asks for beyond its lease: --min-hold, --once-per, and a schedule of tries instead of a wait.
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/privilege.hpp"
#include "support/proxy.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

// Runs a job under key k that leaves a mark when it was started.
struct Tried {
  Finished finished;
  bool started = false;
};
Tried try_run(const Database& database, const Words& options, const Words& env = {}) {
  const TempDir directory;
  const std::string mark = directory.file("started");
  Tried tried;
  tried.finished = dblock(database, run_words("k", options, {"touch", mark}), env);
  tried.started = std::filesystem::exists(mark);
  return tried;
}

bool runs(const Database& database, const Words& options, const Words& env = {}) {
  const auto tried = try_run(database, options, env);
  INFO(tried.finished.err);
  CHECK(tried.finished.exit == exited(0));
  return tried.started;
}

TEST_CASE("a lock with a minimal hold is cooling down after its job, for all to see", "[other-servers]") {
  Database database;
  const auto begun = std::chrono::steady_clock::now();
  CHECK(runs(database, {"--min-hold", "1h"}));
  const std::chrono::microseconds took =
      std::chrono::ceil<std::chrono::microseconds>(std::chrono::steady_clock::now() - begun);
  CHECK_FALSE(database.has_holder("k"));
  // What the grant took is added where that was long.
  const auto held = database.micros("k", "hold_until") - database.micros("k", "create_time");
  CHECK(held >= 3'600'000'000);
  CHECK(held <= 3'600'000'000 + took.count());

  const auto refused = try_run(database, {});
  CHECK(refused.finished.exit == exited(75));
  CHECK_FALSE(refused.started);
  INFO(refused.finished.err);
  CHECK(ends_with_exit_line(refused.finished.err, 75));
  CHECK(says(refused.finished.err, "lock \"k\" is cooling down for another 59m"));
  CHECK(says(refused.finished.err, "after " + database.column("k", "holder_host") + "'s run (--min-hold)"));
  CHECK(dblock(database, {"acquire", "--key", "k", "--ttl", "10s"}).exit == exited(75));
  const auto silent = try_run(database, {"-E", "0"});
  CHECK(silent.finished.exit == exited(0));
  CHECK(silent.finished.err.empty());
  CHECK_FALSE(silent.started);

  const auto shown = inspected(database, {"--all"});
  CHECK(shown.at("locks").at(0).at("state") == "cooldown");
  CHECK(says(dblock(database, {"inspect", "--all"}).out, "cooldown"));
  CHECK(inspected(database).at("locks").empty());
  CHECK(dblock(database, {"inspect", "--key", "k", "--exit-code"}).exit == exited(75));

  database.age("k", 1h);
  CHECK(runs(database, {}));
  CHECK(database.column("k", "hold_until") == "NULL");
  CHECK(runs(database, {}));
}

TEST_CASE("a cooldown does not grow by a step back of the clock", "[other-servers]") {
  Database database;
  for (const bool after_failure : {false, true}) {
    CAPTURE(after_failure);
    if (after_failure) {
      CHECK(dblock(database, run_words("k", {"--keep-on-failure", "1h"}, sh("exit 3"))).exit == exited(3));
    } else {
      CHECK(runs(database, {"--min-hold", "1h"}));
    }
    CHECK(try_run(database, {}).finished.exit == exited(75));
    database.age("k", -3h);
    CHECK(dblock(database, {"inspect", "--key", "k", "--exit-code"}).exit == exited(0));
    CHECK(inspected(database, {"--all"}).at("locks").at(0).at("state") == "free");
    CHECK(runs(database, {}));
  }
}

TEST_CASE("a waiter is granted a lock when its minimal hold is over and not before") {
  Database database;
  CHECK(runs(database, {"--min-hold", "1500ms"}));
  const long long over = database.micros("k", "hold_until");
  CHECK(runs(database, {"--wait", "60s"}));
  CHECK(database.micros("k", "last_acquired_at") >= over);
}

TEST_CASE("a lease of acquire cools down as well") {
  Database database;
  release_lease(database, take(database, "k", {"--ttl", "60s", "--min-hold", "1h"}));
  const auto refused = try_run(database, {});
  CHECK(refused.finished.exit == exited(75));
  CHECK(says(refused.finished.err, "'s lease (--min-hold)"));
}

TEST_CASE("a minimal hold outlives dblock, its guardian and a reap", "[asan-server]") {
  Database database;
  {
    LiveRun run(database, {"--min-hold", "1h"}, sleeping_job);
    run.signal(SIGKILL);
    REQUIRE(soon_gone(run));
    REQUIRE(soon_free(database));
  }
  CHECK(try_run(database, {}).finished.exit == exited(75));
  database.age("k", 1h);
  {
    LiveRun run(database, {"--min-hold", "1h"}, sleeping_job);
    kill_tree(run.mark());
  }
  database.age("k", 10min);  // past the lease and its margin
  REQUIRE(dblock(database, {"reap", "--forget-after", "1d"}).exit == exited(0));
  CHECK_FALSE(database.has_holder("k"));
  const auto refused = try_run(database, {});
  CHECK(refused.finished.exit == exited(75));
  CHECK(says(refused.finished.err, "cooling down for another 49m"));
}

// The job's end, and what has to be seen of the lock afterwards.
void check_kept(Database& database, const Words& options, const Words& job, Exit exit, bool kept) {
  CHECK(dblock(database, run_words("k", options, job)).exit == exit);
  CHECK_FALSE(database.has_holder("k"));
  const auto next = try_run(database, {});
  CHECK(next.finished.exit == exited(kept ? 75 : 0));
  if (!kept) return;
  INFO(next.finished.err);
  CHECK(says(next.finished.err, "which failed (--keep-on-failure or --min-hold)"));
  CHECK(inspected(database, {"--all"}).at("locks").at(0).at("state") == "cooldown");
  const auto shown = dblock(database, {"release", "--key", "k", "--force"});
  CHECK(shown.exit == exited(75));
  CHECK(
      dblock(database, {"release", "--key", "k", "--force", "--token", database.column("k", "token")}).exit ==
      exited(0));
  CHECK(runs(database, {}));
}

TEST_CASE("a failed job keeps its lock for as long as asked, and --force ends that", "[other-servers]") {
  Database database;
  const Words options{"--keep-on-failure", "1h"};
  check_kept(database, options, {"true"}, exited(0), false);
  check_kept(database, options, sh("exit 3"), exited(3), true);
  check_kept(database, options, sh("kill -KILL $$"), killed_by(SIGKILL), true);
  check_kept(database, {"--keep-on-failure", "1h", "--max-runtime", "50ms"}, {"sleep", "60"}, exited(124),
             true);
  check_kept(database, {}, sh("exit 3"), exited(3), false);
}

TEST_CASE("a lock is kept from the end of the failed job on, and a waiter gets it then") {
  Database database;
  CHECK(dblock(database, run_words("k", {"--keep-on-failure", "1500ms"}, sh("sleep 0.3; exit 3"))).exit ==
        exited(3));
  const long long over = database.micros("k", "hold_until");
  CHECK(std::abs(over - database.micros("k", "last_released_at") - 1'500'000) < 1000);
  CHECK(runs(database, {"--wait", "60s"}));
  CHECK(database.micros("k", "last_acquired_at") >= over);
}

TEST_CASE("readers and holders of slots keep what they had when they fail") {
  Database database;
  CHECK(dblock(database, run_words("k", {"--shared", "--keep-on-failure", "1h"}, sh("exit 3"))).exit ==
        exited(3));
  CHECK(dblock(database, run_words("k", {"--shared"}, {"true"})).exit == exited(0));
  CHECK(try_run(database, {}).finished.exit == exited(75));
  const Words slots{"--slots", "2", "--keep-on-failure", "1h"};
  for (int i = 0; i < 2; ++i) CHECK(dblock(database, run_words("s", slots, sh("exit 3"))).exit == exited(3));
  CHECK(dblock(database, run_words("s", slots, {"true"})).exit == exited(75));
  CHECK(dblock(database, run_words("a", {"--key", "b", "--keep-on-failure", "1h"}, sh("exit 3"))).exit ==
        exited(3));
  for (const char* const key : {"a", "b"})
    CHECK(dblock(database, run_words(key, {}, {"true"})).exit == exited(75));
}

TEST_CASE("the guardian keeps the lock when dblock was killed, and a revoked job does not") {
  Database database;
  {
    LiveRun run(database, {"--keep-on-failure", "1h"}, sleeping_job);
    run.signal(SIGKILL);
    REQUIRE(soon_gone(run));
    REQUIRE(soon_free(database));
  }
  CHECK(try_run(database, {}).finished.exit == exited(75));
  database.age("k", 2h);
  LiveRun run(database, {"--keep-on-failure", "1h", "--heartbeat", "300ms"}, sleeping_job);
  CHECK(
      dblock(database, {"release", "--key", "k", "--force", "--token", database.column("k", "token")}).exit ==
      exited(0));
  CHECK(run.wait() == exited(76));
  CHECK(runs(database, {}));
}

TEST_CASE("a skip with -E 0 prints nothing however long it waited") {
  const Database database;
  take(database);
  const auto skipped = try_run(database, {"-E", "0", "--wait", "400ms", "--warn-after", "50ms"});
  CHECK(skipped.finished.exit == exited(0));
  CHECK_FALSE(skipped.started);
  CHECK(skipped.finished.err.empty());
  CHECK(skipped.finished.out.empty());
  const auto counted =
      try_run(database, {"-E", "0", "--attempts", "2", "--backoff", "100ms", "--warn-after", "50ms"});
  CHECK(counted.finished.exit == exited(0));
  CHECK(counted.finished.err.empty());
}

TEST_CASE("once per period a job is started until it succeeds, and then no more",
          "[other-servers][asan-local]") {
  Database database;
  const TempDir directory;
  const Words options{"--once-per", "1h", "--status-file", directory.file("status")};
  const auto status = [&] { return json::parse(read_file(directory.file("status"))); };
  CHECK(dblock(database, run_words("k", options, sh("exit 3"))).exit == exited(3));
  CHECK(runs(database, options));
  CHECK(status().at("outcome") == "succeeded");

  const std::string row = database.row("k");
  const auto skipped = try_run(database, options);
  CHECK(skipped.finished.exit == exited(0));
  CHECK_FALSE(skipped.started);
  CHECK(skipped.finished.err.empty());
  CHECK(status().at("outcome") == "skipped");
  CHECK(status().at("exit_code") == 0);
  CHECK(status().at("owner").is_null());
  CHECK(status().at("token").is_null());
  CHECK(status().at("release") == "none");
  CHECK(says(status().at("message"), "(--once-per 1h)"));
  CHECK(database.row("k") == row);

  const auto told = try_run(database, {"--once-per", "1h", "-v"});
  CHECK_FALSE(told.started);
  CHECK(says(told.finished.err, "job under key \"k\" last succeeded in a run that began"));
  CHECK(says(try_run(database, {"--once-per", "1h"}, {"CI=true"}).finished.err, "--once-per"));

  database.age("k", 53min);
  CHECK_FALSE(runs(database, options));
  CHECK(runs(database, {}));  // who does not ask runs
  database.age("k", 54min);
  CHECK(runs(database, options));
}

TEST_CASE("a waiter does not repeat what its holder has done for the period") {
  Database database;
  const TempDir directory;
  LiveRun holder(database);
  std::deque<Process> waiters;
  for (int i = 0; i < 3; ++i) {
    waiters.emplace_back(dblock_spawn(database, run_words("k", {"-v", "--wait", "60s", "--once-per", "1h"},
                                                          {"touch", directory.file("second")})));
  }
  for (auto& waiter : waiters)
    REQUIRE(wait_until([&] { return says(waiter.err(), "waiting") || !waiter.running(); }));
  CHECK(holder.end() == exited(0));
  for (auto& waiter : waiters) {
    CHECK(waiter.wait() == exited(0));
    CHECK(says(waiter.err(), "--once-per"));
  }
  CHECK_FALSE(std::filesystem::exists(directory.file("second")));
}

TEST_CASE("a reap forgets no success before the period is over") {
  Database database;
  CHECK(runs(database, {"--once-per", "30d"}));
  database.set_number("k", "token", 1);  // as old as the rest will be
  const Words reap{"reap", "--forget-after", "1d"};
  database.age("k", 24h * 20);
  REQUIRE(dblock(database, reap).exit == exited(0));
  CHECK(database.has_row("k"));
  CHECK_FALSE(runs(database, {"--once-per", "30d"}));
  database.age("k", 24h * 10);
  REQUIRE(dblock(database, reap).exit == exited(0));
  CHECK_FALSE(database.has_row("k"));
}

TEST_CASE("a period goes by the wall clock, and a clock that was ahead holds nobody off", "[local]") {
  DBLOCK_NEEDS(why_no_faketime());
  for (const auto& [shift, skipping, starting] :
       {std::tuple{"-1d", "2d", "10h"}, std::tuple{"+1d", "30d", "2d"}}) {
    INFO(shift);
    const Database database;
    REQUIRE(runs(database, {}, clock_shifted_by(shift)));
    CHECK_FALSE(runs(database, {"--once-per", skipping}));
    CHECK(runs(database, {"--once-per", starting}));
  }
}

TEST_CASE("a clock that is set back does not keep a lock cooling down", "[local]") {
  DBLOCK_NEEDS(why_no_faketime());
  const Database database;
  REQUIRE(runs(database, {"--min-hold", "1h"}, clock_shifted_by("+1d")));
  CHECK(runs(database, {}));
}

TEST_CASE("tries are counted and come after the pauses that were asked for") {
  const Database database;
  take(database);
  const Words env{"DBLOCK_ATTEMPTS=3", "DBLOCK_BACKOFF=200ms", "DBLOCK_BACKOFF_MULTIPLIER=2"};
  const auto took = [&](const Words& options, const Words& set) {
    const auto before = steady_clock::now();
    const auto tried = try_run(database, options, set);
    INFO(tried.finished.err);
    CHECK(tried.finished.exit == exited(75));
    CHECK(ends_with_exit_line(tried.finished.err, 75));
    return steady_clock::now() - before;
  };
  for (const auto& [options, set] :
       {std::pair{Words{"--attempts", "3", "--backoff", "200ms", "--backoff-multiplier", "2"}, Words{}},
        std::pair{Words{}, env}}) {
    const auto whole = took(options, set);
    CHECK(whole >= 600ms);
    CHECK(whole < patience());
  }
  const Words pauses_too_long{"DBLOCK_ATTEMPTS=3", "DBLOCK_BACKOFF=1h"};
  CHECK(took({"--attempts", "1"}, pauses_too_long) < patience());
  const auto limited = took({"--wait", "250ms"}, pauses_too_long);
  CHECK(limited >= 250ms);
  CHECK(limited < patience());
}

TEST_CASE("a counted try gets the lock when it has become free") {
  const Database database;
  take(database, "k", {"--ttl", "1s", "--margin", "0"});
  CHECK(runs(database, {"--attempts", "100", "--backoff", "100ms", "--backoff-multiplier", "1"}));
  CHECK(dblock(database, {"acquire", "--key", "k", "--ttl", "1s", "--margin", "0"}).exit == exited(0));
  CHECK(dblock(database, {"acquire", "--key", "k", "--ttl", "1s", "--attempts", "20", "--backoff", "200ms"})
            .exit == exited(0));
}

TEST_CASE("a signal ends a pause between tries at once", "[asan-local]") {
  const Database database;
  take(database);
  Process waiter = waiting_run(database, {"--attempts", "9", "--backoff", "1h"});
  waiter.signal(SIGTERM);
  CHECK(waiter.wait() == killed_by(SIGTERM));
}

TEST_CASE("a server that cannot be reached uses up the tries", "[server]") {
  const auto before = steady_clock::now();
  const auto finished =
      dblock_at(k_no_server, run_words("k", {"--attempts", "3", "--backoff", "200ms"}, {"true"}));
  check_ended(finished, 69);
  CHECK(steady_clock::now() - before >= 500ms);
  CHECK(steady_clock::now() - before < patience());
}

TEST_CASE("a server that comes up between tries is found", "[server]") {
  Server server;
  ServerDatabase database(server.address());
  server.stop_gracefully();
  Process waiter(dblock_spawn(
      database,
      run_words("k", {"--attempts", "600", "--backoff", "100ms", "--backoff-multiplier", "1"}, {"true"})));
  REQUIRE(soon_says(waiter, "trying again"));
  server.start();
  CHECK(waiter.wait() == exited(0));
}

TEST_CASE("promises and counted tries that make no sense are usage errors before anything is done") {
  const Database database;
  for (const Words& options :
       {Words{"--min-hold", "5"}, Words{"--min-hold", "-1s"}, Words{"--min-hold", "forever"},
        Words{"--min-hold", "400d"}, Words{"--once-per", "0"}, Words{"--once-per", "daily"},
        Words{"--attempts", "0"}, Words{"--attempts", "many"}, Words{"--backoff", "2s"},
        Words{"--backoff-multiplier", "2"}, Words{"--attempts", "2", "--backoff", "0"},
        Words{"--attempts", "2", "--backoff-multiplier", "0.5"},
        Words{"--attempts", "2", "--backoff-multiplier", "nan"}}) {
    const auto tried = try_run(database, options);
    INFO(tried.finished.err);
    CHECK(tried.finished.exit == exited(64));
    CHECK(ends_with_exit_line(tried.finished.err, 64));
    CHECK(says(tried.finished.err, options.at(options.size() - 2) + ": "));
    CHECK_FALSE(tried.started);
  }
  CHECK(dblock(database, {"acquire", "--key", "k", "--ttl", "9s", "--once-per", "1d"}).exit == exited(64));
  CHECK(database.rows() == 0);
}

TEST_CASE("one job in a period is refused with readers and slots, which start side by side") {
  const Database database;
  for (const Words& options :
       {Words{"--once-per", "1h", "--slots", "2"}, Words{"--once-per", "1h", "--shared"}}) {
    const auto tried = try_run(database, options);
    check_ended(tried.finished, 64,
                {"--once-per lets one job start in a period, and --", "leave one of them out"});
    CHECK_FALSE(tried.started);
  }
  CHECK(database.rows() == 0);
}

}  // namespace
}  // namespace dblock::test
