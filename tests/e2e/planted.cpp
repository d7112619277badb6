// What somebody who may only write in the database of the locks can have dblock do with the rights of the
// account that it runs with, and that may do more elsewhere: nothing.
#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/dblock.hpp"

namespace dblock::test {
namespace {

// An intruder with all rights on the locks, and a table elsewhere that code of his could only write with the
// rights of others.
class Intruder {
 public:
  explicit Intruder(ServerDatabase& database)
      : database_(database), elsewhere_(database.name() + "_elsewhere") {
    database_.sql("CREATE DATABASE " + elsewhere_);
    database_.sql("CREATE TABLE " + witness() + " (who VARCHAR(200)) ENGINE=MyISAM");
    session_.emplace(database_.server(), database_.account(), database_.name());
    session_->sql(
        "CREATE FUNCTION planted() RETURNS INT MODIFIES SQL DATA SQL SECURITY INVOKER BEGIN INSERT INTO " +
        witness() + " VALUES (CURRENT_USER()); RETURN 1; END");
  }
  ~Intruder() { database_.sql("DROP DATABASE IF EXISTS " + elsewhere_); }
  Intruder(const Intruder&) = delete;
  Intruder& operator=(const Intruder&) = delete;

  // Puts a view in the place of a table, through which the same rows are read and written.
  void replace_by_view(const std::string& table) {
    session_->sql("RENAME TABLE " + table + " TO hidden");
    session_->sql("CREATE SQL SECURITY INVOKER VIEW " + table +
                  " AS SELECT * FROM hidden WHERE planted() = 1 WITH CHECK OPTION");
  }
  void put_back(const std::string& table) {
    session_->sql("DROP VIEW " + table);
    session_->sql("RENAME TABLE hidden TO " + table);
  }
  void plant_procedure(const std::string& security) {
    session_->sql("DROP PROCEDURE dblock_renew");
    session_->sql(
        "CREATE PROCEDURE dblock_renew(IN p_key VARCHAR(1024), IN p_owner VARCHAR(1024), IN p_ttl BIGINT) "
        "SQL SECURITY " +
        security + " DO planted()");
  }
  // An account of an administrator who has all rights on both databases, and no others.
  std::string administrator() {
    const std::string user = database_.account();
    database_.sql("GRANT ALL ON " + elsewhere_ + ".* TO " + user);
    return user;
  }
  Connection& session() { return *session_; }
  // How often planted code has run with the rights of others.
  long long caught() { return database_.number("SELECT COUNT(*) FROM " + witness()); }

 private:
  [[nodiscard]] std::string witness() const { return elsewhere_ + ".witness"; }
  ServerDatabase& database_;
  std::string elsewhere_;
  std::optional<Connection> session_;
};

// A line of `doctor`.
nlohmann::json line_of(const std::string& url, const std::string& name) {
  const auto finished = dblock_at(url, {"doctor", "--json"});
  UNSCOPED_INFO(finished.out << finished.err);
  const auto report = nlohmann::json::parse(finished.out);
  for (const auto& check : report["checks"])
    if (check["name"] == name) return check;
  return {};
}

TEST_CASE("doctor calls no procedure with an account that has rights on other databases too",
          "[server][other-servers]") {
  ServerDatabase database;
  Intruder intruder(database);
  const std::string own = database.url(database.account()), wide = database.url(intruder.administrator());
  CHECK(says(line_of(own, "procedures")["found"], "callable: dblock_acquire"));
  CHECK(line_of(wide, "procedures")["level"] == "ok");
  CHECK(line_of(wide, "procedures")["found"] == "there, and not called");
  intruder.session().sql("CREATE TABLE called (who VARCHAR(200))");
  intruder.session().sql("DROP PROCEDURE dblock_renew");
  intruder.session().sql(
      "CREATE PROCEDURE dblock_renew(IN p_key VARCHAR(1024), IN p_owner VARCHAR(1024), IN p_ttl BIGINT) "
      "INSERT "
      "INTO called VALUES (CURRENT_USER())");
  for (const std::string& url : {wide, database.url("root")}) line_of(url, "procedures");
  CHECK(database.number("SELECT COUNT(*) FROM called") == 0);
}

TEST_CASE("doctor as an administrator runs no code of a view in the place of a table, and finds it bad",
          "[server][other-servers]") {
  ServerDatabase database;
  REQUIRE(dblock_at(database.owner_url(), {"migrate", "--history", "on"}).exit == exited(0));
  Intruder intruder(database);
  const std::string wide = database.url(intruder.administrator());
  for (const std::string table :
       {"dblock_schema", "dblock_lock", "dblock_fence", "dblock_pause", "dblock_waiter", "dblock_history"}) {
    INFO(table);
    intruder.replace_by_view(table);
    for (const std::string& url : {wide, database.url("root")}) {
      const auto schema = line_of(url, "schema");
      CHECK(schema["level"] == "bad");
      CHECK(says(schema["found"], table));
    }
    CHECK(intruder.caught() == 0);
    intruder.put_back(table);
  }
  CHECK(line_of(wide, "schema")["level"] == "ok");
}

// An expired lease, an idle lock and an old run.
void leave_work_for_reap(ServerDatabase& database) {
  using std::chrono::hours;
  if (!database.has_holder("expired")) take(database, "expired", {"--ttl", "1h"});
  database.age_until_expired("expired", hours(1));
  if (!database.has_row("idle")) REQUIRE(run_true(database, "idle") == exited(0));
  database.age("idle", hours(48));
  for (const std::string table : {"dblock_lock", "dblock_fence"})
    database.sql("UPDATE " + table + " SET token = 1 WHERE lock_key = 'idle'");
  database.sql("UPDATE dblock_history SET recorded_at = recorded_at - INTERVAL 48 HOUR");
}

TEST_CASE("an administrator who looks, reaps, pauses and runs lets no view in the place of a table run code",
          "[server][other-servers]") {
  ServerDatabase database;
  REQUIRE(dblock_at(database.owner_url(), {"migrate", "--history", "on"}).exit == exited(0));
  REQUIRE(run_true(database) == exited(0));
  Intruder intruder(database);
  const std::string root = database.url("root");
  for (const std::string table :
       {"dblock_schema", "dblock_lock", "dblock_fence", "dblock_pause", "dblock_waiter", "dblock_history"}) {
    leave_work_for_reap(database);
    intruder.replace_by_view(table);
    for (const Words& words :
         {Words{"inspect"}, Words{"inspect", "--all"}, Words{"inspect", "--key", "k", "--exit-code"},
          Words{"history"}, Words{"history", "--key", "k"}, Words{"reap", "--dry-run"},
          Words{"reap", "--forget-after", "24h", "--forget-history", "24h"}, run_words("k", {}, {"true"}),
          run_words("new", {}, {"true"}), run_words("k", {"--shared"}, {"true"}),
          run_words("k", {"--key", "j"}, {"true"}), Words{"pause", "--key", "k", "--for", "1h"},
          Words{"pause", "--key", "k", "--for", "2h"}, Words{"resume", "--key", "k"}, Words{"migrate"},
          Words{"migrate", "--status"}}) {
      const auto before = intruder.caught();
      const auto finished = dblock_at(root, words);
      INFO(table << ": " << words.front() << " " << words.back() << ": " << finished.err);
      CHECK(intruder.caught() == before);
      if (words.front() == "inspect" && table == "dblock_lock") CHECK(finished.exit == exited(78));
    }
    intruder.put_back(table);
  }
}

}  // namespace
}  // namespace dblock::test
