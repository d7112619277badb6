// A lease that is taken away while its job runs: revoked by an operator, or changed by hand in the table.

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

TEST_CASE("a revoked lease ends the run with 76 within heartbeat and grace", "[safety][asan-local]") {
  Database database;
  LiveRun process(database, {"--ttl", "1h", "--heartbeat", "500ms", "--kill-grace", "500ms"}, tree_job);
  revoke(database);
  check_ends(process, 76);
  CHECK(process.tree().empty());
  CHECK_FALSE(database.has_holder("k"));  // given back as soon as the job was dead
  CHECK(run_true(database) == exited(0));
}

TEST_CASE("release with wait returns when the revoked holder is gone", "[safety]") {
  Database database;
  LiveRun process(database, {"--ttl", "1h", "--heartbeat", "500ms"}, sleeping_job);
  const auto released = dblock(database, {"release", "--key", "k", "--force", "--token",
                                          database.column("k", "token"), "--wait", "1h"});
  INFO(released.err);
  CHECK(released.exit == exited(0));
  CHECK_FALSE(database.has_holder("k"));
  CHECK(process.wait() == exited(76));
}

TEST_CASE("a lease taken by hand from the table is noticed as lost and the other's row is left alone",
          "[safety]") {
  Database database;
  LiveRun process(database, {"--ttl", "20s", "--heartbeat", "300ms", "--kill-grace", "500ms"}, tree_job);
  database.set_number("k", "token", std::stoll(database.column("k", "token")) + 1);
  database.set_text("k", "lock_value", "thief");
  CHECK(process.wait() == exited(76));
  CHECK(database.column("k", "lock_value") == "thief");
}

TEST_CASE("a lease lost to a server whose clock is ahead is told as that",
          "[server][safety][other-servers]") {
  Database database;
  const Words lease{"--ttl", "20s", "--heartbeat", "300ms", "--kill-grace", "500ms"};
  LiveRun process(database, lease, tree_job);
  database.age("k", -60s);  // renewals leave the time of the grant
  database.set_text("k", "lock_value", "thief");
  CHECK(process.wait() == exited(76));
  INFO(process.err());
  CHECK(says(process.err(), "ahead of the clock of the server that answers us, and its margin is 2s"));
}

TEST_CASE("a waiter is warned once of a server whose clock is ahead, however often it looks",
          "[server][safety]") {
  Database database;
  take(database, "k", {"--ttl", "10m"});  // no session of a holder is there to sleep behind: a waiter polls
  database.age("k", -60s);
  const auto waited = dblock(database, run_words("k", {"--wait", "1500ms"}, {"true"}));
  check_ended(waited, 75);
  CHECK(count_of(waited.err, "ahead of the clock of the server that answers us") == 1);
}

TEST_CASE("a deleted row is a lost lease", "[safety][asan-server]") {
  Database database;
  LiveRun process(database, {"--ttl", "20s", "--heartbeat", "300ms"}, sleeping_job);
  database.delete_rows();
  CHECK(process.wait() == exited(76));
  CHECK(process.tree().empty());
}

}  // namespace
}  // namespace dblock::test
