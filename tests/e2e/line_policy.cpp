// run --line, --replace and --replaceable: who waits, who leaves, and what the one who leaves is told.
#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

const Words k_line_one{"--line", "one", "--wait", "60s"};
const Words k_line_newest{"--line", "newest", "--wait", "60s"};
const Words k_brisk{"--ttl", "4s", "--heartbeat", "300ms", "--kill-grace", "500ms"};

std::string promised_to(const Database& database) {
  const std::string owner = database.column("k", "promised_to");
  return owner == "NULL" ? "" : owner;
}

// A run that waits with a line policy, once the next grant is promised to it.
Process standing(const Database& database, const Words& options, const Words& job = {"true"}) {
  const std::string before = promised_to(database);
  Process run(dblock_spawn(database, run_words("k", options, job)));
  REQUIRE(wait_until([&] { return promised_to(database) != before; }));
  return run;
}

TEST_CASE("of --line one runs a single one waits, and the others leave and say for whom") {
  const Database database;
  LiveRun holder(database);
  Process first = standing(database, k_line_one);
  for (int i = 0; i < 2; ++i) {
    check_ended(dblock(database, run_words("k", k_line_one, {"true"})), 75,
                {"is held by ", "another run waits already: ", "(--line one)"});
  }
  CHECK(first.running());
  CHECK(holder.end() == exited(0));
  CHECK(first.wait() == exited(0));
  CHECK(promised_to(database).empty());
  CHECK(run_true(database) == exited(0));
}

TEST_CASE("a killed --line one waiter makes room for the next, and a run with a grant does too") {
  const Database database;
  LiveRun holder(database);
  Process first = standing(database, k_line_one);
  first.signal(SIGKILL);
  CHECK(first.wait() == killed_by(SIGKILL));
  Process second = standing(database, k_line_one);
  CHECK(holder.end() == exited(0));
  CHECK(second.wait() == exited(0));
  LiveRun next(database, k_line_one);
  Process third = standing(database, k_line_one);
  CHECK(next.end() == exited(0));
  CHECK(third.wait() == exited(0));
}

TEST_CASE("a --line newest waiter leaves when a newer one comes, and says for whom",
          "[other-servers][asan-server]") {
  const Database database;
  const TempDir directory;
  LiveRun holder(database);
  const auto job = [&](const char* name) {
    return sh("echo " + std::string(name) + " >>" + directory.file("ran"));
  };
  Process first = standing(database, k_line_newest, job("first"));
  Process second = standing(database, k_line_newest, job("second"));
  check_ends(first, 75, {"a newer run has come: ", "(--line newest)"});
  Process third = standing(database, k_line_newest, job("third"));
  check_ends(second, 75, {"a newer run has come: "});
  CHECK(holder.end() == exited(0));
  CHECK(third.wait() == exited(0));
  CHECK(read_file(directory.file("ran")) == "third\n");
}

TEST_CASE("a signal takes a waiter out of the line at once, and with it the promise", "[other-servers]") {
  const Database database;
  LiveRun holder(database);
  Process waiter = standing(database, k_line_newest);
  waiter.signal(SIGTERM);
  CHECK(waiter.wait() == killed_by(SIGTERM));
  CHECK(promised_to(database).empty());
  CHECK(holder.end() == exited(0));
  CHECK(run_true(database) == exited(0));
}

TEST_CASE("no run overtakes a waiter with a line policy") {
  const Database database;
  const TempDir directory;
  LiveRun holder(database);
  Process waiter = standing(database, k_line_one, sh("echo waiter >>" + directory.file("ran")));
  waiter.freeze();
  CHECK(holder.end() == exited(0));
  // The lock is free, and the waiter's promise has not ended yet.
  const auto hasty = dblock(database, run_words("k", {}, sh("echo hasty >>" + directory.file("ran"))));
  if (hasty.exit == exited(75)) CHECK(says(hasty.err, "is free, but promised to "));
  // A frozen waiter keeps the lock from others no longer than its promise.
  CHECK(dblock(database, run_words("k", {"--wait", "60s"}, {"true"})).exit == exited(0));
  waiter.signal(SIGCONT);
  CHECK(waiter.wait() == exited(0));
}

TEST_CASE("a free lock that is kept for a run that waits for it is not free by inspect's exit-code") {
  const Database database;
  const auto exit_code = [&] { return dblock(database, {"inspect", "--key", "k", "--exit-code"}).exit; };
  const auto seen_kept = [&] {
    const std::string owner = take(database);
    Process waiter = waiting_run(database, k_line_one);
    check_ended(dblock(database, run_words("k", k_line_one, {"true"})), 75, {"another run waits already: "});
    waiter.freeze();
    release_lease(database, owner);
    const Exit seen = exit_code();
    waiter.signal(SIGCONT);
    CHECK(waiter.wait() == exited(0));
    return seen == exited(75);
  };
  // The lock is kept for a frozen run for two seconds at least: a machine that takes longer to look tries
  // again.
  CHECK(wait_until(seen_kept));
  CHECK(exit_code() == exited(0));
}

