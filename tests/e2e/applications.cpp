// Locks that applications take by the procedures, as the users of dblock see them.
#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

const char* const k_owner = "app@web-3:php-0123456789abcdef0123456789abcdef";

// An application, under an account with the rights that `migrate` prints for it.
class Client {
 public:
  explicit Client(ServerDatabase& database, std::string owner = k_owner)
      : owner_(std::move(owner)),
        session_(database.server(), database.application_account(), database.name()) {}

  // outcome, token, remaining_ms, holder
  Row acquire(const std::string& key = "k", const std::string& ttl = "60000",
              const std::string& margin = "NULL", const std::string& patience = "NULL") {
    return call("dblock_acquire('" + key + "','" + owner_ + "'," + ttl + "," + margin + "," + patience +
                ",'checkout')");
  }
  Row renew(const std::string& key = "k") {
    return call("dblock_renew('" + key + "','" + owner_ + "',NULL)");
  }
  Row release(const std::string& key = "k") { return call("dblock_release('" + key + "','" + owner_ + "')"); }
  // Granted, or the case ends.
  std::string token() {
    const Row row = acquire();
    REQUIRE(row.at(0) == "granted");
    return row.at(1);
  }

 private:
  Row call(const std::string& words) {
    const auto rows = session_.sql("CALL " + words);
    REQUIRE(rows.size() == 1);
    REQUIRE(rows.front().size() == 4);
    return rows.front();
  }
  std::string owner_;
  Connection session_;
};

TEST_CASE("a run finds the lock of an application held, and takes it once it is released",
          "[server][safety]") {
  ServerDatabase database;
  Client client(database);
  client.token();
  const auto refused = dblock(database, run_words("k", {}, {"true"}));
  INFO(refused.err);
  CHECK(refused.exit == exited(75));
  CHECK(says(refused.err, "is held by app@web-3:php (connection "));
  CHECK(says(refused.err, "note: checkout"));
  CHECK(client.release().at(0) == "released");
  CHECK(run_true(database) == exited(0));
}

TEST_CASE("an application finds the lock of a run held, and is told by whom", "[server][safety]") {
  ServerDatabase database;
  Client client(database);
  LiveRun run(database);
  const Row row = client.acquire();
  CHECK(row.at(0) == "held");
  CHECK(says(row.at(3), ":" + std::to_string(run.pid())));
  CHECK(client.renew().at(0) == "lost");
  CHECK(client.release().at(0) == "lost");
  CHECK(database.has_holder("k"));
  CHECK(run.end() == exited(0));
  CHECK(client.acquire().at(0) == "granted");
}

TEST_CASE("an application that waits is shown like every other waiter, and a run that came later comes later",
          "[server][safety]") {
  ServerDatabase database;
  Client holder(database, "holder"), waiter(database);
  holder.token();
  const auto waits = [&] { return waiter.acquire("k", "60000", "NULL", "3600000").at(0); };
  REQUIRE(waits() == "held");
  Process run(dblock_spawn(database, run_words("k", {"--wait", "120s"}, {"true"})));
  const auto waiters = [&] { return inspected(database)["locks"].at(0)["waiters"]; };
  REQUIRE(wait_until([&] { return waiters().size() == 2; }));
  CHECK(waiters()[0]["user"] == "app");
  CHECK(waiters()[0]["host"] == "web-3:php");
  CHECK(waiters()[0]["pid"].is_null());
  CHECK(waiters()[1]["pid"] == run.pid());
  CHECK(holder.release().at(0) == "released");
  CHECK(waits() == "granted");
  CHECK(waiters().size() == 1);
  CHECK(waiter.release().at(0) == "released");
  CHECK(run.wait() == exited(0));
}

