// pause and resume, as an operator uses them and as jobs meet them.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/proxy.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

using nlohmann::json;

std::string pause(const Database& database, const Words& options) {
  const auto done = dblock(database, with({"pause"}, options), {"DBLOCK_HOLDER=op@desk"});
  INFO(done.err);
  REQUIRE(done.exit == exited(0));
  return done.out;
}

std::string resume(const Database& database, const Words& options) {
  const auto done = dblock(database, with({"resume"}, options));
  INFO(done.err);
  REQUIRE(done.exit == exited(0));
  return done.out;
}

TEST_CASE("a paused lock is 75 and names the pause, and is to be had again after resume", "[other-servers]") {
  const Database database;
  CHECK(
      says(pause(database, {"-k", "k", "--for", "1h", "--note", "new disks"}), "lock \"k\": paused until 2"));
  check_ended(dblock(database, run_words("k", {}, {"true"})), 75,
              {"lock \"k\" is paused until 2", "Z by op@desk: new disks", "--wait D"});
  check_ended(dblock(database, {"acquire", "-k", "k", "--ttl", "9s"}), 75, {"paused until 2"});
  CHECK(run_true(database, "other") == exited(0));
  CHECK(says(resume(database, {"-k", "k"}), "lock \"k\": resumed; was paused until "));
  CHECK(run_true(database) == exited(0));
  CHECK(resume(database, {"-k", "k"}) == "lock \"k\": not paused\n");
}

TEST_CASE("a pause of a prefix covers keys that nobody has used yet, and an empty prefix all",
          "[asan-server]") {
  const Database database;
  pause(database, {"--prefix", "etl-", "--until", "2099-12-31T23:59:59+01:00"});
  check_ended(dblock(database, run_words("etl-new", {}, {"true"})), 75,
              {"paused until 2099-12-31T22:59:59Z"});
  CHECK(run_true(database, "new") == exited(0));
  CHECK(says(pause(database, {"--prefix", "", "--for", "1h"}), "all locks: paused until "));
  CHECK(run_true(database, "new") == exited(75));
  CHECK(
      says(resume(database, {"--prefix", ""}), "locks whose keys start with \"etl-\": still paused until "));
  CHECK(run_true(database, "new") == exited(0));
}

TEST_CASE("pausing again says what it replaces", "[other-servers]") {
  const Database database;
  pause(database, {"-k", "k", "--for", "1h", "--note", "one"});
  const auto said = pause(database, {"-k", "k", "--for", "2h", "--note", "two"});
  INFO(said);
  CHECK(lines(said).size() == 2);
  CHECK(says(said, ": two\nlock \"k\": was paused until "));
  CHECK(says(said, ": one\n"));
}

TEST_CASE("a pause ends by itself, and the waiter then runs") {
  const Database database;
  pause(database, {"--prefix", "k", "--for", "3s"});
  Process waiter = waiting_run(database, {"--wait", "60s"});
  CHECK(says(waiter.err(), "lock \"k\" is paused until "));
  CHECK(waiter.wait() == exited(0));
}

TEST_CASE("a held lock that is paused goes on, renews and ends as usual") {
  Database database;
  LiveRun holder(database, {"--heartbeat", "300ms"});
  pause(database, {"-k", "k", "--for", "1h"});
  CHECK(soon_renewed(database));
  check_ended(dblock(database, run_words("k", {}, {"true"})), 75,
              {"is held by ", "no new grants either, paused until "});
  CHECK(holder.end() == exited(0));
  check_ended(dblock(database, run_words("k", {}, {"true"})), 75, {"lock \"k\" is paused until "});
}

TEST_CASE("a run inside a run goes on while its lock is paused") {
  const Database database;
  const TempDir directory;
  Process outer(dblock_spawn(database, run_words("k", {},
                                                 sh(until_told(directory) + "; " +
                                                    quoted(dblock_words(run_words("k", {}, {"true"})))))));
  await_file(outer, directory.file("up"));
  pause(database, {"--prefix", "", "--for", "1h"});
  let_end(directory);
  CHECK(outer.wait() == exited(0));
  INFO(outer.err());
}

TEST_CASE("with -E 0 a skip because of a pause is said, and one because of a holder is not") {
  Database database;
  LiveRun holder(database);
  pause(database, {"-k", "k", "--for", "1h"});
  const auto by_holder = dblock(database, run_words("k", {"-E", "0"}, {"true"}));
  CHECK(by_holder.exit == exited(0));
  CHECK(by_holder.err.empty());
  CHECK(holder.end() == exited(0));
  const auto by_pause = dblock(database, run_words("k", {"-E", "0"}, {"true"}));
  CHECK(by_pause.exit == exited(0));
  CHECK(says(by_pause.err, "dblock: warning: lock \"k\" is paused until "));
}

