// dblock, its guardian or the database fail while a run pauses before it starts its job again (--retry).
#include "support/live_run.hpp"
#include "support/retried.hpp"

namespace dblock::test {
namespace {

// A pause that is long enough for a test to do something in it.
const Words k_soon{"-v", "--retry", "1", "--retry-delay", "2s"};

}  // namespace

TEST_CASE("kill -9 of dblock in the pause before an attempt: nothing is started and the lock is free at once",
          "[safety][tsan]") {
  const Database database;
  PausedRun run(database, {"--ttl", "3h"}, "exit 3", k_soon);
  run.signal(SIGKILL);
  CHECK(run.wait() == killed_by(SIGKILL));
  CHECK(soon_free(database));
  CHECK(soon_gone(run));
  CHECK(run.attempts() == Words{"1"});
  CHECK(database.column("k", "last_outcome") == "failed");
  CHECK(run_true(database) == exited(0));
}

TEST_CASE("kill -9 of the guardian in the pause before an attempt: the next attempt has another",
          "[safety]") {
  const Database database;
  PausedRun run(database, {}, "test $DBLOCK_ATTEMPT = 2", k_soon);
  ::kill(guardian_of(run), SIGKILL);
  CHECK(run.wait() == exited(0));
  CHECK(run.attempts() == Words{"1", "2"});
  CHECK(soon_gone(run));
}

TEST_CASE(
    "kill -9 of dblock and guardian in the pause before an attempt: nothing is started, and the lease ends",
    "[safety]") {
  const Database database;
  PausedRun run(database, {"--ttl", "2s", "--margin", "500ms"});
  kill_with_guardian(run);
  CHECK(soon_gone(run));
  CHECK(database.has_holder("k"));
  CHECK(run_true(database, "k", {"--wait", "60s"}) == exited(0));
  CHECK(run.attempts() == Words{"1"});
}

TEST_CASE("a dblock that was frozen in the pause until its lease was over starts nothing", "[safety]") {
  const Database database;
  PausedRun run(database, {"--ttl", "2s"}, "exit 3", k_soon);
  run.freeze();
  pause_for(2500ms);  // longer than lease and pause
  run.signal(SIGCONT);
  CHECK(run.wait() == exited(76));
  CHECK(run.attempts() == Words{"1"});
}

TEST_CASE(
    "a server that is silent in the pause until the lease is nearly over ends the run, which starts nothing",
    "[server][safety]") {
  Server server;
  const ServerDatabase database(server.address());
  PausedRun run(database, {"--ttl", "3s", "--heartbeat", "400ms", "--kill-grace", "500ms"});
  server.freeze();
  CHECK(run.wait() == exited(76));
  server.thaw();
  CHECK(says(last_line(run.err()), "; the job had failed by then, and was not started again"));
  CHECK(run.attempts() == Words{"1"});
}

TEST_CASE(
    "dblock or guardian killed in a further attempt: the tree is dead and the lock free, as in the first",
    "[safety]") {
  const Database database;
  const Words again{"-v", "--ttl", "3h", "--kill-grace", "1h", "--retry", "1", "--retry-delay", "0"};
  for (const bool guardian : {false, true}) {
    const LiveRun::Job job = [](const TempDir& directory) {
      return sh("test $DBLOCK_ATTEMPT = 2 || exit 1; trap '' TERM; sleep 600 & touch " +
                directory.file("up") + "; wait; wait");
    };
    LiveRun run(database, again, job);
    CAPTURE(guardian);
    ::kill(guardian ? guardian_of(run) : run.pid(), SIGKILL);
    CHECK(run.wait() == (guardian ? exited(70) : killed_by(SIGKILL)));
    CHECK(soon_gone(run));
    CHECK(soon_free(database));
    CHECK(run_true(database) == exited(0));
  }
}

TEST_CASE("a run that cannot start its job again ends as the attempt before did, and says so") {
  const Database database;
  PausedRun run(database, {}, "exit 3", k_soon);
  for (const pid_t starter : named("dblock-starter", run.tree())) ::kill(starter, SIGKILL);
  CHECK(run.wait() == exited(3));
  CHECK(says(
      run.err(),
      "dblock: warning: attempt 2 of 2 could not be started: the process that starts guardians is gone"));
  CHECK(run.attempts() == Words{"1"});
  CHECK_FALSE(database.has_holder("k"));
  CHECK(soon_gone(run));
}

TEST_CASE(
    "kill -9 of dblock at any moment around the start of a further attempt frees the lock, and leaves no job",
    "[safety]") {
  const Database database;
  for (int delay_ms = 0; delay_ms < 20; ++delay_ms) {
    PausedRun run(database, {"--ttl", "3h"}, "test $DBLOCK_ATTEMPT = 1 || exec sleep 600; exit 3",
                  {"-v", "--retry", "1", "--retry-delay", "10ms"});
    pause_for(milliseconds(delay_ms));
    run.signal(SIGKILL);
    INFO("after " << delay_ms << " ms");
    CHECK(run.wait() == killed_by(SIGKILL));
    CHECK(soon_gone(run));
    CHECK(soon_free(database));
  }
}

}  // namespace dblock::test