TEST_CASE("inspect shows an application like every other holder", "[server][other-servers]") {
  ServerDatabase database;
  Client client(database);
  const std::string token = client.token();
  const auto table = dblock(database, {"inspect"});
  INFO(table.out);
  CHECK(says(table.out, "app@web-3:php "));
  CHECK(says(table.out, "checkout"));
  const auto lock = inspected(database)["locks"].at(0);
  CHECK(lock["kind"] == "sql");
  CHECK(lock["state"] == "held");
  CHECK(lock["owner"] == k_owner);
  CHECK(lock["user"] == "app");
  CHECK(lock["host"] == "web-3:php");
  CHECK(lock["pid"].is_null());
  CHECK(lock["note"] == "checkout");
  CHECK(std::to_string(lock["token"].get<long long>()) == token);
  CHECK(says(dblock(database, {"inspect", "--format", "prometheus"}).out, "key=\"k\""));
  CHECK(database.value("SELECT holder FROM dblock_now") == "app@web-3:php");
}

TEST_CASE("release and renew leave the lease of an application to it, and --force ends it",
          "[server][safety][other-servers]") {
  ServerDatabase database;
  const std::string owner = GENERATE(as<std::string>{}, "app@web-3:php-1", "app@web-3:php/1");
  Client client(database, owner);
  const std::string token = client.token();
  const auto released = dblock(database, {"release", "--key", "k", "--owner", owner});
  INFO(released.err);
  CHECK(released.exit == exited(64));
  CHECK(says(released.err, "is held by an application; use --force"));
  const auto renewed = dblock(database, {"renew", "--key", "k", "--owner", owner});
  CHECK(renewed.exit == exited(64));
  CHECK(says(renewed.err, "is held by an application, which renews its lease itself"));
  CHECK(dblock(database, {"release", "--key", "k", "--owner", "app@web-3:php/2"}).exit == exited(76));

  const auto shown = dblock(database, {"release", "--key", "k", "--force"});
  CHECK(shown.exit == exited(75));
  CHECK(says(shown.out, "--force --token " + token));
  const auto revoked = dblock(database, {"release", "--key", "k", "--force", "--token", token});
  INFO(revoked.err);
  CHECK(revoked.exit == exited(0));
  CHECK(client.renew().at(0) == "lost");
  CHECK(client.release().at(0) == "released");
}

TEST_CASE(
    "the lease of an application that has gone silent is taken over, and then it is told that it is lost",
    "[server][safety]") {
  ServerDatabase database;
  Client client(database);
  REQUIRE(client.acquire("k", "1000", "0").at(0) == "granted");
  const auto next = dblock(database, run_words("k", {"--wait", "60s"}, {"true"}));
  INFO(next.err);
  CHECK(next.exit == exited(0));
  CHECK(client.renew().at(0) == "lost");
  CHECK(client.acquire().at(0) == "granted");
}

TEST_CASE("the history records the leases of applications", "[server][other-servers]") {
  ServerDatabase database;
  REQUIRE(dblock_at(database.owner_url(), {"migrate", "--history", "on"}).exit == exited(0));
  Client client(database);
  const std::string token = client.token();
  CHECK(client.release().at(0) == "released");
  const auto shown = dblock_at(database.owner_url(), {"history", "--json"});
  INFO(shown.err);
  const auto runs = nlohmann::json::parse(shown.out)["runs"];
  REQUIRE(runs.size() == 1);
  CHECK(runs[0]["kind"] == "sql");
  CHECK(runs[0]["outcome"] == "released");
  CHECK(runs[0]["host"] == "web-3:php");
  CHECK(std::to_string(runs[0]["token"].get<long long>()) == token);
}

TEST_CASE("the printed grants of an application let it call the procedures and no more",
          "[server][other-servers]") {
  ServerDatabase database;
  Client client(database);
  CHECK(client.acquire().at(0) == "granted");
  const std::string user = database.value(
      "SELECT SUBSTRING_INDEX(SUBSTRING_INDEX(holder_command,'of ',-1),'@',1) FROM dblock_lock");
  Connection session(database.server(), user, database.name());
  CHECK_THROWS(session.sql("SELECT 1 FROM dblock_lock"));
  CHECK_THROWS(session.sql("DELETE FROM dblock_fence"));
  for (const Words& words : {Words{"migrate", "--applications"},
                             Words{"migrate", "--print-grants", "u", "--applications", "--history", "on"}}) {
    const auto refused = dblock(database, words);
    CHECK(refused.exit == exited(64));
    CHECK(says(refused.err, "--applications goes with --print-grants"));
  }
}