TEST_CASE("the status file and the hook of a paused run say that the lock was not to be had") {
  const Database database;
  const TempDir directory;
  pause(database, {"-k", "k", "--for", "1h"});
  const Words options{"--status-file", directory.file("status"), "--on-conflict",
                      "echo \"$DBLOCK_EVENT: $DBLOCK_MESSAGE\" >" + directory.file("hook")};
  Process run(dblock_spawn(database, run_words("k", options, {"true"})));
  CHECK(run.wait() == exited(75));
  CHECK(json::parse(read_file(directory.file("status"))).at("outcome") == "held");
  CHECK(wait_until(
      [&] { return says(read_file(directory.file("hook")), "conflict: lock \"k\" is paused until "); }));
}

TEST_CASE("waiters keep their order through a pause") {
  Database database;
  const TempDir directory;
  LiveRun holder(database);
  std::vector<Process> waiters;
  for (const std::string name : {"1", "2", "3"}) {
    waiters.push_back(
        waiting_run(database, {"--wait", "120s"}, sh("echo " + name + " >>" + directory.file("log"))));
  }
  pause(database, {"-k", "k", "--for", "1h"});
  CHECK(holder.end() == exited(0));
  CHECK(soon_free(database));
  pause_for(1500ms);
  CHECK(read_file(directory.file("log")).empty());
  resume(database, {"-k", "k"});
  check_all_succeed(waiters);
  CHECK(lines(read_file(directory.file("log"))) == Words{"1", "2", "3"});
}

TEST_CASE("pause --wait returns when the holders have ended, and with 75 when its time is up before",
          "[other-servers][asan-local]") {
  Database database;
  LiveRun holder(database);
  check_ended(dblock(database, {"pause", "--prefix", "", "--for", "1h", "--wait", "500ms"}), 75,
              {"lock \"k\" is held by ", "; waited for --wait 500ms; the pause stays"});
  CHECK(run_true(database, "other") == exited(75));
  Process waiting(dblock_spawn(database, {"pause", "-v", "-k", "k", "--for", "1h", "--wait", "forever"}));
  CHECK(soon_says(waiting, "waiting: lock \"k\" is held by "));
  CHECK(inspected(database).at("pauses").size() == 2);
  CHECK(waiting.running());
  CHECK(holder.end() == exited(0));
  CHECK(waiting.wait() == exited(0));
  CHECK(says(waiting.out(), "lock \"k\": paused until "));
}

TEST_CASE("pause --wait ends with the pause itself, and at a signal, which leaves the pause") {
  Database database;
  LiveRun holder(database);
  check_ended(dblock(database, {"pause", "-k", "k", "--for", "1s", "--wait", "forever"}), 75,
              {"the pause has ended before the end of the holders was seen"});
  Process waiting(dblock_spawn(database, {"pause", "-v", "-k", "k", "--for", "1h", "--wait", "forever"}));
  CHECK(soon_says(waiting, "waiting: "));
  waiting.signal(SIGTERM);
  CHECK(waiting.wait() == killed_by(SIGTERM));
  CHECK(inspected(database).at("pauses").size() == 1);
  CHECK(holder.end() == exited(0));
}

// A command that waits for the holder of "k", and gets no answer any more since its second listing.
struct StalledWait {
  StalledWait(const ServerDatabase& database, const Words& words)
      : proxy(database.server()), process(dblock_spawn_at(proxy.url(database.name()), words)) {
    // A listing reads the pauses; so does the pause itself, once.
    const auto reads_pauses = containing("FROM dblock_pause USE INDEX (PRIMARY) WHERE end_time>");
    proxy.cut(Proxy::Cut::never_answered, [this, reads_pauses](const std::string& statement) {
      return reads_pauses(statement) && std::ranges::count_if(proxy.statements(), reads_pauses) > 2;
    });
    REQUIRE(wait_until([&] { return proxy.cuts() == 1; }));
  }
  Proxy proxy;
  Process process;
};

TEST_CASE("a signal ends the wait of pause and of release though the server answers nothing",
          "[server][asan-server]") {
  const ServerDatabase database;
  const LiveRun holder(database, {"--heartbeat", "1h", "--ttl", "9h"});
  const std::string token = database.column("k", "token");
  for (const Words& words : {Words{"pause", "-k", "k", "--for", "1h", "--wait", "forever"},
                             Words{"release", "-k", "k", "--force", "--token", token, "--wait", "forever"}}) {
    StalledWait waiting(database, words);
    waiting.process.signal(SIGTERM);
    CHECK(waiting.process.wait() == killed_by(SIGTERM));
    INFO(waiting.process.err());
    CHECK(says(waiting.process.err(), "while waiting for the"));
  }
}

