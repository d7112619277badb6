// history: what is told of the runs that have ended, and how a history is begun and ended.
#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/pty.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

using nlohmann::json;

// Migrated by the account that runs the jobs, which may do what there is to do in this database.
struct Kept {
  Database database{Database::Schema::none};

  explicit Kept(bool on = true) {
    REQUIRE(dblock(database, {"migrate"}).exit == exited(0));
    if (!on) return;
    const auto begun = dblock(database, {"migrate", "--history", "on"});
    INFO(begun.err);
    REQUIRE(begun.exit == exited(0));
    CHECK(says(begun.out, "runs that end are recorded"));
  }

  [[nodiscard]] json runs(const Words& options = {}) const {
    const auto finished = dblock(database, with({"--json", "history"}, options));
    INFO(finished.err);
    REQUIRE(finished.exit == exited(0));
    const auto document = json::parse(finished.out);
    CHECK(document.at("format") == 1);
    CHECK(document.at("server_time").is_string());
    return document.at("runs");
  }
};

TEST_CASE("history tells of each run how it ended, the last one first", "[other-servers][asan-server]") {
  const Kept t;
  CHECK(run_true(t.database, "good", {"--note", "from \x1b[31mCI"}) == exited(0));
  CHECK(dblock(t.database, run_words("bad", {}, sh("exit 7"))).exit == exited(7));
  CHECK(dblock(t.database, run_words("slow", {"--max-runtime", "100ms"}, {"sleep", "60"})).exit ==
        exited(124));
  CHECK(dblock(t.database, run_words("none", {}, {"/nonexistent/command"})).exit == exited(127));
  CHECK(run_true(t.database, "read", {"--shared"}) == exited(0));
  const auto runs = t.runs();
  REQUIRE(runs.size() == 4);
  CHECK(runs[0].at("key") == "read");
  CHECK(runs[0].at("mode") == "shared");
  CHECK(runs[1].at("key") == "slow");
  CHECK(runs[1].at("outcome") == "timed_out");
  CHECK(runs[2].at("outcome") == "failed");
  CHECK(runs[2].at("exit_code") == 7);
  CHECK(runs[3].at("outcome") == "succeeded");
  CHECK(runs[3].at("exit_code") == 0);
  CHECK(std::to_string(runs[3].at("token").get<long long>()) == t.database.column("good", "token"));
  CHECK(runs[3].at("command") == "true");
  const auto table = dblock(t.database, {"history", "--key", "good"});
  CHECK(table.exit == exited(0));
  REQUIRE(lines(table.out).size() == 2);
  CHECK(says(table.out, "succeeded"));
  CHECK(says(table.out, "from \\x1b[31mCI"));
  CHECK(table.out.find('\x1b') == std::string::npos);
}

TEST_CASE("the history counts how often the job of a run was started", "[other-servers][asan-local]") {
  const Kept t;
  const Words retry{"--retry", "3", "--retry-delay", "10ms"};
  const auto attempts = sh("test $DBLOCK_ATTEMPT = 3");
  REQUIRE(dblock(t.database, run_words("again", retry, attempts)).exit == exited(0));
  REQUIRE(dblock(t.database, run_words("many", with(retry, {"-k", "more"}), attempts)).exit == exited(0));
  REQUIRE(dblock(t.database, run_words("read", with(retry, {"--shared"}), attempts)).exit == exited(0));
  REQUIRE(run_true(t.database, "once") == exited(0));
  release_lease(t.database, take(t.database, "lease"), "lease");
  for (const std::string key : {"again", "many", "more", "read"})
    CHECK(t.runs({"-k", key}).at(0).at("attempts") == 3);
  CHECK(t.runs({"-k", "once"}).at(0).at("attempts") == 1);
  CHECK(t.runs({"-k", "lease"}).at(0).at("attempts").is_null());
  const auto table = dblock(t.database, {"history", "-k", "again", "-k", "once"});
  CHECK(says(table.out, "succeeded (3 attempts)"));
  CHECK_FALSE(says(table.out, "1 attempt"));
  CHECK(says(dblock(t.database, {"history", "--format", "csv"}).out, ",exit_code,attempts\r\n"));
  CHECK(says(dblock(t.database, {"history", "--format", "html"}).out,
             "again: succeeded (3 attempts), exit code 0&#10;"));
}

TEST_CASE("history is limited by key, age and number") {
  const Kept t;
  for (const char* key : {"a", "b", "a"}) REQUIRE(run_true(t.database, key) == exited(0));
  CHECK(t.runs({"-k", "a"}).size() == 2);
  CHECK(t.runs({"-k", "a", "-k", "b"}).size() == 3);
  CHECK(t.runs({"--since", "1h"}).size() == 3);
  CHECK(t.runs({"--limit", "1"}).size() == 1);
  CHECK(says(dblock(t.database, {"history", "--limit", "2"}).out, "there are more"));
  CHECK_FALSE(says(dblock(t.database, {"history", "--limit", "3"}).out, "there are more"));
  CHECK(dblock(t.database, {"history", "--limit", "0"}).exit == exited(64));
}

