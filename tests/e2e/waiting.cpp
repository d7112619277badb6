// Waiting for a held lock: handover, limits, signals; and what a waiter leaves behind, which is nothing.
#include <filesystem>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/proxy.hpp"

namespace dblock::test {
namespace {

using std::chrono::steady_clock;

TEST_CASE("a waiter runs soon after the holder has ended", "[tsan]") {
  Database database;
  const TempDir directory;
  Process holder(dblock_spawn(database, run_words("k", {}, sh(until_told(directory)))));
  await_file(holder, directory.file("up"));
  Process waiter(dblock_spawn(
      database, run_words("k", {"-v", "--wait", "60s"}, sh("touch " + directory.file("second")))));
  REQUIRE(wait_until([&] { return says(waiter.err(), "waiting"); }));
  CHECK_FALSE(std::filesystem::exists(directory.file("second")));
  write_file(directory.file("go"), "");
  CHECK(holder.wait() == exited(0));
  const auto released = steady_clock::now();
  CHECK(waiter.wait() == exited(0));
  CHECK(steady_clock::now() - released < 3s * slowness());
  CHECK(std::filesystem::exists(directory.file("second")));
}

TEST_CASE("a wait ends with 75 when its time is up") {
  const Database database;
  REQUIRE(dblock(database, {"acquire", "--key", "k", "--ttl", "60s"}).exit == exited(0));
  const auto before = steady_clock::now();
  const auto finished = dblock(database, run_words("k", {"--wait", "700ms"}, {"true"}));
  const auto took = steady_clock::now() - before;
  CHECK(finished.exit == exited(75));
  CHECK(ends_with_exit_line(finished.err, 75));
  CHECK(took >= 700ms);
  CHECK(took < 2500ms * slowness());
}

TEST_CASE("nonblock and a wait of zero try once") {
  const Database database;
  REQUIRE(dblock(database, {"acquire", "--key", "k", "--ttl", "60s"}).exit == exited(0));
  for (const Words& options : {Words{"-n"}, Words{"--nonblock"}, Words{"-w", "0"}, Words{}}) {
    const auto before = steady_clock::now();
    CHECK(dblock(database, run_words("k", options, {"true"})).exit == exited(75));
    CHECK(steady_clock::now() - before < 2s * slowness());
  }
}

TEST_CASE("a signal ends a wait at once and leaves no row held", "[tsan]") {
  Database database;
  const TempDir directory;
  REQUIRE(dblock(database, {"acquire", "--key", "k", "--ttl", "60s"}).exit == exited(0));
  const std::string owner = database.column("k", "lock_value");
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) {
    Process waiter(dblock_spawn(
        database, run_words("k", {"-v", "--wait", "forever"}, {"touch", directory.file("ran")})));
    REQUIRE(wait_until([&] { return says(waiter.err(), "waiting"); }));
    const auto before = steady_clock::now();
    waiter.signal(number);
    CHECK(waiter.wait() == killed_by(number));
    CHECK(steady_clock::now() - before < 5s * slowness());  // of for ever
    CHECK(waiter.tree().empty());
  }
  CHECK(database.column("k", "lock_value") == owner);
  CHECK_FALSE(std::filesystem::exists(directory.file("ran")));
}

TEST_CASE("a signal at any moment of a start leaves no job and no lock") {
  Database database;
  const TempDir directory;
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
  const auto finished =
      dblock_bare(run_words("k", {"--wait", "800ms"}, {"true"}), {"DBLOCK_DB=mysql://app@127.0.0.1:1/d"});
  CHECK(finished.exit == exited(69));
  CHECK(ends_with_exit_line(finished.err, 69));
  CHECK(steady_clock::now() - before >= 800ms);
}

TEST_CASE("a server that comes up during the wait is found", "[server]") {
  Server server;
  ServerDatabase database(server.address());
  server.stop_gracefully();
  Process waiter(dblock_spawn(database, run_words("k", {"--wait", "60s"}, {"echo", "ran"})));
  REQUIRE(wait_until([&] { return says(waiter.err(), "trying again"); }));
  CHECK(waiter.running());
  server.start();
  CHECK(waiter.wait() == exited(0));
  CHECK(waiter.out() == "ran\n");
}

TEST_CASE("a waiter survives the loss of its connection", "[server]") {
  ServerDatabase database;
  Proxy proxy(database.server());
  REQUIRE(dblock(database, {"acquire", "--key", "k", "--ttl", "60s"}).exit == exited(0));
  const std::string owner = database.column("k", "lock_value");
  Process waiter(dblock_bare_spawn(run_words("k", {"--wait", "30s"}, {"echo", "ran"}),
                                   {"DBLOCK_DB=" + proxy.url(database.name())}));
  // `acquire` keeps no session, so the waiter asks again and again.
  const auto asked_since = [&](std::size_t before) { return proxy.statements().size() > before + 5; };
  REQUIRE(wait_until([&] { return asked_since(0); }));
  const std::size_t before = proxy.statements().size();
  proxy.cut_all();
  REQUIRE(wait_until([&] { return asked_since(before); }));
  CHECK(waiter.running());
  REQUIRE(dblock(database, {"release", "--key", "k", "--owner", owner}).exit == exited(0));
  CHECK(waiter.wait() == exited(0));
  CHECK(waiter.out() == "ran\n");
}

TEST_CASE("while it waits the informational line names the holder") {
  const Database database;
  REQUIRE(dblock(database, {"acquire", "--key", "k", "--ttl", "60s", "--note", "release train"}).exit ==
          exited(0));
  const auto finished = dblock(database, run_words("k", {"-v", "--wait", "600ms"}, {"true"}));
  CHECK(finished.exit == exited(75));
  CHECK(finished.err.find("release train") != std::string::npos);
}

}  // namespace
}  // namespace dblock::test
