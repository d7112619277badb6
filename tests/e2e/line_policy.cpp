// run --line, --replace and --replaceable: who waits, who leaves, and what the one who leaves is told.
#include <algorithm>
#include <optional>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/proxy.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

const Words k_line_one{"--line", "one", "--wait", "60s"};
const Words k_line_newest{"--line", "newest", "--wait", "60s"};
const Words k_brisk{"--ttl", "60s", "--heartbeat", "300ms", "--kill-grace", "500ms"};

TEST_CASE("of --line one runs a single one waits, and the others leave and say for whom") {
  const Database database;
  LiveRun holder(database);
  Process first = waiting_run(database, k_line_one);
  for (int i = 0; i < 2; ++i) {
    check_ended(dblock(database, run_words("k", k_line_one, {"true"})), 75,
                {"is held by ", "another run waits already: ", "(--line one)"});
  }
  CHECK(first.running());
  CHECK(holder.end() == exited(0));
  CHECK(first.wait() == exited(0));
  CHECK(database.line().empty());
  CHECK(run_true(database) == exited(0));
}

TEST_CASE("a killed --line one waiter makes room for the next, and a run with a grant does too") {
  const Database database;
  LiveRun holder(database);
  Process first = waiting_run(database, k_line_one);
  first.signal(SIGKILL);
  CHECK(first.wait() == killed_by(SIGKILL));
  REQUIRE(soon_in_line(database, 0));
  Process second = waiting_run(database, k_line_one);
  CHECK(holder.end() == exited(0));
  CHECK(second.wait() == exited(0));
  LiveRun next(database, k_line_one);
  Process third = waiting_run(database, k_line_one);
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
  Process first = waiting_run(database, k_line_newest, job("first"));
  Process second = waiting_run(database, k_line_newest, job("second"));
  check_ends(first, 75, {"a newer run has come: ", "(--line newest)"});
  Process third = waiting_run(database, k_line_newest, job("third"));
  check_ends(second, 75, {"a newer run has come: "});
  CHECK(holder.end() == exited(0));
  CHECK(third.wait() == exited(0));
  CHECK(read_file(directory.file("ran")) == "third\n");
}

TEST_CASE("a frozen --line newest waiter does not run after a newer one") {
  const Database database;
  const TempDir directory;
  LiveRun holder(database);
  Process old = waiting_run(database, k_line_newest, sh("echo old >>" + directory.file("ran")));
  old.freeze();
  Process newer = waiting_run(database, k_line_newest, sh("echo newer >>" + directory.file("ran")));
  CHECK(holder.end() == exited(0));
  CHECK(newer.wait() == exited(0));
  old.signal(SIGCONT);
  check_ends(old, 75, {"a newer run has come", "(--line newest)"});
  CHECK(read_file(directory.file("ran")) == "newer\n");
}

TEST_CASE("a signal takes a waiter out of the line at once", "[other-servers]") {
  const Database database;
  LiveRun holder(database);
  const bool newest = GENERATE(true, false);
  CAPTURE(newest);
  const Words options = newest ? k_line_newest : Words{"--wait", "60s"};
  Process waiter = waiting_run(database, options);
  waiter.signal(SIGTERM);
  CHECK(waiter.wait() == killed_by(SIGTERM));
  CHECK(database.line().empty());
  CHECK(holder.end() == exited(0));
  CHECK(run_true(database) == exited(0));
}

TEST_CASE(
    "of thirty --line newest runs the one that came last runs, and the others leave, whatever is killed") {
  const Database database;
  const TempDir directory;
  LiveRun holder(database);
  const auto job = [&](const std::string& name) {
    return sh("echo " + name + " >>" + directory.file("ran"));
  };
  std::vector<Process> runs;
  for (int i = 0; i < 29; ++i) {
    runs.emplace_back(
        dblock_spawn(database, run_words("k", k_line_newest, job("number-" + std::to_string(i)))));
    if (i % 7 == 3) runs.back().signal(SIGKILL);
  }
  // The others have come before it: of them only one waits any more.
  const auto still_there = [&] {
    return std::ranges::count_if(runs, [](Process& run) { return run.running(); });
  };
  CHECK(wait_until([&] { return still_there() == 1; }));
  Process last = waiting_run(database, k_line_newest, job("last"));
  int refused = 0;
  for (auto& run : runs) refused += run.wait() == exited(75) ? 1 : 0;
  CHECK(refused == 25);
  CHECK(holder.end() == exited(0));
  CHECK(last.wait() == exited(0));
  CHECK(read_file(directory.file("ran")) == "last\n");
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
    pipelines.push_back(waiting_run(database, options, sh("echo " + name + " >>" + directory.file("ran"))));
  check_ends(pipelines[0], 75, {"a newer run has come: "});
  check_ends(pipelines[1], 75, {"a newer run has come: "});
  write_file(directory.file("end"), "");
  check_ends(first, 76, {"(--replace)"});
  CHECK(pipelines.back().wait() == exited(0));
  CHECK(read_file(directory.file("ran")) == "4\n");
}