TEST_CASE("history is limited by prefix and outcome, and shown in each format", "[asan-local]") {
  const Kept t;
  REQUIRE(run_true(t.database, "etl-a") == exited(0));
  REQUIRE(dblock(t.database, run_words("etl-b", {"--note", "<b>"}, sh("exit 7"))).exit == exited(7));
  REQUIRE(run_true(t.database, "deploy") == exited(0));
  CHECK(t.runs({"--prefix", "etl-"}).size() == 2);
  CHECK(t.runs({"--outcome", "failed"}).at(0).at("key") == "etl-b");
  CHECK(t.runs({"--outcome", "succeeded", "--prefix", "etl-"}).at(0).at("key") == "etl-a");
  const auto csv = dblock(t.database, {"history", "--format", "csv"});
  CHECK(csv.exit == exited(0));
  CHECK(lines(csv.out).size() == 4);
  CHECK(csv.out.starts_with("key,kind,mode,owner,token,"));
  const auto page = dblock(t.database, {"history", "--format", "html"});
  CHECK(page.exit == exited(0));
  CHECK(page.out.starts_with("<!doctype html>\n"));
  CHECK(says(page.out, "3 runs of 3 keys, "));
  CHECK(says(page.out, "etl-b: failed, exit code 7&#10;"));
  CHECK(says(page.out, "<td>&lt;b&gt;</td>"));
  CHECK_FALSE(says(page.out, "<b>,"));
  CHECK(json::parse(dblock(t.database, {"history", "--format", "json"}).out).at("runs").size() == 3);
}

TEST_CASE("a run whose dblock was killed is in the history once its guardian has cleared up",
          "[asan-local]") {
  const Kept t;
  LiveRun run(t.database, {}, sleeping_job);
  run.signal(SIGKILL);
  run.wait();
  REQUIRE(wait_until([&] { return t.runs().size() == 1; }));
  CHECK(t.runs()[0].at("outcome") == "abandoned");
  CHECK(t.runs()[0].at("key") == "k");
  CHECK(t.runs()[0].at("attempts").is_null());
}

TEST_CASE("leases that were acquired, given back, broken or reaped are in the history", "[other-servers]") {
  Kept t;
  release_lease(t.database, take(t.database, "given"), "given");
  take(t.database, "broken");
  REQUIRE(dblock(t.database, {"release", "--key", "broken", "--force", "--token",
                              t.database.column("broken", "token"), "--now"})
              .exit == exited(0));
  take(t.database, "dead", {"--ttl", "60s", "--margin", "1s"});
  t.database.age_until_expired("dead", 6s);
  REQUIRE(dblock(t.database, {"reap"}).exit == exited(0));
  const auto runs = t.runs();
  REQUIRE(runs.size() == 3);
  CHECK(runs[0].at("key") == "dead");
  CHECK(runs[0].at("outcome") == "abandoned");
  CHECK(runs[0].at("released_at").is_null());
  CHECK(runs[1].at("key") == "broken");
  CHECK(runs[1].at("outcome") == "abandoned");
  CHECK(runs[2].at("outcome") == "released");
  CHECK(runs[2].at("kind") == "acquire");
}

TEST_CASE("without a history nothing is recorded and history says how to begin one", "[other-servers]") {
  const Kept t(false);
  REQUIRE(run_true(t.database) == exited(0));
  const auto none = dblock(t.database, {"history"});
  CHECK(none.exit == exited(0));
  CHECK(lines(none.out).size() == 1);
  CHECK(says(none.err, "dblock migrate --history on"));
  CHECK(says(dblock(t.database, {"migrate", "--status"}).out, "runs that end are not recorded"));
  CHECK(says(dblock(t.database, {"doctor"}).out, "not kept"));
  REQUIRE(dblock(t.database, {"migrate", "--history", "on"}).exit == exited(0));
  CHECK(says(dblock(t.database, {"migrate", "--status"}).out, "runs that end are recorded"));
  REQUIRE(dblock(t.database, {"migrate"}).exit == exited(0));  // leaves it as it is
  REQUIRE(run_true(t.database) == exited(0));
  CHECK(t.runs().size() == 1);
  REQUIRE(dblock(t.database, {"migrate", "--history", "off"}).exit == exited(0));
  REQUIRE(run_true(t.database) == exited(0));
  CHECK(t.runs().size() == 1);
}

