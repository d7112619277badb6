// The places of waiters: who comes first where a lock is free, and what becomes of the place of a waiter that
// does not come.
#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/line.hpp"
#include "support/live_run.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

using std::chrono::steady_clock;

// How a command ends while a waiter with these options keeps a free lock "k" from others: the waiter is
// frozen. That lasts for two seconds at least: on a machine that takes longer the command may find the lock
// free.
Finished beside_frozen_waiter(const Database& database, const Words& options, const Words& command) {
  const std::string owner = take(database);
  Process waiter = waiting_run(database, with({"--wait", "60s"}, options));
  waiter.freeze();
  release_lease(database, owner);
  auto finished = dblock(database, command);
  waiter.signal(SIGCONT);
  const Exit end = waiter.wait();
  // The newest leaves for another run that was granted the lock.
  CHECK((end == exited(0) || finished.exit == exited(0)));
  return finished;
}

bool others_come_first(const Finished& finished) {
  return finished.exit == exited(75) && says(finished.err, "others wait for lock \"k\" and come first");
}

TEST_CASE("no run overtakes a waiter with a line policy", "[other-servers]") {
  const Words policy = GENERATE(Words{}, Words{"--line", "one"}, Words{"--line", "newest"});
  const Words hasty = GENERATE(Words{"-n"}, Words{"--shared"}, Words{"--key", "other"});
  const Database database;
  CHECK(wait_until([&] {
    return others_come_first(beside_frozen_waiter(database, policy, run_words("k", hasty, {"true"})));
  }));
  CHECK(run_true(database, "k", hasty) == exited(0));
}

TEST_CASE("a free lock that is kept for a run that waits for it is not free by inspect's exit-code",
          "[other-servers]") {
  const Words policy = GENERATE(Words{}, Words{"--line", "one"}, Words{"--line", "newest"});
  const Database database;
  const Words inspect{"inspect", "--key", "k", "--exit-code"};
  CHECK(wait_until([&] { return others_come_first(beside_frozen_waiter(database, policy, inspect)); }));
  CHECK(dblock(database, inspect).exit == exited(0));
}

TEST_CASE("a lock whose row is gone is shown as free with its waiters, and is for them by exit-code and wait",
          "[other-servers]") {
  Database database;
  take(database);
  Process waiter = waiting_run(database, {"--wait", "60s"});
  waiter.freeze();
  database.delete_rows();
  CHECK(others_come_first(dblock(database, {"inspect", "--key", "k", "--exit-code"})));
  check_ended(dblock(database, {"wait", "--key", "k", "--timeout", "0"}), 75, {"others wait for lock \"k\""});
  check_ended(dblock(database, {"wait", "--prefix", "k", "--timeout", "0"}), 75,
              {"others wait for lock \"k\""});
  for (const auto& selected : {Words{}, Words{"--key", "k"}, Words{"--prefix", "k"}}) {
    const auto locks = inspected(database, with({"--all"}, selected)).at("locks");
    INFO(locks.dump(2));
    REQUIRE(locks.size() == 1);
    CHECK(locks.at(0).at("key") == "k");
    CHECK(locks.at(0).at("state") == "free");
    CHECK(locks.at(0).at("token").is_null());
    REQUIRE(locks.at(0).at("waiters").size() == 1);
    CHECK(locks.at(0).at("waiters").at(0).at("pid") == waiter.pid());
  }
  CHECK(inspected(database).at("locks").empty());
  CHECK(says(dblock(database, {"-v", "inspect", "--key", "k"}).err, "no lock is held; --all shows 1 free\n"));
  waiter.signal(SIGCONT);
  CHECK(waiter.wait() == exited(0));
}

TEST_CASE(
    "what a frozen waiter does not take goes after three seconds to whoever asks, who passes its place") {
  const Database database;
  LiveRun holder(database);
  Process waiter = waiting_run(database);
  waiter.freeze();
  const auto before = steady_clock::now();
  CHECK(holder.end() == exited(0));
  CHECK(wait_until([&] { return run_true(database, "k", {"-n"}) == exited(0); }));
  CHECK(steady_clock::now() - before >= 3s);
  CHECK(database.line().empty());
  CHECK(run_true(database, "k", {"-n"}) == exited(0));
  waiter.signal(SIGCONT);
  CHECK(waiter.wait() == exited(0));
}

TEST_CASE("a lock that the run before leaves free, as it waits for another too, is taken within seconds",
          "[other-servers]") {
  const Database database;
  const std::string owner = take(database, "k", {"--ttl", "10m"});
  const auto other = dblock(database, {"acquire", "--key", "other", "--ttl", "10m"});
  REQUIRE(other.exit == exited(0));
  Process both = waiting_run(database, {"--wait", "5m", "--key", "other"});
  Process next = waiting_run(database, {"--wait", "5m"});
  release_lease(database, owner);
  // Who only sleeps until the one before has ended looks after half a minute at the earliest.
  CHECK(next.wait(25s) == exited(0));
  CHECK(dblock(database, {"release", "--key", "other", "--owner", lines(other.out).front()}).exit ==
        exited(0));
  CHECK(both.wait() == exited(0));
}

TEST_CASE("behind a run of a pool that got another member a waiter gets the lock within seconds",
          "[other-servers]") {
  const Database database;
  LiveRun holder(database);
  LiveRun of_other(database, {}, patient_job, "other");
  const TempDir directory;
  const Words any{"run", "-v", "--wait", "5m", "--any", "k", "--any", "other", "--"};
  Process of_pool(dblock_spawn(database, with(any, sh(await_in_shell(directory.file("over"))))));
  REQUIRE(soon_says(of_pool, "waiting: "));
  Process next = waiting_run(database, {"--wait", "5m"});
  CHECK(of_other.end() == exited(0));
  REQUIRE(wait_until([&] { return database.line().size() == 1; }));
  CHECK(holder.end() == exited(0));
  CHECK(next.wait(25s) == exited(0));
  write_file(directory.file("over"), "");
  CHECK(of_pool.wait() == exited(0));
}

TEST_CASE("the guardian of a waiter that is killed gives its place up, and a killed guardian ends the wait",
          "[other-servers]") {
  LineBefore<Database> line({});
  Process& killed = line.join("killed");
  Process& unguarded = line.join("unguarded");
  Process& next = line.join("next");
  killed.signal(SIGKILL);
  CHECK(killed.wait() == killed_by(SIGKILL));
  CHECK(soon_in_line(line.database(), 2));
  ::kill(guardian_of(unguarded), SIGKILL);
  CHECK(unguarded.wait() == exited(70));
  CHECK(line.database().line().size() == 1);
  line.release();
  CHECK(next.wait() == exited(0));
  CHECK(line.who_ran() == Words{"next"});
}

TEST_CASE("a waiter that is killed with its guardian holds the others up for about three seconds") {
  LineBefore<Database> line({});
  Process& first = line.join("first");
  Process& second = line.join("second");
  Process& third = line.join("third");
  kill_with_guardian(first);
  kill_with_guardian(second);
  CHECK(line.database().line().size() == 3);
  line.release();
  CHECK(third.wait(10s * slowness()) == exited(0));
  CHECK(line.database().line().empty());
}

}  // namespace
}  // namespace dblock::test
