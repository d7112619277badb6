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

TEST_CASE("a run and an acquire whose database does not answer say after 5 s what they wait for",
          "[server]") {
  Server server;
  ServerDatabase database(server.address());
  const std::string patient =
      database.url() + (database.url().find('?') == std::string::npos ? "?" : "&") + "connect-timeout=1h";
  server.freeze();
  Process run(dblock_spawn_at(patient, {"run", "-v", "-k", "k", "true"}));
  Process acquire(dblock_spawn_at(patient, {"acquire", "-v", "-k", "l", "--ttl", "1m"}));
  for (const auto& [process, lock] : {std::pair{&run, "k"}, {&acquire, "l"}}) {
    CHECK(soon_says(*process, "the database has not answered yet whether lock \"" + std::string(lock) +
                                  "\" can be had; waiting for it"));
  }
  server.thaw();
  CHECK(run.wait() == exited(0));
  CHECK(acquire.wait() == exited(0));
}

TEST_CASE("a subcommand whose database does not answer says after 5 s which one it waits for", "[server]") {
  Server server;
  ServerDatabase database(server.address());
  take(database);
  server.freeze();
  const std::string url =
      database.url() + (database.url().find('?') == std::string::npos ? "?" : "&") + "connect-timeout=1h";
  std::vector<Process> asking;
  for (const Words& words :
       {Words{"inspect"}, Words{"history"}, Words{"resume", "-k", "k"},
        Words{"pause", "-k", "k", "--for", "1h"}, Words{"reap"}, Words{"migrate", "--status"},
        Words{"release", "--key", "k", "--force"}, Words{"renew", "--key", "k", "--owner", "someone"}})
    asking.emplace_back(dblock_spawn_at(url, with(words, {"-v"})));
  for (auto& process : asking) {
    CHECK(soon_says(process, "still waiting for the database mysql://"));
    CHECK(says(process.err(), ", at most 1h for each answer\n"));
  }
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
  CHECK(soon_says(run, "the job has ended; the database has not confirmed the release of lock \"k\" yet"));
  server.thaw();
  CHECK(run.wait() == exited(0));
}

}  // namespace
}  // namespace dblock::test
