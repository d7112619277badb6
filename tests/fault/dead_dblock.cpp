// dblock or its guardian killed or frozen: the job's whole tree is gone before anyone else may have the lock.
#include <sys/wait.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/overlap.hpp"
#include "support/privilege.hpp"
#include "support/steps.hpp"
#include "support/tracer.hpp"

namespace dblock::test {
namespace {

using std::chrono::steady_clock;

// A stop that went by the grace, or a lock that stayed until its lease ended, would take an hour.
const Words k_an_hour_to_stop{"--ttl", "3h", "--kill-grace", "1h"};

TEST_CASE("kill -9 of dblock: the tree is dead within a second and the lock is free right after",
          "[tsan][timing][safety]") {
  Database database;
  CHECK(best_of_some(1s, [&] {
          TreeRun run(database, k_an_hour_to_stop);
          const auto before = steady_clock::now();
          run.signal(SIGKILL);
          CHECK(wait_until([&] { return run.job_dead(); }));
          const auto took = steady_clock::now() - before;
          CHECK(soon_free(database));
          CHECK(soon_gone(run));
          return took;
        }) < 1s);
  CHECK(run_true(database) == exited(0));
}

TEST_CASE(
    "kill -9 of dblock while its server is silent: the tree is dead at once, and the lock stays until lease "
    "and "
    "margin end",
    "[server][safety]") {
  Server server;
  ServerDatabase database(server.address());
  TreeRun run(database, {"--ttl", "8s", "--margin", "1s"});
  server.freeze();
  run.signal(SIGKILL);
  CHECK(wait_until([&] { return run.job_dead(); }));
  const auto dead_at = steady_clock::now();
  CHECK(soon_gone(run));
  CHECK(steady_clock::now() - dead_at > 1s);  // the guardian gives up the release seconds later, not before
  server.thaw();
  const long long expires = database.expires_micros("k");
  CHECK(database.has_holder("k"));
  CHECK(run_true(database, "k", {"--wait", "60s"}) == exited(0));
  CHECK(database.micros("k", "last_acquired_at") >= expires + 1'000'000);
}

// Who wakes first decides who stops the job, and who learns how it ended.
TEST_CASE(
    "after all processes of a run were frozen beyond the lease nobody says that the job was not started",
    "[safety]") {
  const Database database;
  std::vector<std::unique_ptr<TreeRun>> runs;
  for (int i = 0; i < 8; ++i) {
    runs.push_back(std::make_unique<TreeRun>(database, Words{"--ttl", "2s"}, "k" + std::to_string(i)));
  }
  std::vector<pid_t> frozen;
  for (const auto& run : runs) {
    for (const pid_t pid : run->tree()) {
      ::kill(pid, SIGSTOP);
      frozen.push_back(pid);
    }
  }
  pause_for(2500ms);  // longer than the lease
  for (const pid_t pid : frozen) ::kill(pid, SIGCONT);
  for (const auto& run : runs) {
    CHECK(run->wait() == exited(76));
    INFO(run->err());
    CHECK_FALSE(says(run->err(), "was not started"));
    CHECK(says(run->err(), "the job was stopped"));
  }
}

TEST_CASE("kill -9 of dblock while it waits leaves nothing: no grant, and no place in line", "[asan-local]") {
  Database database;
  const std::string owner = take(database);
  const auto waiting = [&] {
    return inspected(database, {"--key", "k"}).at("locks").at(0).at("waiters").size();
  };
  Process waiter = waiting_run(database, {"--wait", "forever"}, {"sleep", "60"});
  CHECK(waiting() == 1);
  waiter.signal(SIGKILL);
  // The guardian looks for a grant that was still on its way for as long as the server may sit on a
  // statement.
  CHECK(soon_gone(waiter));
  CHECK(database.column("k", "lock_value") == owner);
  CHECK(waiting() == 0);
}

// The frozen waiter keeps the lock from others for three seconds: a machine that takes longer to look tries
// again.
TEST_CASE("a free lock that is kept for a run that waits for it is not free by inspect's exit-code") {
  const Database database;
  const auto look = [&] { return dblock(database, {"inspect", "--key", "k", "--exit-code"}); };
  const auto seen_kept = [&] {
    const std::string owner = take(database);
    Process waiter = waiting_run(database);
    waiter.freeze();
    release_lease(database, owner);
    const auto seen = look();
    waiter.signal(SIGCONT);
    CHECK(waiter.wait() == exited(0));
    return seen.exit == exited(75) && says(seen.err, "others wait for lock \"k\" and come first");
  };
  CHECK(wait_until(seen_kept));
  CHECK(look().exit == exited(0));
}

TEST_CASE("kill -9 of dblock at any moment of its start leaves no job and frees the lock soon", "[safety]") {
  Database database;
  for (int delay_ms = 0; delay_ms < 40; delay_ms += 2) {
    Process process(dblock_spawn(database, run_words("k", {"--ttl", "1h"}, {"sleep", "600"})));
    pause_for(milliseconds(delay_ms));
    process.signal(SIGKILL);
    INFO("after " << delay_ms << " ms");
    CHECK(soon_gone(process));
    CHECK_FALSE(database.has_holder("k"));
    if (database.has_holder("k")) database.delete_rows();
  }
}

TEST_CASE("kill -9 of the guardian: the tree is dead within a second and dblock says so and releases",
          "[tsan][timing][safety]") {
  Database database;
  CHECK(best_of_some(1s, [&] {
          TreeRun run(database, k_an_hour_to_stop);
          const auto before = steady_clock::now();
          ::kill(run.guardian, SIGKILL);
          CHECK(wait_until([&] { return run.job_dead(); }));
          const auto took = steady_clock::now() - before;
          check_ends(run, 70);
          CHECK(run.tree().empty());
          CHECK_FALSE(database.has_holder("k"));
          return took;
        }) < 1s);
}

TEST_CASE(
    "kill -9 of dblock and guardian at once leaves the job's children alive: the lock is granted after lease "
    "and margin, with a greater token",
    "[safety]") {
  Database database;
  TreeRun run(database, {"--ttl", "2s", "--kill-grace", "300ms", "--margin", "700ms"});
  // Nobody is left who could stop the tree; the lease alone protects, and the job's token is stale then.
  freeze(run.pid());
  ::kill(run.guardian, SIGKILL);
  run.signal(SIGKILL);
  REQUIRE(run.wait() == killed_by(SIGKILL));
  const long long expires = database.expires_micros("k");
  const auto token = std::stoull(database.column("k", "token"));
  const auto next = dblock(database, run_words("k", {"--wait", "30s"}, {"printenv", "DBLOCK_TOKEN"}));
  REQUIRE(next.exit == exited(0));
  CHECK(database.micros("k", "last_acquired_at") >= expires + 700'000);
  CHECK(std::stoull(next.out) > token);
  CHECK_FALSE(run.tree().empty());  // else it would prove nothing
}

TEST_CASE("a frozen dblock: the guardian has the tree dead before expire_time",
          "[tsan][safety][asan-local]") {
  Database database;
  TreeRun run(database, {"--ttl", "3s", "--heartbeat", "400ms", "--kill-grace", "500ms"});
  run.freeze();
  const long long expires = database.expires_micros("k");
  CHECK(run.job_last_seen() < expires);
  CHECK(database.has_holder("k"));  // frozen is not dead: nobody released in its name
  CHECK(database.expires_micros("k") == expires);
  run.signal(SIGCONT);
  CHECK(run.wait() == exited(76));
  CHECK(run.tree().empty());
}

TEST_CASE("a dblock frozen for less than the lease goes on") {
  Database database;
  LiveRun process(database, {"--ttl", "1m", "--heartbeat", "300ms", "--kill-grace", "300ms"});
  process.freeze();
  pause_for(1s);  // three heartbeats
  process.signal(SIGCONT);
  await_renewal(database);
  CHECK(process.end(8) == exited(8));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a frozen guardian does not keep dblock from ending a run whose lease is lost",
          "[server][safety][asan-server]") {
  Server server;
  ServerDatabase database(server.address());
  TreeRun run(database, {"--ttl", "3s", "--heartbeat", "400ms", "--kill-grace", "500ms"});
  const long long expires = await_renewal(database);
  ::kill(run.guardian, SIGSTOP);  // dblock wakes it
  server.freeze();
  CHECK(run.job_last_seen() < expires);
  server.thaw();
  const Exit exit = run.wait();
  CHECK(exit == exited(76));
  CHECK(soon_gone(run));
}

// A stopped guardian is continued by its dblock; against a halt by a tracer SIGCONT does not help.
TEST_CASE("a guardian that cannot act: dblock stops the job in its place, releases, and says so",
          "[safety][asan-local]") {
  DBLOCK_NEEDS(why_no_trace());
  Database database;
  TreeRun run(database, {"--ttl", "60s", "--kill-grace", "500ms"});
  REQUIRE(halt(run.guardian));
  run.signal(SIGTERM);
  CHECK(wait_until([&] { return run.job_dead(); }));
  REQUIRE(::waitpid(run.guardian, nullptr, __WALL) == run.guardian);  // its tracer hears of its death first
  const Exit exit = run.wait();
  INFO(run.err());
  CHECK(exit == killed_by(SIGKILL));  // as the job was: nobody gave it the signal of the stop
  CHECK(says(run.err(), "dblock stopped the job itself"));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a stopped guardian is continued with a warning, and the job goes on", "[asan-server]") {
  Database database;
  LiveRun process(database, {"--ttl", "6s", "--heartbeat", "200ms"});
  ::kill(guardian_of(process), SIGSTOP);
  REQUIRE(wait_until([&] { return says(process.err(), "continued it, since it protects the job"); }));
  await_renewal(database);
  CHECK(process.end(4) == exited(4));
}

TEST_CASE("a frozen guardian ends with its run", "[safety]") {
  Database database;
  TreeRun run(database, {"--ttl", "6s", "--kill-grace", "500ms"});
  ::kill(run.guardian, SIGSTOP);  // dblock wakes it
  run.signal(SIGTERM);
  const Exit exit = run.wait(30s * slowness());
  INFO(exit << " " << run.err());
  CHECK(exit == killed_by(SIGTERM));
  CHECK(soon_gone(run));
}

TEST_CASE("a job stopped by STOP is continued each time, with one message, and its lease renewed") {
  Database database;
  LiveRun process(database, {"--ttl", "6s", "--heartbeat", "200ms"});
  const pid_t job = job_of(process);
  const auto continued = [&] { return says(process.err(), "a job under a lock must not pause"); };
  for (int round = 0; round < 2; ++round) {
    (void)freeze(job);  // false: it has been continued already
    REQUIRE(wait_until([&] { return continued() && proc_info(job).state != 'T'; }));
  }
  await_renewal(database);
  CHECK(process.end(4) == exited(4));
  CHECK(count_of(process.err(), "dblock: ") == 1);
}

TEST_CASE("killed holders and takeovers never overlap", "[safety]") {
  Database database;
  const TempDir directory;
  const std::string log = directory.file("log");
  for (int round = 0; round < 3; ++round) {
    Process victim(
        dblock_spawn(database, run_words("k", {"--ttl", "60s", "--wait", "30s"}, interval_job(log, 60000))));
    std::vector<Process> waiters;
    REQUIRE(wait_until([&] { return count_of(read_file(log), std::to_string(job_of(victim))) > 0; }));
    const pid_t job = job_of(victim);
    for (int i = 0; i < 4; ++i)
      waiters.emplace_back(dblock_spawn(database, run_words("k", {"--wait", "30s"}, interval_job(log, 20))));
    victim.signal(SIGKILL);
    REQUIRE(wait_until([&] { return !alive(job); }));
    check_all_succeed(waiters);
  }
  // The victims' intervals have no end: each ended before its successor began, or its successor saw it alive.
  auto intervals = read_intervals(log);
  std::erase_if(intervals, [](const Interval& one) { return one.end_ns == 0; });
  CHECK(intervals.size() == 12);
  CHECK(exclusion_violation(intervals).empty());
}

}  // namespace
}  // namespace dblock::test
