// The keeper of acquire --while-pid when the database goes away: I4 holds for it as for a run.
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/local_file.hpp"
#include "support/proxy.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

const std::string k_short = "--ttl 3s ";  // a heartbeat is half a second, and so is the grace

const std::string k_sleeps = "exec sleep 300";

void check_signalled_before(long long expires, Process& process, int signal) {
  CHECK(process.wait(20s * slowness()) == killed_by(signal));
  const long long dead_at = realtime_micros();  // of a child, which costs no look through /proc
  INFO("left: " << expires - dead_at << " us");
  CHECK(dead_at < expires);
}

TEST_CASE("a server frozen for longer than the ttl makes the keeper signal before expire_time",
          "[server][tsan][safety][asan-server]") {
  Server server;
  ServerDatabase database(server.address());
  KeptScript process(database.url(), k_short + "--lost-signal HUP", k_sleeps);
  const long long expires = await_renewal(database);
  server.freeze();
  check_signalled_before(expires, process, SIGHUP);
  CHECK(soon_gone(process));
  server.thaw();
}

TEST_CASE("a network that swallows packets makes the keeper signal before expire_time", "[server][safety]") {
  ServerDatabase database;
  Proxy proxy(database.server());
  KeptScript process(proxy.url(database.name()), k_short, k_sleeps);
  const long long expires = await_renewal(database);
  proxy.stall();
  check_signalled_before(expires, process, SIGTERM);
  CHECK(soon_gone(process));
}

TEST_CASE("a store that somebody keeps locked makes the keeper signal before expire_time",
          "[local][safety][asan-local]") {
  Database database;
  KeptScript process(database.url(), k_short, k_sleeps);
  const long long expires = await_renewal(database);
  const SqliteWriter writer(file_of(database));
  check_signalled_before(expires, process, SIGTERM);
  CHECK(soon_gone(process));
}

TEST_CASE("a keeper survives an outage shorter than its lease", "[server]") {
  Server server;
  ServerDatabase database(server.address());
  KeptScript process(database.url(), "--ttl 12s", k_sleeps);
  server.stop_hard();
  server.start();
  ServerDatabase* const still_there = &database;
  CHECK(wait_until([&] {
    try {
      return still_there->has_holder("k") && await_renewal(*still_there) != 0;
    } catch (const std::exception&) {
      return false;  // our own old connection
    }
  }));
  CHECK(process.running());
  process.signal(SIGKILL);
  CHECK(soon_free(database));
}

TEST_CASE("a process that ends while the server is away has its lock released when it is back", "[server]") {
  ServerDatabase database;
  Proxy proxy(database.server());
  KeptScript process(proxy.url(database.name()), "--ttl 1m", k_sleeps);
  proxy.refuse(true);
  proxy.cut_all();
  // A keeper whose connection is not cut yet would release over it.
  REQUIRE(wait_until([&] { return database.sessions().empty(); }));
  process.signal(SIGKILL);
  process.wait();
  const int before = proxy.connections();
  REQUIRE(wait_until([&] { return proxy.connections() > before + 1; }));  // the keeper tries again and again
  CHECK(database.has_holder("k"));
  proxy.refuse(false);
  CHECK(soon_free(database));
}

TEST_CASE("a keeper that cannot have a connection of its own fails the acquisition, which leaves nothing",
          "[server][other-servers][asan-server]") {
  ServerDatabase database;
  const std::string user = database.account("WITH MAX_USER_CONNECTIONS 1");
  const TempDir directory;
  Process process(kept_script(database.url(user), directory, k_short, "touch went-on"));
  check_ends(process, 69);
  CHECK_FALSE(std::filesystem::exists(directory.file("id")));
  CHECK_FALSE(database.has_holder("k"));
  CHECK(soon_gone(process));
}

TEST_CASE("a keeper that was frozen for longer than its lease signals as soon as it goes on", "[safety]") {
  Database database;
  KeptScript process(database.url(), "--ttl 3s --margin 100ms", k_sleeps);
  const pid_t keeper = keeper_of(process);
  freeze(keeper);
  const std::string other = take(database, "k", {"--ttl", "60s", "--wait", "60s"});
  CHECK(process.running());
  ::kill(keeper, SIGCONT);
  CHECK(process.wait() == killed_by(SIGTERM));
  CHECK(soon_gone(process));
  CHECK(database.column("k", "lock_value") == other);
}

TEST_CASE("a signal that comes before the keeper's first renewal leaves neither lease nor keeper",
          "[server]") {
  ServerDatabase database;
  REQUIRE(run_true(database) == exited(0));
  Proxy proxy(database.server());
  std::atomic<pid_t> dblock_itself = 0;
  // The keeper renews what dblock, which sent it the lease, has been granted.
  proxy.cut(Proxy::Cut::before_statement, [&](const std::string& statement) {
    const bool renewal = containing("INTERVAL COALESCE(")(statement);
    if (renewal && wait_until([&] { return dblock_itself != 0; })) ::kill(dblock_itself, SIGTERM);
    return false;
  });
  Process process(dblock_spawn_at(proxy.url(database.name()), {"acquire", "--key", "k", "--ttl", "1h",
                                                               "--while-pid", std::to_string(::getpid())}));
  dblock_itself = process.pid();
  CHECK(process.wait() == killed_by(SIGTERM));
  INFO(process.err());
  CHECK(says(process.err(), "before lock \"k\" was kept; nothing is held"));
  CHECK(process.out().empty());
  CHECK(soon_free(database));
  CHECK(soon_gone(process));
}

}  // namespace
}  // namespace dblock::test
