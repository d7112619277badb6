// run --any: a pool of locks, of which a run takes the first that is free.
#include <atomic>
#include <thread>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

Words pool(const Words& options, const Words& job, int members = 3) {
  Words words{"run"};
  for (int i = 1; i <= members; ++i) words = with(words, {"--any", "env" + std::to_string(i)});
  return with(with(with(words, options), {"--"}), job);
}

// A job that takes the folder of its lock's name, and so fails where another job has the same member.
Words careful_job(const TempDir& directory, const std::string& then = "sleep 0.05") {
  return sh("mkdir " + directory.path() + "/$DBLOCK_KEY && " + then + " && rmdir " + directory.path() +
            "/$DBLOCK_KEY && echo $DBLOCK_KEY >>" + directory.file("ran"));
}

TEST_CASE("a run takes the first free lock of its pool, and tells the job which") {
  const Database database;
  const Words print{"printenv", "DBLOCK_KEY"};
  CHECK(dblock(database, pool({}, print)).out == "env1\n");
  LiveRun first(database, {}, patient_job, "env1");
  const auto second = dblock(database, pool({}, print));
  CHECK(second.exit == exited(0));
  CHECK(second.out == "env2\n");
  LiveRun other(database, {"--shared"}, patient_job, "env2");
  CHECK(dblock(database, pool({}, print)).out == "env3\n");
  LiveRun last(database, {}, patient_job, "env3");
  check_ended(dblock(database, pool({}, print)), 75,
              {"none of locks \"env1\", \"env2\", \"env3\" is free: lock \"env", " is held by "});
}

TEST_CASE("a waiting run of a pool takes whichever member becomes free", "[asan-server]") {
  const Database database;
  std::vector<std::unique_ptr<LiveRun>> holders;
  for (const char* const key : {"env1", "env2", "env3"})
    holders.push_back(std::make_unique<LiveRun>(database, Words{}, patient_job, key));
  for (const std::size_t freed : {1U, 2U}) {
    Process waiter(dblock_spawn(database, pool({"-v", "--wait", "60s"}, {"printenv", "DBLOCK_KEY"})));
    REQUIRE(soon_says(waiter, "waiting: "));
    CHECK(holders[freed]->end() == exited(0));
    CHECK(waiter.wait() == exited(0));
    CHECK(waiter.out() == "env" + std::to_string(freed + 1) + "\n");
    holders[freed] =
        std::make_unique<LiveRun>(database, Words{}, patient_job, "env" + std::to_string(freed + 1));
  }
}

TEST_CASE("a paused member of a pool is passed over") {
  const Database database;
  REQUIRE(dblock(database, {"pause", "-k", "env1", "--for", "1h"}).exit == exited(0));
  CHECK(dblock(database, pool({}, {"printenv", "DBLOCK_KEY"})).out == "env2\n");
  REQUIRE(dblock(database, {"pause", "--prefix", "env", "--for", "1h"}).exit == exited(0));
  check_ended(dblock(database, pool({}, {"true"})), 75, {"is paused until "});
}

TEST_CASE("many runs of a pool never share a member, and all come to their turn", "[safety]") {
  const Database database;
  const TempDir directory;
  std::vector<Process> runs;
  for (int i = 0; i < 30; ++i)
    runs.emplace_back(dblock_spawn(database, pool({"--wait", "120s"}, careful_job(directory))));
  check_all_succeed(runs, 120s);
  CHECK(lines(read_file(directory.file("ran"))).size() == 30);
}

TEST_CASE("waiting runs of a pool are served in the order of their arrival") {
  const Database database;
  const TempDir directory;
  LiveRun holder(database, {}, patient_job, "env1");
  std::vector<Process> waiters;
  for (const std::string name : {"1", "2", "3", "4"}) {
    waiters.emplace_back(dblock_spawn(
        database, pool({"-v", "--wait", "120s"}, sh("echo " + name + " >>" + directory.file("log")), 1)));
    REQUIRE(soon_says(waiters.back(), "waiting: "));
  }
  CHECK(holder.end() == exited(0));
  check_all_succeed(waiters);
  CHECK(lines(read_file(directory.file("log"))) == Words{"1", "2", "3", "4"});
}

// Each member has runs of its own in its line, which are woken at once when it becomes free.
TEST_CASE("a run of a pool whose members all have waiters of their own gets its turn") {
  const Database database;
  std::atomic<bool> over = false;
  std::vector<std::thread> crowds;
  for (const std::string key : {"env1", "env1", "env1", "env2", "env2", "env2"})
    crowds.emplace_back([&, key] {
      while (!over) dblock(database, run_words(key, {"--wait", "60s"}, {"sleep", "0.3"}));
    });
  REQUIRE(soon_held(database, "env1"));
  REQUIRE(soon_held(database, "env2"));
  std::vector<Process> runs;
  for (int i = 0; i < 2; ++i) runs.emplace_back(dblock_spawn(database, pool({"--wait", "60s"}, {"true"}, 2)));
  check_all_succeed(runs, 30s * slowness());  // in no line they took 52 s
  over = true;
  for (auto& crowd : crowds) crowd.join();
}

TEST_CASE("a killed run of a pool leaves its member free at once, and the others alone") {
  const Database database;
  LiveRun first(database, {}, patient_job, "env1");
  const TempDir directory;
  Process run(dblock_spawn(database, pool({}, sleeping_job(directory))));
  await_file(run, directory.file("up"));
  REQUIRE(database.has_holder("env2"));
  run.signal(SIGKILL);
  CHECK(soon_free(database, "env2"));
  CHECK(database.has_holder("env1"));
  CHECK(first.end() == exited(0));
}

TEST_CASE("a run of a pool inside a run takes a member of its own") {
  const Database database;
  const auto outer =
      dblock(database, pool({}, sh(quoted(dblock_words(pool({}, {"printenv", "DBLOCK_KEY"}))))));
  INFO(outer.err);
  CHECK(outer.out == "env2\n");
}

TEST_CASE("inspect shows the waiters of a pool at each of its members", "[other-servers]") {
  const Database database;
  LiveRun one(database, {}, patient_job, "env1");
  LiveRun two(database, {}, patient_job, "env2");
  Process first(dblock_spawn(database, pool({"-v", "--wait", "60s"}, {"true"}, 2)));
  REQUIRE(soon_says(first, "waiting: "));
  Process second(dblock_spawn(database, pool({"-v", "--wait", "60s"}, {"true"}, 2)));
  REQUIRE(soon_says(second, "waiting: "));
  for (const auto& lock : inspected(database).at("locks")) CHECK(lock.at("waiters").size() == 2);
  CHECK(one.end() == exited(0));
  CHECK(first.wait() == exited(0));
  CHECK(second.wait() == exited(0));
}

TEST_CASE("what does not go with --any is 64") {
  const Database database;
  const auto refused = [&](const Words& options, const char* why) {
    check_ended(dblock(database, pool(options, {"true"})), 64, {why});
  };
  refused({"--key", "k"}, "choose one of --key, a lock, and --any");
  refused({"--once-per", "1h"}, "--once-per asks for the last success under one key");
  refused({"--line", "one"}, "--line is for one exclusive lock");
  refused({"--replace", "--wait", "1s"}, "--replace does not go with --any or --attempts");
  refused({"--any", ""}, "must not be empty");
}

}  // namespace
}  // namespace dblock::test
