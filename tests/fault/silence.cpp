// A database that does not answer: what a user is told who waits for it.
#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
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
