// What reaches the server: how many statements, in which form, whatever the session's clock settings.
#include <cstdlib>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/proxy.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

// Statements and prepares that the server has counted since it started; reading them costs one.
long long statements_so_far(ServerDatabase& database) {
  return database.number("SELECT SUM(variable_value) FROM " + status_table() +
                         " WHERE variable_name IN ('QUESTIONS', 'COM_STMT_PREPARE')");
}

// A session that has said goodbye is counted when the server comes to read it.
bool alone(ServerDatabase& database) {
  return database.number(
             "SELECT COUNT(*) FROM information_schema.processlist WHERE user IN ('app', 'owner')") == 0;
}

template <typename Act>
long long cost_of(ServerDatabase& database, Act&& act) {
  REQUIRE(wait_until([&] { return alone(database); }));
  const long long before = statements_so_far(database);
  act();
  int looks = 0;
  REQUIRE(wait_until([&] { return ++looks, alone(database); }));
  return statements_so_far(database) - before - 1 - looks;
}

TEST_CASE("an uncontended run on an existing row costs at most three statements", "[server][other-servers]") {
  Server server;
  ServerDatabase database(server.address());
  REQUIRE(run_true(database) == exited(0));
  // Logging in and saying goodbye counts as well; it is no statement.
  const long long session =
      cost_of(database, [&] { REQUIRE(Connection::can_connect(server.address(), "app")); });
  CHECK(session <= 1);
  for (int round = 0; round < 3; ++round) {
    CHECK(cost_of(database, [&] { REQUIRE(run_true(database) == exited(0)); }) <= 3 + session);
  }
}

// A trigger that hides what the statement says.
void spy_on_updates(ServerDatabase& database) {
  database.sql("CREATE TABLE log (at DATETIME)");
  database.sql("CREATE TRIGGER spy AFTER UPDATE ON dblock_lock FOR EACH ROW INSERT INTO log VALUES (NOW())");
}

TEST_CASE("a trigger that hides the token keeps the job from running, in words",
          "[server][safety][other-servers]") {
  ServerDatabase database;
  REQUIRE(run_true(database) == exited(0));
  spy_on_updates(database);
  const auto refused = dblock(database, run_words("k", {}, {"echo", "the job ran"}));
  INFO(refused.out << refused.err);
  CHECK(refused.exit == exited(78));
  CHECK(refused.out.empty());
  CHECK(says(refused.err, "drop the triggers on dblock's tables"));
  // The grant that it was is given back.
  CHECK_FALSE(database.has_holder("k"));
  CHECK(database.column("k", "last_outcome") == "not_run");
}

TEST_CASE("a trigger that comes while a job runs does not stop it", "[server][safety][other-servers]") {
  ServerDatabase database;
  LiveRun job(database, {"--ttl", "20s", "--heartbeat", "300ms"});
  spy_on_updates(database);
  for (int renewals = 0; renewals < 3; ++renewals) await_renewal(database, "k");
  CHECK(job.end(5) == exited(5));
  CHECK_FALSE(database.has_holder("k"));
  CHECK(database.column("k", "last_exit_code") == "5");
}

TEST_CASE("a trigger that hides the token from a reader, a slot or several keys keeps the job from running",
          "[server][safety][other-servers]") {
  const Words options = GENERATE(Words{"--shared"}, Words{"--slots", "2"}, Words{"--key", "l"});
  ServerDatabase database;
  REQUIRE(run_true(database, "k", options) == exited(0));
  database.sql("CREATE TABLE log (at DATETIME)");
  for (const std::string event : {"INSERT", "UPDATE"})
    database.sql("CREATE TRIGGER spy_" + event + " AFTER " + event +
                 " ON dblock_lock FOR EACH ROW INSERT INTO log VALUES (NOW())");
  const auto tried = dblock(database, run_words("k", options, {"echo", "the job ran"}));
  INFO(tried.out << tried.err);
  CHECK(tried.exit == exited(78));
  CHECK(tried.out.empty());
  CHECK(says(tried.err, "drop the triggers on dblock's tables"));
  CHECK(database.value("SELECT COUNT(lock_value) FROM dblock_lock") == "0");
}

