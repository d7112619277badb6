// The keeper of acquire --while-pid when the database goes away: I4 holds for it as for a run.
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/local_file.hpp"
#include "support/proxy.hpp"

namespace dblock::test {
namespace {

const std::string k_short = "--ttl 3s ";  // a heartbeat is half a second, and so is the grace

Spawn holder(const std::string& url, const TempDir& directory, const std::string& options,
             const std::string& rest) {
  return {.argv = sh("id=$(" + dblock_binary() + " acquire --key k --while-pid $$ " + options +
                     ") || exit; touch " + directory.file("id") + "; " + rest),
          .env = {"DBLOCK_DB=" + url}};
}

void check_signalled_before(long long expires, Process& process, int signal) {
  CHECK(process.wait(20s * slowness()) == killed_by(signal));
  const long long dead_at = realtime_micros();  // of a child, which costs no look through /proc
  INFO("left: " << expires - dead_at << " us");
  CHECK(dead_at < expires);
}

TEST_CASE("a server frozen for longer than the ttl makes the keeper signal before expire_time",
          "[server][tsan]") {
  Server server;
  ServerDatabase database(server.address());
  const TempDir directory;
  Process process(holder(database.url(), directory, k_short + "--lost-signal HUP", "exec sleep 300"));
  await_file(process, directory.file("id"));
  const long long expires = await_renewal(database);
  server.freeze();
  check_signalled_before(expires, process, SIGHUP);
  CHECK(wait_until([&] { return process.tree().empty(); }));
  server.thaw();
}

TEST_CASE("a network that swallows packets makes the keeper signal before expire_time", "[server]") {
  ServerDatabase database;
  const TempDir directory;
  Proxy proxy(database.server());
  Process process(holder(proxy.url(database.name()), directory, k_short, "exec sleep 300"));
  await_file(process, directory.file("id"));
  const long long expires = await_renewal(database);
  proxy.stall();
  check_signalled_before(expires, process, SIGTERM);
  CHECK(wait_until([&] { return process.tree().empty(); }));
}

TEST_CASE("a store that somebody keeps locked makes the keeper signal before expire_time", "[local]") {
  Database database;
  const TempDir directory;
  Process process(holder(database.url(), directory, k_short, "exec sleep 300"));
  await_file(process, directory.file("id"));
  const long long expires = await_renewal(database);
  const SqliteWriter writer(database.url().substr(std::string("sqlite:").size()));
  check_signalled_before(expires, process, SIGTERM);
  CHECK(wait_until([&] { return process.tree().empty(); }));
}

TEST_CASE("a keeper survives an outage shorter than its lease", "[server]") {
  Server server;
  ServerDatabase database(server.address());
  const TempDir directory;
  Process process(holder(database.url(), directory, "--ttl 12s", "exec sleep 300"));
  await_file(process, directory.file("id"));
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
  CHECK(wait_until([&] { return !database.has_holder("k"); }));
}

TEST_CASE("a process that ends while the server is away has its lock released when it is back", "[server]") {
  ServerDatabase database;
  const TempDir directory;
  Proxy proxy(database.server());
  Process process(holder(proxy.url(database.name()), directory, "--ttl 1m", "exec sleep 300"));
  await_file(process, directory.file("id"));
  proxy.refuse(true);
  proxy.cut_all();
  // A keeper whose connection is not cut yet would release over it.
  REQUIRE(wait_until([&] { return database.sessions().empty(); }));
  process.signal(SIGKILL);
  process.wait();
  pause_for(1s);
  CHECK(database.has_holder("k"));
  proxy.refuse(false);
  CHECK(wait_until([&] { return !database.has_holder("k"); }));
}

TEST_CASE("a keeper that cannot have a connection of its own fails the acquisition, which leaves nothing",
          "[server]") {
  ServerDatabase database;
  const std::string user = database.account("WITH MAX_USER_CONNECTIONS 1");
  const TempDir directory;
  Process process(holder(database.url(user), directory, k_short, "touch " + directory.file("went-on")));
  CHECK(process.wait() == exited(69));
  INFO(process.err());
  CHECK(ends_with_exit_line(process.err(), 69));
  CHECK_FALSE(std::filesystem::exists(directory.file("id")));
  CHECK_FALSE(database.has_holder("k"));
  CHECK(wait_until([&] { return process.tree().empty(); }));
}

TEST_CASE("a keeper that was frozen for longer than its lease signals as soon as it goes on") {
  Database database;
  const TempDir directory;
  Process process(holder(database.url(), directory, "--ttl 3s --margin 100ms", "exec sleep 300"));
  await_file(process, directory.file("id"));
  pid_t keeper = 0;
  for (const pid_t pid : process.tree()) {
    if (proc_info(pid).name == "dblock-keeper") keeper = pid;
  }
  REQUIRE(keeper != 0);
  freeze(keeper);
  REQUIRE(dblock(database, {"acquire", "--key", "k", "--ttl", "60s", "--wait", "20s"}).exit == exited(0));
  const std::string other = database.column("k", "lock_value");
  CHECK(process.running());
  ::kill(keeper, SIGCONT);
  CHECK(process.wait() == killed_by(SIGTERM));
  CHECK(wait_until([&] { return process.tree().empty(); }));
  CHECK(database.column("k", "lock_value") == other);
}

}  // namespace
}  // namespace dblock::test
