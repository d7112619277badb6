// A database that does not answer: what a user is told who waits for it.
#include <unistd.h>

#include <atomic>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/proxy.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

// The whole line that names the database, and how long the program goes on.
bool soon_waits(Process& process, const ServerDatabase& database, const std::string& limit,
                const std::string& before = "") {
  if (!soon_says(process, before + "still waiting for the database mysql://app@")) return false;
  INFO(process.err());
  CHECK(says(process.err(), "/" + database.name()));
  CHECK(says(process.err(), ", at most " + limit + "\n"));
  return true;
}

TEST_CASE("a run and an acquire whose database does not answer say after 5 s what they wait for",
          "[server]") {
  Server server;
  ServerDatabase database(server.address());
  const std::string patient =
      database.url() + (database.url().find('?') == std::string::npos ? "?" : "&") + "connect-timeout=1h";
  server.freeze();
  Process run(dblock_spawn_at(patient, {"run", "-v", "-k", "k", "true"}));
  Process waiter(dblock_spawn_at(patient, {"run", "-v", "-k", "m", "--wait", "2h", "true"}));
  Process tries(dblock_spawn_at(patient, {"run", "-v", "-k", "n", "--attempts", "3", "true"}));
  Process acquire(dblock_spawn_at(patient, {"acquire", "-v", "-k", "l", "--ttl", "1m", "--wait", "forever"}));
  CHECK(soon_waits(run, database, "1h for each answer"));
  CHECK(soon_waits(waiter, database, "1h for each answer, and --wait 2h in all"));
  CHECK(soon_waits(tries, database, "1h for each answer, and --attempts 3 in all"));
  CHECK(soon_waits(acquire, database, "1h for each answer, and again until it answers"));
  server.thaw();
  for (auto* const process : {&run, &waiter, &tries, &acquire}) CHECK(process->wait() == exited(0));
}

TEST_CASE("a subcommand whose database does not answer says after 5 s which one it waits for", "[server]") {
  Server server;
  ServerDatabase database(server.address());
  take(database);
  server.freeze();
  const std::string url =
      database.url() + (database.url().find('?') == std::string::npos ? "?" : "&") + "connect-timeout=1h";
  std::vector<Process> asking;
  for (const Words& words : {Words{"inspect"}, Words{"history"}, Words{"resume", "-k", "k"},
                             Words{"pause", "-k", "k", "--for", "1h"}, Words{"reap"},
                             Words{"migrate", "--status"}, Words{"release", "--key", "k", "--force"},
                             Words{"renew", "--key", "k", "--owner", "someone"}, Words{"doctor"}})
    asking.emplace_back(dblock_spawn_at(url, with(words, {"-v"})));
  for (auto& process : asking) {
    CHECK(soon_waits(process, database, "1h for each answer"));
  }
  Process wait(dblock_spawn_at(url, {"wait", "-v", "-k", "k", "--timeout", "2h"}));
  CHECK(soon_waits(wait, database, "1h for each answer, and --timeout 2h in all"));
}

TEST_CASE("a wait for the end of the holders says after 5 s that the database does not answer any more",
          "[server]") {
  ServerDatabase database;
  take(database);
  Proxy proxy(database.server());
  const std::string url = proxy.url(database.name()) + "?connect-timeout=1h";
  Process pause(dblock_spawn_at(url, {"pause", "-v", "-k", "k", "--for", "1h", "--wait", "forever"}));
  REQUIRE(soon_says(pause, "waiting: lock \"k\" is held by "));
  proxy.stall();
  CHECK(soon_waits(pause, database, "1h for each answer, and again until it answers"));
  proxy.resume();
  pause.signal(SIGTERM);
  CHECK(pause.wait() == killed_by(SIGTERM));
}

TEST_CASE("an acquire whose granted row is not read back says after 5 s that it waits", "[server]") {
  ServerDatabase database;
  REQUIRE(run_true(database) == exited(0));
  Proxy proxy(database.server());
  std::atomic<bool> said = false;
  proxy.cut(Proxy::Cut::before_statement, [&](const std::string& statement) {
    return containing("AS asked")(statement) && !wait_until([&] { return said.load(); });
  });
  Process process(
      dblock_spawn_at(proxy.url(database.name()), {"acquire", "-v", "--key", "k", "--ttl", "1h"}));
  CHECK(soon_waits(process, database, "10s for each answer"));
  said = true;
  CHECK(process.wait() == exited(0));
}

TEST_CASE("a keeper whose first renewal has no answer lets acquire say after 5 s that it waits", "[server]") {
  ServerDatabase database;
  REQUIRE(run_true(database) == exited(0));
  Proxy proxy(database.server());
  std::atomic<bool> said = false;
  proxy.cut(Proxy::Cut::before_statement, [&](const std::string& statement) {
    return containing("INTERVAL COALESCE(")(statement) && !wait_until([&] { return said.load(); });
  });
  Process process(dblock_spawn_at(proxy.url(database.name()), {"acquire", "-v", "--key", "k", "--ttl", "1h",
                                                               "--while-pid", std::to_string(::getpid())}));
  CHECK(soon_says(process, "still waiting for the database mysql://"));
  process.signal(SIGTERM);
  CHECK(process.wait() == killed_by(SIGTERM));
  said = true;
  CHECK(soon_gone(process));
}

TEST_CASE("a run whose release is not confirmed says after 5 s that its job has ended", "[server]") {
  Server server;
  ServerDatabase database(server.address());
  LiveRun run(database, {"-v", "--ttl", "2m"});
  server.freeze();
  run.tell(0);
  CHECK(soon_waits(run, database, "10s after the job has ended",
                   "the release of lock \"k\" is not confirmed yet: "));
  server.thaw();
  CHECK(run.wait() == exited(0));
}

}  // namespace
}  // namespace dblock::test
