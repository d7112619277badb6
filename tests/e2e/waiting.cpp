// Waiting for a held lock: handover, limits, signals; and what a waiter leaves behind, which is nothing.
#include <algorithm>
#include <filesystem>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/proxy.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

using std::chrono::steady_clock;

TEST_CASE("a waiter runs soon after the holder has ended", "[tsan][other-servers]") {
  Database database;
  const TempDir directory;
  LiveRun holder(database);
  Process waiter = waiting_run(database, {"--wait", "60s"}, sh("touch " + directory.file("second")));
  CHECK_FALSE(std::filesystem::exists(directory.file("second")));
  CHECK(holder.end() == exited(0));
  CHECK(waiter.wait(10s * slowness()) == exited(0));  // a waiter that nobody wakes looks after 25 s
  CHECK(std::filesystem::exists(directory.file("second")));
}

TEST_CASE("a wait ends with 75 when its time is up") {
  const Database database;
  take(database);
  const auto before = steady_clock::now();
  const auto finished = dblock(database, run_words("k", {"--wait", "700ms"}, {"true"}));
  const auto took = steady_clock::now() - before;
  check_ended(finished, 75);
  CHECK(took >= 700ms);
}

TEST_CASE("nonblock and a wait of zero try once") {
  const Database database;
  take(database);
  for (const Words& options : {Words{"-n"}, Words{"--nonblock"}, Words{"-w", "0"}}) {
    check_ended(dblock(database, run_words("k", options, {"true"}), {"DBLOCK_WAIT=1h"}), 75);
  }
  CHECK(run_true(database) == exited(75));
}

TEST_CASE("a signal ends a wait at once and leaves no row held", "[tsan][asan-server]") {
  Database database;
  const TempDir directory;
  const std::string owner = take(database);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) {
    Process waiter = waiting_run(database, {"--wait", "forever"}, {"touch", directory.file("ran")});
    waiter.signal(number);
    CHECK(waiter.wait() == killed_by(number));
    CHECK(waiter.tree().empty());
    CHECK(database.line().empty());
  }
  CHECK(database.column("k", "lock_value") == owner);
  CHECK_FALSE(std::filesystem::exists(directory.file("ran")));
}

TEST_CASE("a signal at any moment of a start leaves no job and no lock", "[safety][asan-local]") {
  Database database;
  for (int delay_ms = 0; delay_ms < 40; delay_ms += 2) {
    Process process(dblock_spawn(database, run_words("k", {}, {"sleep", "60"})));
    pause_for(milliseconds(delay_ms));
    process.signal(SIGTERM);
    const Exit exit = process.wait();
    INFO("after " << delay_ms << " ms: " << exit << " " << process.err());
    CHECK(exit == killed_by(SIGTERM));
    CHECK(process.tree().empty());
    CHECK_FALSE(database.has_holder("k"));
  }
}

TEST_CASE("connection errors are retried until the wait is over", "[server]") {
  const auto before = steady_clock::now();
  const auto finished = dblock_at(k_no_server, run_words("k", {"--wait", "800ms"}, {"true"}));
  check_ended(finished, 69);
  CHECK(steady_clock::now() - before >= 800ms);
}

TEST_CASE("a server that comes up during the wait is found", "[server]") {
  Server server;
  ServerDatabase database(server.address());
  server.stop_gracefully();
  Process waiter(dblock_spawn(database, run_words("k", {"--wait", "60s"}, {"echo", "ran"})));
  REQUIRE(soon_says(waiter, "trying again"));
  CHECK(waiter.running());
  server.start();
  CHECK(waiter.wait() == exited(0));
  CHECK(waiter.out() == "ran\n");
}

TEST_CASE("a waiter survives the loss of its connection", "[server][asan-server]") {
  ServerDatabase database;
  Proxy proxy(database.server());
  const std::string owner = take(database);
  Process waiter(
      dblock_spawn_at(proxy.url(database.name()), run_words("k", {"--wait", "30s"}, {"echo", "ran"})));
  // `acquire` keeps no session, so the waiter asks again and again.
  const auto asked_since = [&](std::size_t before) { return proxy.statements().size() > before + 5; };
  REQUIRE(wait_until([&] { return asked_since(0); }));
  const std::size_t before = proxy.statements().size();
  proxy.cut_all();
  REQUIRE(wait_until([&] { return asked_since(before); }));
  CHECK(waiter.running());
  release_lease(database, owner);
  CHECK(waiter.wait() == exited(0));
  CHECK(waiter.out() == "ran\n");
}

TEST_CASE("while it waits the informational line names the holder") {
  const Database database;
  take(database, "k", {"--ttl", "60s", "--note", "release train"});
  const auto finished = dblock(database, run_words("k", {"-v", "--wait", "600ms"}, {"true"}));
  CHECK(finished.exit == exited(75));
  const Words said = lines(finished.err);
  CHECK(std::ranges::any_of(said, [](const std::string& line) {
    return line.starts_with("dblock: waiting: ") && says(line, "release train");
  }));
}

}  // namespace
}  // namespace dblock::test