TEST_CASE("a nested run that is not told its token counts as none of the lease",
          "[server][safety][other-servers][asan-server]") {
  ServerDatabase database;
  LiveRun outer(database, {}, [](const TempDir& directory) {
    return sh(until_told(directory) + ";" + quoted(dblock_words(run_words("k", {}, {"true"}))));
  });
  spy_on_updates(database);
  database.sql("CREATE TABLE counts (n INT)");
  database.sql("CREATE TRIGGER " + database.name() + ".count BEFORE UPDATE ON " + database.name() +
               ".dblock_lock FOR EACH ROW INSERT INTO " + database.name() +
               ".counts VALUES (NEW.lock_count)");
  CHECK(outer.end() == exited(78));
  INFO(outer.err());
  // Counted in, counted out again, released.
  CHECK(database.value("SELECT GROUP_CONCAT(n SEPARATOR ' ') FROM counts") == "2 1 0");
}

TEST_CASE("no statement uses the forms that the protocol forbids", "[server]") {
  ServerDatabase database;
  Proxy proxy(database.server());
  const std::string url = proxy.url(database.name());
  LiveRun run(url, {"--heartbeat", "200ms"});
  REQUIRE(soon_renewed(database));
  REQUIRE(run.end() == exited(0));
  REQUIRE(dblock_at(url, {"acquire", "--key", "s", "--ttl", "60s"}).exit == exited(0));
  REQUIRE(dblock_at(url, run_words("s", {"--wait", "300ms"}, {"true"})).exit == exited(75));
  REQUIRE(dblock_at(url, {"inspect", "--all"}).exit == exited(0));
  REQUIRE(dblock_at(url, {"reap"}).exit == exited(0));
  const auto statements = proxy.statements();
  CHECK(statements.size() >= 8);
  for (const auto& statement : statements) {
    INFO(statement);
    for (const char* forbidden : {"INSERT IGNORE", "REPLACE INTO", "ON DUPLICATE", "NOW(", "SYSDATE",
                                  "CURRENT_TIMESTAMP", "NOT EXISTS"})
      CHECK_FALSE(containing(forbidden)(statement));
  }
}

TEST_CASE("the server is not asked more often than the heartbeat says", "[server]") {
  ServerDatabase database;
  REQUIRE(run_true(database) == exited(0));  // a new key costs more
  Proxy proxy(database.server());
  const auto begun = std::chrono::steady_clock::now();
  LiveRun run(proxy.url(database.name()), {"--ttl", "6s", "--heartbeat", "300ms"});
  for (int renewals = 0; renewals < 3; ++renewals) await_renewal(database);
  REQUIRE(run.end() == exited(0));
  const auto beats = (std::chrono::steady_clock::now() - begun) / 300ms;
  const auto count = static_cast<long long>(proxy.statements().size());
  CHECK(count >= 3 + 3);
  CHECK(count <= beats + 3 + 6);  // a new key's row and its fence are made before they are granted
}

TEST_CASE("keys with quotes and backslashes are data under any sql mode", "[server][other-servers]") {
  Server server;
  ServerDatabase database(server.address());
  for (const char* mode : {"", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT",
                           "SIMULTANEOUS_ASSIGNMENT,STRICT_ALL_TABLES", "ORACLE"}) {
    database.sql(std::string("SET GLOBAL sql_mode = '") + known_sql_modes(mode) + "'");
    for (const char* key : {"it's", "a\\", "\"x\"", "'; DROP TABLE dblock_lock; -- ", "%s%n", "{}"}) {
      const auto finished =
          dblock(database, run_words(key, {"--note", key}, sh("printf %s \"$DBLOCK_KEY\"")));
      INFO(mode << " " << finished.err);
      CHECK(finished.exit == exited(0));
      CHECK(finished.out == key);
    }
  }
  CHECK(database.number("SELECT COUNT(*) FROM dblock_lock") == 6);
}