TEST_CASE(
    "of pipelines that start while the one before runs each replaces it, and the newest runs to its end",
    "[other-servers]") {
  const Database database;
  const Words options = with(k_brisk, {"--replace", "--replaceable"});
  LiveRun first(database, options, sleeping_job);
  LiveRun second(database, options, sleeping_job);
  LiveRun third(database, options);
  check_ends(first, 76, {"was revoked by ", "(--replace)"});
  check_ends(second, 76, {"was revoked by ", "(--replace)"});
  CHECK(third.end() == exited(0));
}

TEST_CASE(
    "of three pipelines that start at once one runs to its end, last, and none leaves but for a newer one") {
  const Database database;
  const TempDir directory;
  const Words options = with(k_brisk, {"--replace", "--replaceable", "--wait", "60s"});
  std::vector<Process> pipelines;
  for (const std::string name : {"1", "2", "3"}) {
    pipelines.emplace_back(
        dblock_spawn(database, run_words("k", options,
                                         sh("echo " + name + " >>" + directory.file("ran") + "; " +
                                            await_in_shell(directory.file("end"))))));
  }
  const auto under_way = [&] {
    return std::ranges::count_if(pipelines, [](Process& run) { return run.running(); });
  };
  REQUIRE(wait_until([&] { return under_way() == 1; }));
  // It may still wait for the end of the one that it replaces.
  REQUIRE(wait_until([&] { return database.has_holder("k") && database.line().empty(); }));
  write_file(directory.file("end"), "");
  Words ran_to_the_end;
  for (std::size_t i = 0; i < pipelines.size(); ++i) {
    const Exit exit = pipelines[i].wait();
    INFO(exit << " " << pipelines[i].err());
    if (exit == exited(0)) ran_to_the_end.push_back(std::to_string(i + 1));
    if (exit == exited(75)) CHECK(says(pipelines[i].err(), "a newer run has come"));
    CHECK((exit == exited(0) || exit == exited(75) || exit == exited(76)));
  }
  CHECK(ran_to_the_end == Words{last_line(read_file(directory.file("ran")))});
}

TEST_CASE("a --replace run without a network for longer than its place counts revokes no newer holder",
          "[server]") {
  ServerDatabase database;
  LiveRun holder(database, k_brisk);
  Proxy proxy(database.server());
  Process old(
      dblock_spawn_at(proxy.url(database.name()), run_words("k", {"--replace", "--wait", "60s"}, {"true"})));
  REQUIRE(soon_in_line(database, 1));
  proxy.stall();
  CHECK(holder.end() == exited(0));
  // It passes the place that does not count any more.
  LiveRun newer(database, with(k_brisk, {"--replaceable", "--wait", "60s"}));
  proxy.resume();
  check_ends(old, 75, {"a newer run has come"});
  CHECK(database.column("k", "revoke_time") == "NULL");
  CHECK(newer.end() == exited(0));
}

// Another holder that came later, while the older run was frozen.
class NewerHolder {
 public:
  // The older run has these options, and is frozen when the newer one has begun.
  explicit NewerHolder(const Words& options)
      : holder_(database_, k_brisk), old_(waiting_run(database_, options)) {
    old_.freeze();
    CHECK(holder_.end() == exited(0));
    newer_.emplace(database_, with(k_brisk, {"--replaceable", "--wait", "60s"}));
  }
  [[nodiscard]] const Database& database() const { return database_; }
  [[nodiscard]] Process& old() { return old_; }
  [[nodiscard]] LiveRun& newer() { return *newer_; }

 private:
  const Database database_;
  LiveRun holder_;
  Process old_;
  std::optional<LiveRun> newer_;
};

TEST_CASE("a --replace run that was frozen leaves for a newer holder, and does not revoke it",
          "[other-servers]") {
  NewerHolder t({"--replace", "--wait", "60s"});
  t.old().signal(SIGCONT);
  check_ends(t.old(), 75, {"a newer run has come"});
  CHECK(t.database().column("k", "revoke_time") == "NULL");
  CHECK(t.newer().end() == exited(0));
}

TEST_CASE("a --replace run that was frozen and may wait for a newer holder does not revoke it") {
  NewerHolder t({"--replace", "--line", "fifo", "--wait", "60s"});
  t.old().signal(SIGCONT);
  REQUIRE(soon_in_line(t.database(), 1));
  await_look_of_waiter(t.database());
  CHECK(t.database().column("k", "revoke_time") == "NULL");
  CHECK(t.newer().end() == exited(0));
  CHECK(t.old().wait() == exited(0));
}

TEST_CASE("a --replace run whose revocation was done and not answered runs", "[server][other-servers]") {
  ServerDatabase database;
  const Words options = GENERATE(Words{"--replace"}, Words{"--replace", "--wait", "60s"});
  LiveRun old(database, with(k_brisk, {"--replaceable"}), sleeping_job);
  Proxy proxy(database.server());
  proxy.cut(Proxy::Cut::before_reply, containing("revoke_time=IF(lock_value IS NULL"));
  const auto newer = dblock_at(proxy.url(database.name()), run_words("k", options, {"true"}));
  INFO(newer.err);
  CHECK(newer.exit == exited(0));
  CHECK(proxy.cuts() == 1);
  check_ends(old, 76, {"was revoked by ", "(--replace)"});
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