TEST_CASE("pause --wait ends at its limit though the server answers nothing", "[server]") {
  const ServerDatabase database;
  const LiveRun holder(database);
  StalledWait waiting(database, {"pause", "-k", "k", "--for", "1h", "--wait", "2s"});
  CHECK(waiting.process.wait() == exited(69));
  CHECK(says(waiting.process.err(), "the database did not answer at the end of --wait 2s; the pause stays"));
}

TEST_CASE("resume ends the wait of pause") {
  Database database;
  LiveRun holder(database);
  Process waiting(dblock_spawn(database, {"pause", "-v", "-k", "k", "--for", "1h", "--wait", "forever"}));
  REQUIRE(soon_says(waiting, "waiting: "));
  resume(database, {"-k", "k"});
  check_ends(waiting, 75, {"the pause has ended before the end of the holders was seen; pause again"});
  CHECK(holder.end() == exited(0));
}

TEST_CASE("inspect shows the pauses of what it was asked for", "[asan-local]") {
  const Database database;
  CHECK(run_true(database, "etl-a") == exited(0));
  pause(database, {"--prefix", "etl-", "--for", "1h", "--note", "new disks"});
  pause(database, {"-k", "k", "--for", "2h"});
  const auto table = dblock(database, {"inspect"});
  CHECK(says(table.out, "locks whose keys start with \"etl-\": paused until 2"));
  CHECK(says(table.out, "lock \"k\": paused until 2"));
  CHECK_FALSE(says(dblock(database, {"inspect", "-k", "k"}).out, "etl-"));
  CHECK_FALSE(says(dblock(database, {"inspect", "--prefix", "k"}).out, "etl-"));
  CHECK(says(dblock(database, {"inspect", "--prefix", "etl-a"}).out, "etl-"));
  const auto pauses = inspected(database).at("pauses");
  REQUIRE(pauses.size() == 2);
  CHECK(pauses[0].at("prefix") == "etl-");
  CHECK(pauses[0].at("note") == "new disks");
  CHECK(pauses[0].at("by") == "op@desk");
  CHECK(pauses[0].at("until").get<std::string>().ends_with("Z"));
  CHECK(pauses[0].at("since").get<std::string>() < pauses[0].at("until").get<std::string>());
  CHECK(pauses[1].at("key") == "k");
  CHECK(says(dblock(database, {"inspect", "--format", "prometheus"}).out,
             "dblock_pause_end_timestamp_seconds{prefix=\"etl-\"} "));
  CHECK_FALSE(says(dblock(database, {"inspect", "--format", "csv"}).out, "new disks"));
}

TEST_CASE("inspect --exit-code is 75 for a paused key, also for one that nobody has used yet") {
  const Database database;
  CHECK(dblock(database, {"inspect", "-k", "k", "--exit-code"}).exit == exited(0));
  pause(database, {"--prefix", "k", "--for", "1h"});
  check_ended(dblock(database, {"inspect", "-k", "k", "--exit-code"}), 75, {"lock \"k\" is paused until "});
  CHECK(dblock(database, {"inspect", "-k", "other", "--exit-code"}).exit == exited(0));
}

TEST_CASE("pause and resume have JSON results", "[asan-local]") {
  const Database database;
  const auto made = json::parse(pause(database, {"--json", "--prefix", "a", "--for", "1h"}));
  CHECK(made.at("format") == 1);
  CHECK(made.at("action") == "paused");
  CHECK(made.at("pause").at("prefix") == "a");
  CHECK(made.at("replaced").is_null());
  pause(database, {"--prefix", "", "--for", "1h"});
  const auto ended = json::parse(resume(database, {"--json", "--prefix", "a"}));
  CHECK(ended.at("action") == "resumed");
  CHECK(ended.at("ended").at("prefix") == "a");
  CHECK(ended.at("left").size() == 1);
  CHECK(json::parse(resume(database, {"--json", "-k", "a"})).at("action") == "not_paused");
}

TEST_CASE("doctor has a line for each pause in effect") {
  const Database database;
  CHECK_FALSE(says(dblock(database, {"doctor"}).out, "paused until"));
  pause(database, {"-k", "k", "--for", "1h", "--note", "new disks"});
  const auto told = dblock(database, {"doctor"});
  CHECK(says(told.out, "lock \"k\""));
  CHECK(says(told.out, "paused until 2"));
}

TEST_CASE("a pause whose end is past is refused with 64 and none is made", "[other-servers]") {
  const Database database;
  check_ended(dblock(database, {"pause", "-k", "k", "--until", "2020-01-01T00:00:00Z"}), 64,
              {"by the clock of the database it is 2"});
  CHECK(run_true(database) == exited(0));
}

}  // namespace
}  // namespace dblock::test