TEST_CASE("reap forgets the history by its age and says how much of it", "[other-servers]") {
  const Kept t;
  for (int i = 0; i < 2; ++i) REQUIRE(run_true(t.database) == exited(0));
  CHECK_FALSE(says(dblock(t.database, {"reap"}).out, "past run"));
  CHECK(
      says(dblock(t.database, {"reap", "--forget-history", "0", "--dry-run"}).out, "2 past runs to delete"));
  CHECK(t.runs().size() == 2);
  const auto reaped = dblock(t.database, {"--json", "reap", "--forget-history", "0"});
  CHECK(json::parse(reaped.out).at("forgotten_runs") == 2);
  CHECK(t.runs().empty());
}

TEST_CASE("inspect --all tells how the last run went, with or without a history") {
  const Kept t(GENERATE(false, true));
  REQUIRE(dblock(t.database, run_words("k", {}, sh("exit 9"))).exit == exited(9));
  const auto shown = dblock(t.database, {"inspect", "--key", "k", "--all"});
  CHECK(shown.exit == exited(0));
  CHECK(says(shown.out, "failed (9), "));
  const auto last = inspected(t.database, {"--key", "k", "--all"}).at("locks").at(0).at("last");
  CHECK(last.at("outcome") == "failed");
  CHECK(last.at("exit_code") == 9);
  CHECK(last.at("acquired_at") < last.at("released_at"));
}

TEST_CASE("the grants for a history are printed when one is asked for, and are enough",
          "[server][other-servers]") {
  ServerDatabase database;
  REQUIRE(dblock(database, {"migrate", "--history", "on"}).exit == exited(0));
  const auto warned = [&](const std::string& advice) {
    const auto run = dblock(database, run_words("k", {}, {"true"}));
    INFO(run.err);
    CHECK(run.exit == exited(0));
    CHECK(lines(run.err).size() == 1);
    CHECK(says(run.err, "warning: cannot record the run in the history"));
    CHECK(says(run.err, "; " + advice + "\n"));
    CHECK_FALSE(says(run.err, "`dblock migrate --print-grants USER`"));  // which would not help
  };
  warned("`dblock migrate --history on --print-grants USER` prints what to grant");
  CHECK(database.number("SELECT COUNT(*) FROM dblock_history") == 0);
  const auto doctor = dblock(database, {"doctor", "--db", database.url()});
  CHECK(says(doctor.out, "missing: SELECT, INSERT, DELETE on dblock_history"));
  CHECK(dblock(database, {"history"}).exit == exited(77));
  CHECK(dblock(database, {"reap"}).exit == exited(0));
  const auto plain = dblock(database, {"migrate", "--print-grants", "app"});
  CHECK_FALSE(says(plain.out, "dblock_history"));
  const auto grants = dblock(database, {"migrate", "--print-grants", "app", "--history", "on"});
  REQUIRE(says(grants.out, "GRANT SELECT, INSERT, DELETE ON `" + database.name() + "`.`dblock_history` TO"));
  for (auto grant : lines(grants.out)) database.sql(grant.substr(0, grant.rfind(';')));
  REQUIRE(run_true(database) == exited(0));
  CHECK(lines(dblock(database, {"history"}).out).size() == 2);
  CHECK(says(dblock(database, {"doctor", "--db", database.url()}).out, "`dblock history` shows it"));
  CHECK(says(dblock(database, {"reap", "--forget-history", "0"}).out, "1 past run deleted"));
  database.sql("DROP TABLE dblock_history");
  warned("`dblock migrate --history on` makes this table");
}

TEST_CASE("a takeover without a release is recorded by the embedded store", "[local]") {
  Kept t;
  take(t.database, "k", {"--ttl", "60s", "--margin", "1s"});
  t.database.age_until_expired("k", 6s);
  REQUIRE(run_true(t.database) == exited(0));
  const auto runs = t.runs();
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].at("outcome") == "succeeded");
  CHECK(runs[1].at("outcome") == "abandoned");
  CHECK(runs[1].at("kind") == "acquire");
}

TEST_CASE("at a terminal the history is as wide as that, and elsewhere nothing is cut", "[asan-local]") {
  const Kept t;
  const std::string note = std::string(150, 'n') + "/4711";
  REQUIRE(run_true(t.database, "k", {"--note", note}) == exited(0));
  Terminal terminal(dblock_spawn(t.database, {"history"}), 80);
  REQUIRE(terminal.wait() == exited(0));
  const auto rows = lines(terminal.screen());
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].size() <= 80 + 1);  // with the \r
  CHECK(rows[1].starts_with("k "));
  CHECK(rows[1].size() <= 80 + 1 + 2 * 2);  // and two … of three bytes each
  CHECK(says(dblock(t.database, {"history"}, {"COLUMNS=80"}).out, note));
}

}  // namespace
}  // namespace dblock::test