TEST_CASE("migrate says which grants a MySQL server has dropped with an older procedure", "[server][mysql]") {
  ServerDatabase database;
  database.sql("ALTER PROCEDURE dblock_renew COMMENT 'dblock, version 0: old'");
  const auto migrated = dblock_at(database.owner_url(), {"migrate"});
  INFO(migrated.err);
  CHECK(migrated.exit == exited(0));
  CHECK(says(migrated.out, "installed: dblock_renew()"));
  CHECK(says(migrated.err, "grant EXECUTE again"));
}

// What doctor finds of the procedures, with the account of this URL.
nlohmann::json finding(const std::string& url) {
  const auto report = nlohmann::json::parse(dblock_at(url, {"doctor", "--json"}).out);
  for (const auto& check : report["checks"])
    if (check["name"] == "procedures") return check;
  return {};
}

TEST_CASE("doctor says which procedures this account may call, and what is wrong with them",
          "[server][other-servers][asan-server]") {
  ServerDatabase database;
  // The accounts that the cases share have rights on other databases, too.
  const std::string owner = database.url(database.account());
  const std::string jobs = database.account("", "USAGE");
  for (const auto& grant : lines(dblock(database, {"migrate", "--print-grants", jobs + "@%"}).out))
    database.sql(grant.substr(0, grant.rfind(';')));
  CHECK(finding(owner)["level"] == "ok");
  CHECK(finding(owner)["found"] ==
        "callable: dblock_acquire, dblock_assert_held, dblock_release, dblock_renew");
  CHECK(finding(database.url(jobs))["level"] == "ok");
  CHECK(finding(database.url(jobs))["found"] == "callable: dblock_assert_held");
  CHECK(says(finding(database.url(jobs))["message"], "not for this account: dblock_acquire"));
  database.sql("ALTER PROCEDURE dblock_renew COMMENT 'dblock, version 0: old'");
  CHECK(says(finding(owner)["found"], "of an older version"));
  database.sql("DROP PROCEDURE dblock_renew");
  CHECK(finding(owner)["level"] == "warn");
  CHECK(says(finding(owner)["found"], "missing: dblock_renew"));

  const std::string gone = database.account(
      "", "SELECT,INSERT,UPDATE,CREATE,ALTER,INDEX,CREATE ROUTINE,ALTER ROUTINE,CREATE VIEW");
  database.sql("DROP PROCEDURE dblock_release");
  REQUIRE(dblock_at(database.url(gone), {"migrate"}).exit == exited(0));
  database.sql("REVOKE UPDATE ON " + database.name() + ".* FROM " + gone);
  CHECK(says(finding(owner)["found"], "broken: dblock_release, dblock_renew"));
  CHECK(says(finding(owner)["message"], "UPDATE command denied"));
  database.sql("DROP USER " + gone);
  CHECK(finding(owner)["level"] == "warn");
  CHECK(says(finding(owner)["found"], "broken: dblock_release, dblock_renew"));
  CHECK(says(finding(owner)["message"], "as an account that stays"));
}

TEST_CASE("doctor calls no procedure that is not dblock's, and none with the rights of an administrator",
          "[server][other-servers]") {
  ServerDatabase database;
  const std::string owner = database.owner_url(), root = database.url("root");
  CHECK(finding(root)["level"] == "ok");
  CHECK(finding(root)["found"] == "there, and not called");
  database.sql("CREATE TABLE called (who VARCHAR(100))");
  for (const std::string security : {"DEFINER", "INVOKER"}) {
    database.sql("DROP PROCEDURE dblock_renew");
    database.sql(
        "CREATE PROCEDURE dblock_renew(IN p_key VARCHAR(1024), IN p_owner VARCHAR(1024), IN p_ttl_ms BIGINT) "
        "SQL SECURITY " +
        security + " INSERT INTO called VALUES (CURRENT_USER())");
    CHECK(finding(root)["level"] == "bad");
  }
  const auto found = finding(owner);
  INFO(found.dump());
  CHECK(found["level"] == "bad");
  CHECK(found["found"] == "not dblock's: dblock_renew");
  CHECK(database.value("SELECT COUNT(*) FROM called") == "0");
}

}  // namespace
}  // namespace dblock::test