TEST_CASE("session time zones change nothing", "[server][safety]") {
  Server server;
  ServerDatabase database(server.address());
  // The server's tables of zones are empty; offsets at both ends of the world do as well.
  for (const char* zone : {"+13:00", "-12:59", "+05:45", "+00:00"}) {
    const std::string key = std::string("--key=") + zone;
    database.sql(std::string("SET GLOBAL time_zone = '") + zone + "'");
    REQUIRE(dblock(database, {"acquire", key, "--ttl", "60s"}).exit == exited(0));
    const long long left = database.number(std::string("SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), "
                                                       "expire_time) FROM dblock_lock WHERE lock_key = '") +
                                           zone + "'");
    CHECK(left >= 55);
    CHECK(left <= 60);
    CHECK(dblock(database, {"run", key, "--", "true"}).exit == exited(75));
    for (const char* other : {"-12:59", "+13:00"}) {
      database.sql(std::string("SET GLOBAL time_zone = '") + other + "'");
      CHECK(dblock(database, {"run", key, "--", "true"}).exit == exited(75));
    }
  }
}

TEST_CASE("the hours around a change to and from summer time change nothing",
          "[server][safety][other-servers]") {
  // The server itself lives in a zone with summer time, which it inherits; sessions get a fixed clock.
  ::setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
  Server server;
  ::unsetenv("TZ");
  ServerDatabase database(server.address());
  for (const char* scope : {"GLOBAL", "SESSION"})
    database.sql(std::string("SET ") + scope + " time_zone = 'SYSTEM'");
  REQUIRE(database.value("SELECT TIME(FROM_UNIXTIME(1774745999))") == "01:59:59");
  REQUIRE(database.value("SELECT TIME(FROM_UNIXTIME(1774746000))") == "03:00:00");
  Proxy proxy(server.address());
  const long long changes[] = {1774746000,   // 2026-03-29 01:00 UTC: 02:00 becomes 03:00
                               1792890000};  // 2026-10-25 01:00 UTC: 03:00 becomes 02:00
  for (const long long change : changes) {
    for (const long long offset : {-3601, -1, 0, 1, 3599, 3601}) {
      const std::string key = std::to_string(change) + std::to_string(offset);
      const auto at = [&](long long second, const Words& words) {
        proxy.set_time(std::to_string(change + offset + second));
        return dblock_at(proxy.url(database.name()), words).exit;
      };
      INFO(key);
      REQUIRE(at(0, {"acquire", "--key", key, "--ttl", "10m", "--margin", "1s"}) == exited(0));
      CHECK(database.column(key, "TIMESTAMPDIFF(SECOND, '1970-01-01', expire_time)") ==
            std::to_string(change + offset + 600));
      CHECK(at(599, run_words(key, {}, {"true"})) == exited(75));
      CHECK(at(602, {"acquire", "--key", key, "--ttl", "10m"}) == exited(0));
    }
  }
}

TEST_CASE("two renewals within one microsecond both succeed", "[server]") {
  ServerDatabase database;
  Proxy proxy(database.server());
  proxy.set_time("1774746000.5");
  const std::string db = proxy.url(database.name());
  const auto acquired = dblock_at(db, {"acquire", "--key", "k", "--ttl", "60s"});
  const std::string owner = lines(acquired.out).at(0);
  for (int i = 0; i < 3; ++i)
    CHECK(dblock_at(db, {"renew", "--key", "k", "--owner", owner}).exit == exited(0));
  CHECK(database.column("k", "update_time") == "2026-03-29 01:00:00.500000");
  CHECK(dblock_at(db, {"release", "--key", "k", "--owner", owner}).exit == exited(0));
}

TEST_CASE("statement-based replication raises no warning of an unsafe statement", "[server][other-servers]") {
  Server server({"--log-bin=binlog", "--server-id=1", "--binlog-format=STATEMENT"});
  ServerDatabase database(server.address());
  for (int i = 0; i < 2; ++i) {
    LiveRun run(database, {"--heartbeat", "200ms"});
    REQUIRE(soon_renewed(database));
    REQUIRE(run.end() == exited(0));
  }
  {
    LiveRun holder(database);
    std::vector<Process> waiters;
    for (const Words& options :
         {Words{"--line", "one"}, Words{"--shared"}, Words{"--key", "l"}, Words{"--replace"}})
      waiters.push_back(waiting_run(database, with({"--wait", "120s"}, options)));
    REQUIRE(holder.end() == exited(0));
    check_all_succeed(waiters);
  }
  REQUIRE(dblock(database, {"reap"}).exit == exited(0));
  const std::string log = read_file(server.directory() + "/error.log");
  CHECK_FALSE(says(log, "nsafe statement"));
}

}  // namespace
}  // namespace dblock::test