TEST_CASE("thirty --line newest runs end as one that ran and others that left, whatever is killed") {
  const Database database;
  const TempDir directory;
  LiveRun holder(database);
  std::vector<Process> runs;
  for (int i = 0; i < 30; ++i) {
    runs.emplace_back(
        dblock_spawn(database, run_words("k", k_line_newest, sh("echo >>" + directory.file("ran")))));
    if (i % 7 == 3) runs.back().signal(SIGKILL);
  }
  int left = 0;
  CHECK(wait_until([&] {
    left = 0;
    for (auto& run : runs) left += run.running() ? 1 : 0;
    return left == 1;
  }));
  CHECK(holder.end() == exited(0));
  int ran = 0, refused = 0;
  for (auto& run : runs) {
    const Exit exit = run.wait();
    ran += exit == exited(0) ? 1 : 0;
    refused += exit == exited(75) ? 1 : 0;
  }
  CHECK(ran == 1);
  CHECK(refused == 25);
  CHECK(lines(read_file(directory.file("ran"))).size() == 1);
}

TEST_CASE("a --replace run revokes a replaceable holder, which says for whom it stops", "[asan-local]") {
  const Database database;
  LiveRun old(database, with(k_brisk, {"--replaceable"}), sleeping_job);
  Process newer(
      dblock_spawn(database, run_words("k", {"--replace", "--replaceable", "--wait", "60s"}, {"true"})));
  check_ends(old, 76, {"was revoked by ", "(--replace)"});
  CHECK(newer.wait() == exited(0));
}

TEST_CASE("without --wait a --replace run waits for the end of a holder that it revokes, and of no other") {
  const Database database;
  LiveRun other(database, k_brisk);
  check_ended(dblock(database, run_words("k", {"--replace"}, {"true"})), 75, {"is held by "});
  CHECK(other.end() == exited(0));
  LiveRun old(database, with(k_brisk, {"--replaceable"}), sleeping_job);
  CHECK(dblock(database, run_words("k", {"--replace"}, {"true"})).exit == exited(0));
  check_ends(old, 76, {"(--replace)"});
}

TEST_CASE("a replaceable holder of a paused lock goes on, since nobody could take its place") {
  const Database database;
  LiveRun old(database, with(k_brisk, {"--replaceable"}));
  REQUIRE(dblock(database, {"pause", "-k", "k", "--for", "1h"}).exit == exited(0));
  check_ended(dblock(database, run_words("k", {"--replace", "--wait", "300ms"}, {"true"})), 75,
              {"paused until "});
  CHECK(database.column("k", "revoke_time") == "NULL");
  CHECK(old.end() == exited(0));
}

TEST_CASE("a holder that is not replaceable is waited for as usual") {
  const Database database;
  LiveRun old(database, k_brisk);
  Process newer = waiting_run(database, {"--replace", "--wait", "60s"});
  CHECK(soon_renewed(database));
  CHECK(database.column("k", "revoke_time") == "NULL");
  CHECK(old.end() == exited(0));
  CHECK(newer.wait() == exited(0));
}

TEST_CASE("of a row of pipelines that replace each other the last one runs") {
  const Database database;
  const TempDir directory;
  const Words options{"--ttl",         "1m",     "--heartbeat", "300ms",  "--kill-grace", "20s", "--replace",
                      "--replaceable", "--line", "newest",      "--wait", "60s"};
  // Told to stop by the second pipeline, it goes on until the last one alone stands in line.
  LiveRun first(database, options, [&](const TempDir& own) {
    return sh("trap '" + await_in_shell(directory.file("end")) + "; exit 1' TERM; touch " + own.file("up") +
              "; " + k_for_ever);
  });
  std::vector<Process> pipelines;
  for (const std::string name : {"2", "3", "4"})
    pipelines.emplace_back(standing(database, options, sh("echo " + name + " >>" + directory.file("ran"))));
  check_ends(pipelines[0], 75, {"a newer run has come: "});
  check_ends(pipelines[1], 75, {"a newer run has come: "});
  write_file(directory.file("end"), "");
  check_ends(first, 76, {"(--replace)"});
  CHECK(pipelines.back().wait() == exited(0));
  CHECK(read_file(directory.file("ran")) == "4\n");
}

TEST_CASE("a holder that somebody revokes by hand says who") {
  const Database database;
  LiveRun run(database, k_brisk, sleeping_job);
  CHECK(dblock(database, {"release", "--key", "k", "--force", "--token", database.column("k", "token")},
               {"DBLOCK_HOLDER=op@desk"})
            .exit == exited(0));
  check_ends(run, 76, {"was revoked by op@desk (dblock release --force)"});
}

TEST_CASE("what does not go with --line and --replace is 64") {
  const Database database;
  const auto refused = [&](const Words& options, const char* why) {
    check_ended(dblock(database, run_words("k", options, {"true"})), 64, {why});
  };
  refused({"--line", "one", "--shared"}, "--line is for one exclusive lock");
  refused({"--line", "newest", "--key", "other"}, "--line is for one exclusive lock");
  refused({"--line", "one", "--attempts", "3"}, "without --attempts");
  refused({"--line", "last"}, "fifo");
}

}  // namespace
}  // namespace dblock::test
