// doctor: a line for each check, and 78 exactly when something is bad.
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/local_file.hpp"
#include "support/privilege.hpp"

namespace dblock::test {
namespace {

using Json = nlohmann::json;

struct Doctored {
  Exit exit;
  Json document;

  // The level of a check, of one host where there are several; "" when there is no such line.
  [[nodiscard]] std::string level(const std::string& check, const std::string& host = "") const {
    return text_of(check, host, "level");
  }
  [[nodiscard]] std::string message(const std::string& check) const { return text_of(check, "", "message"); }
  [[nodiscard]] std::string found(const std::string& check) const { return text_of(check, "", "found"); }

 private:
  [[nodiscard]] std::string text_of(const std::string& check, const std::string& host,
                                    const char* field) const {
    for (const auto& one : document.at("checks")) {
      if (one.at("name") != check) continue;
      if (!host.empty() && one.at("host") != host) continue;
      return one.at(field).is_null() ? "" : one.at(field).get<std::string>();
    }
    return "";
  }
};

Doctored judge(const Spawn& spec) {
  const auto finished = run_program(spec);
  UNSCOPED_INFO(finished.out << finished.err);
  Doctored doctored{finished.exit, Json::parse(finished.out)};
  CHECK(doctored.document.at("format") == 1);
  const bool bad = doctored.document.at("verdict") == "bad";
  CHECK(finished.exit == exited(bad ? 78 : 0));
  CHECK(ends_with_exit_line(finished.err, 78) == bad);
  return doctored;
}

Doctored doctor(const std::string& url, Words words = {"doctor", "--json"}) {
  return judge(dblock_spawn_at(url, words));
}

TEST_CASE("doctor finds nothing bad in a working configuration and takes no lock") {
  const Database database;
  REQUIRE(run_true(database) == exited(0));
  const std::string before = database.row("k");
  const auto doctored = doctor(database.url());
  CHECK(doctored.exit == exited(0));
  CHECK(doctored.level("configuration") == "ok");
  CHECK(doctored.found("configuration") == "DBLOCK_DB");
  CHECK(doctored.level("schema") == "ok");
  CHECK(doctored.level("clock") == "ok");
  CHECK(database.row("k") == before);
  CHECK(database.rows() == 1);
}

TEST_CASE("doctor --try does what jobs do, with locks of its own, and holds none afterwards") {
  const Database database;
  const auto doctored = doctor(database.url(), {"doctor", "--try", "--json"});
  CHECK(doctored.exit == exited(0));
  for (const char* const check : {"try-grant", "try-refusal", "try-renewal", "try-handover", "try-shared",
                                  "try-slots", "try-several", "try-pause", "try-release"}) {
    INFO(check);
    CHECK(doctored.level(check) == "ok");
    CHECK_FALSE(doctored.found(check).empty());
  }
  CHECK(Json::parse(dblock(database, {"inspect", "--json"}).out).at("locks").empty());
  CHECK(database.rows() == 3);
}

TEST_CASE("doctor --try leaves its locks alone while a pause covers them") {
  const Database database;
  for (const auto& [option, scope] : {std::pair("--prefix", "dblock"), std::pair("--key", "dblock doctor")}) {
    REQUIRE(dblock(database, {"pause", option, scope, "--for", "1h"}).exit == exited(0));
    const auto doctored = doctor(database.url(), {"doctor", "--try", "--json"});
    CHECK(doctored.exit == exited(0));
    CHECK(doctored.level("try-grant") == "warn");
    CHECK(doctored.level("try-refusal").empty());
    REQUIRE(dblock(database, {"resume", option, scope}).exit == exited(0));
  }
  CHECK(says(dblock(database, {"doctor", "--try", "-v"}).err, "trying what jobs do"));
}

TEST_CASE("of two doctors that try the same database one waits for the other") {
  const Database database;
  const Spawn spec = dblock_spawn(database, {"doctor", "--try", "--json"});
  Process first(spec);
  Process second(spec);
  CHECK(first.wait() == exited(0));
  CHECK(second.wait() == exited(0));
}

TEST_CASE("doctor names a variable that looks like dblock's and that nobody reads, without its value") {
  const Database database;
  const auto finished =
      dblock(database, {"doctor"}, {"DBLOCK_WIAT=5m", "DBLOCK_X\x1b=geheim", "DBLOCK_TOKEN=7"});
  INFO(finished.out);
  CHECK(finished.exit == exited(0));
  CHECK(says(finished.out, "DBLOCK_WIAT"));
  CHECK(says(finished.out, "did you mean DBLOCK_WAIT?"));
  CHECK(says(finished.out, "DBLOCK_X\\x1b"));
  CHECK_FALSE(says(finished.out, "DBLOCK_TOKEN"));
  CHECK_FALSE(says(finished.out, "geheim"));
  const auto in_job = dblock(database, {"run", "--key", "k", "--", dblock_binary(), "doctor"});
  CHECK_FALSE(says(in_job.out, " environment "));  // of which dblock sets some
}

TEST_CASE("doctor has a line for each thing that matters on a server",
          "[server][other-servers][asan-server]") {
  const ServerDatabase database;
  const auto finished = dblock(database, {"doctor"});
  INFO(finished.out);
  CHECK(finished.exit == exited(0));
  for (const char* check : {"configuration",  "credentials",       "connection",   "tls",
                            "certificate",    "privileges",        "excess",       "schema",
                            "clock",          "read-only",         "replica",      "flush-log",
                            "binary-log",     "semi-sync",         "galera",       "timeouts",
                            "connections",    "named-locks",       "session",      "balancer",
                            "client-library", "replication-group", "hourly-limits"}) {
    INFO(check);
    const auto all = lines(finished.out);
    CHECK(std::ranges::count_if(all, [&](const std::string& line) {
            return says(line, "  " + std::string(check) + " ") &&
                   (line.starts_with("ok ") || line.starts_with("warn ") || line.starts_with("bad "));
          }) == 1);
  }
  CHECK(last_line(finished.out).starts_with("verdict: "));
  CHECK_FALSE(says(finished.out, "\x1b"));
  CHECK(says(dblock(database, {"doctor", "--color", "always"}).out, "\x1b[32mok"));
}

TEST_CASE("doctor sees what the shared server does not keep and plain text", "[server][other-servers]") {
  const ServerDatabase database;
  const auto doctored = doctor(database.tcp_url() + "?tls=off");  // MySQL offers it by itself
  CHECK(doctored.exit == exited(0));
  CHECK(doctored.document.at("verdict") == "warn");
  CHECK(doctored.level("flush-log") == "warn");
  CHECK(doctored.level("tls") == "warn");
  CHECK(doctored.level("named-locks") == "ok");
  CHECK(doctored.level("balancer") == "ok");
}

TEST_CASE("doctor tells privileges too few from too many", "[server][other-servers]") {
  ServerDatabase database;
  const std::string poor = database.account("", "SELECT");
  const auto too_few = doctor(database.url(poor));
  CHECK(too_few.level("privileges") == "bad");
  for (const char* const missing :
       {"UPDATE on dblock_lock", "INSERT on dblock_waiter", "DELETE on dblock_waiter"})
    CHECK(says(too_few.found("privileges"), missing));
  CHECK_FALSE(says(too_few.found("privileges"), "SELECT"));
  CHECK(too_few.level("excess") == "ok");
  const auto too_many = doctor(database.url("root"));
  CHECK(too_many.exit == exited(0));
  CHECK(too_many.level("privileges") == "ok");
  CHECK(too_many.level("excess") == "warn");
}

TEST_CASE("doctor judges by the account's own limits of sessions and of an hour", "[server][other-servers]") {
  ServerDatabase database;
  CHECK(doctor(database.url()).level("hourly-limits") == "ok");
  const auto doctored = doctor(database.url(
      database.account("WITH MAX_UPDATES_PER_HOUR 480 MAX_CONNECTIONS_PER_HOUR 9 MAX_USER_CONNECTIONS 3")));
  CHECK(doctored.level("connections") == "ok");
  CHECK(doctored.found("connections") == "1 of max_user_connections=3");
  CHECK(doctored.level("hourly-limits") == "warn");
  CHECK(doctored.found("hourly-limits") == "MAX_UPDATES_PER_HOUR=480, MAX_CONNECTIONS_PER_HOUR=9");
}

TEST_CASE("doctor --try names what failed, and the statement that the server refused",
          "[server][other-servers]") {
  ServerDatabase database;
  const std::string poor = database.account("", "SELECT, UPDATE");
  REQUIRE(run_true(database, "dblock doctor") == exited(0));
  REQUIRE(run_true(database, "dblock doctor 1") == exited(0));
  const auto doctored = doctor(database.url(poor), {"doctor", "--try", "--json"});
  CHECK(doctored.level("try-grant") == "ok");
  CHECK(doctored.level("try-handover") == "bad");
  CHECK(says(doctored.message("try-handover"), "(statement add_place)"));
  CHECK(doctored.level("try-pause").empty());
  CHECK(doctored.level("try-release") == "ok");
}

TEST_CASE("doctor --try finds a server on which nobody could rely on a grant", "[server]") {
  ServerDatabase database;
  REQUIRE(run_true(database, "dblock doctor") == exited(0));
  database.sql("CREATE TRIGGER t BEFORE UPDATE ON dblock_lock FOR EACH ROW SET @seen = NEW.token");
  const auto doctored = doctor(database.url(), {"doctor", "--try", "--json"});
  CHECK(doctored.level("try-grant") == "bad");
  CHECK(says(doctored.message("try-grant"), "trigger"));
  CHECK(doctored.level("try-refusal").empty());
}

TEST_CASE("doctor --try calls the procedures as an application does", "[server][other-servers]") {
  ServerDatabase database;
  const std::string account = database.account("", "SELECT, INSERT, UPDATE, DELETE, EXECUTE");
  CHECK(doctor(database.url(account)).level("try-procedures").empty());
  const auto doctored = doctor(database.url(account), {"doctor", "--try", "--json"});
  CHECK(doctored.exit == exited(0));
  CHECK(doctored.level("try-procedures") == "ok");
  CHECK(doctor(database.url("root"), {"doctor", "--try", "--json"}).level("try-procedures").empty());
  REQUIRE(dblock(database, {"acquire", "--key", "dblock doctor 3", "--ttl", "1h"}).exit == exited(0));
  const auto refused = doctor(database.url(account), {"doctor", "--try", "--json"});
  CHECK(refused.level("try-procedures") == "bad");
  CHECK(refused.found("try-procedures") == "dblock_acquire: held");
}

TEST_CASE("doctor finds the printed grants enough and no more than that", "[server][other-servers]") {
  ServerDatabase database;
  const std::string least = database.account("", "USAGE");
  for (const auto& grant : lines(dblock(database, {"migrate", "--print-grants", least + "@%"}).out))
    database.sql(grant.substr(0, grant.rfind(';')));
  const auto doctored = doctor(database.url(least));
  CHECK(doctored.exit == exited(0));
  CHECK(doctored.level("privileges") == "ok");
  CHECK(doctored.level("excess") == "ok");
}

TEST_CASE("doctor finds a schema that is missing, older or newer bad",
          "[server][other-servers][asan-server]") {
  ServerDatabase database(shared_server(), Database::Schema::none);
  const auto missing = doctor(database.url());
  CHECK(missing.level("schema") == "bad");
  CHECK(says(missing.message("schema"), "dblock migrate"));
  REQUIRE(dblock(database, {"migrate"}).exit == exited(0));
  CHECK(doctor(database.url()).level("schema") == "ok");
  database.sql("ALTER TABLE dblock_fence ENGINE=MyISAM");
  CHECK(says(doctor(database.url()).found("schema"), "MyISAM"));
  database.sql("ALTER TABLE dblock_fence ENGINE=InnoDB");
  database.sql("DELETE FROM dblock_schema ORDER BY version DESC LIMIT 1");
  CHECK(says(doctor(database.url()).message("schema"), "dblock migrate"));
  database.set_schema_version(9999);
  CHECK(says(doctor(database.url()).message("schema"), "upgrade"));
}

TEST_CASE("doctor finds no server, no database and no account bad", "[server][other-servers]") {
  const ServerDatabase database;
  CHECK(doctor("mysql://app@127.0.0.1:1/d").level("connection") == "bad");
  CHECK(doctor(database.server().url("t_nowhere")).level("connection") == "bad");
  CHECK(doctor(database.url("nobody")).level("connection") == "bad");
  const Server plain({without_tls()});
  CHECK(doctor(plain.address().tcp_url("mysql") + "?tls=require").level("connection") == "bad");
}

TEST_CASE("doctor finds replicas that are asked for and not there bad", "[server]") {
  const ServerDatabase database;
  CHECK(doctor(database.url()).level("semi-sync") == "ok");
  CHECK(doctor(database.url() + "&min-replicas=1").level("semi-sync") == "bad");
}

TEST_CASE("doctor without a configuration says what to configure", "[asan-local]") {
  const auto doctored = judge(dblock_bare_spawn({"doctor", "--json"}));
  CHECK(doctored.level("configuration") == "bad");
  CHECK(says(doctored.message("configuration"), "DBLOCK_DB"));
  CHECK_FALSE(says(doctor("mysql://u:geheim@h:99999/d").document.dump(), "geheim"));
}

TEST_CASE("doctor finds a read-only server bad, and an account that writes there all the same",
          "[server][other-servers]") {
  const Server server(
      {"--innodb-flush-log-at-trx-commit=1", "--log-bin=b", "--server-id=1", "--sync-binlog=0"});
  ServerDatabase database(server.address());
  database.sql("SET GLOBAL read_only=1");
  const auto doctored = doctor(database.url());
  CHECK(doctored.level("read-only") == "bad");
  CHECK(doctored.level("excess") == "ok");
  CHECK(doctored.level("flush-log") == "ok");
  CHECK(doctored.level("binary-log") == "warn");
  CHECK(doctor(database.url("root")).level("excess") == "bad");
  CHECK(doctor(database.url("root")).level("procedures") == "ok");

  // Beside a host that takes writes it is a spare one.
  const ServerDatabase primary(shared_server());
  const std::string replica = "127.0.0.1:" + std::to_string(server.address().port);
  const std::string hosts = "mysql://app@" + replica + ",127.0.0.1:1," +
                            "127.0.0.1:" + std::to_string(primary.server().port) + "/" + primary.name();
  database.sql("CREATE DATABASE " + primary.name());
  database.sql("GRANT ALL ON " + primary.name() + ".* TO app@'%'");
  const auto three = doctor(hosts);
  CHECK(three.level("read-only", replica) == "ok");
  CHECK(three.level("connection", "127.0.0.1:1") == "warn");
  CHECK(three.level("writers") == "ok");
  CHECK(three.level("failover") == "warn");
  CHECK(three.level("clocks") == "ok");
  database.sql("SET GLOBAL read_only=0");
  CHECK(doctor(hosts).level("writers") == "bad");
}

TEST_CASE("doctor measures the server's clock against ours", "[server]") {
  DBLOCK_NEEDS(why_no_faketime());
  const ServerDatabase database;
  const auto at = [&](const std::string& offset) {
    return judge(dblock_spawn(database, {"doctor", "--json"}, clock_shifted_by(offset)));
  };
  const auto behind = at("-60s");
  CHECK(behind.level("clock") == "bad");
  CHECK(says(behind.found("clock"), "60.0 s ahead"));
  CHECK(at("+2s").level("clock") == "warn");
  CHECK(at("+60s").level("clock") == "bad");
  CHECK(at("+0s").level("clock") == "ok");
}

TEST_CASE("doctor warns of passwords that others may read and shows none", "[server]") {
  ServerDatabase database;
  const TempDir directory;
  const std::string user = database.account("IDENTIFIED BY 'geheim-1'");
  const std::string plain = database.url(user);
  const std::string with_password = "mysql://" + user + ":geheim-1@" + plain.substr(plain.find('@') + 1);
  const auto level = [&](const Words& words, const Words& env) {
    const auto finished = run_program(dblock_bare_spawn(words, env));
    UNSCOPED_INFO(finished.out << finished.err);
    CHECK_FALSE(says(finished.out + finished.err, "geheim-1"));
    return Doctored{finished.exit, Json::parse(finished.out)}.level("credentials");
  };
  const auto option_file = [&](unsigned mode) {
    const std::string path = directory.file("options-" + std::to_string(mode));
    write_file(path, "[client]\npassword=geheim-1\n", mode);
    return level({"doctor", "--json", "--defaults-file", path}, {"DBLOCK_DB=" + plain});
  };
  CHECK(level({"doctor", "--json", "--db", with_password}, {}) == "warn");
  CHECK(level({"doctor", "--json"}, {"DBLOCK_DB=" + with_password}) == "warn");
  CHECK(option_file(0644) == "warn");
  CHECK(option_file(0600) == "ok");
  write_file(directory.file("conf"), "db=" + with_password + "\n", 0644);
  CHECK(level({"doctor", "--json", "--config", directory.file("conf")}, {}) == "warn");
  ::chmod(directory.file("conf").c_str(), 0600);
  CHECK(level({"doctor", "--json", "--config", directory.file("conf")}, {}) == "ok");
}

TEST_CASE("doctor looks at the embedded store's file", "[local][asan-local]") {
  const TempDir directory;
  const std::string path = directory.file("locks.db");
  const auto none = doctor("sqlite:" + path);
  CHECK(none.exit == exited(0));
  struct stat seen {};
  CHECK(::stat(path.c_str(), &seen) != 0);  // looked for, not made
  REQUIRE(dblock_at("sqlite:" + path, run_words("k", {}, {"true"})).exit == exited(0));
  const auto good = doctor("sqlite:" + path);
  for (const char* check : {"store", "store-mode", "schema", "journal", "integrity", "disk-space", "clock"})
    CHECK(good.level(check) == "ok");
  ::chmod(path.c_str(), 0644);
  CHECK(doctor("sqlite:" + path).level("store-mode") == "warn");
  sqlite_sql(path, "PRAGMA user_version=9999");
  CHECK(doctor("sqlite:" + path).level("schema") == "bad");
  write_file(directory.file("other"), "x");
  CHECK(doctor("sqlite:" + directory.file("other")).level("store") == "bad");
  CHECK(doctor("sqlite:" + directory.path()).level("store") == "bad");
}

TEST_CASE("doctor refuses a store on a network file system", "[local]") {
  DBLOCK_NEEDS(why_no_preload());
  const TempDir directory;
  const std::string path = directory.file("locks.db");
  REQUIRE(dblock_at("sqlite:" + path, run_words("k", {}, {"true"})).exit == exited(0));
  const auto network =
      judge(dblock_spawn_at("sqlite:" + path, {"doctor", "--json"}, refusing("FAKE_FS_TYPE=0x6969")));
  CHECK(network.level("store") == "bad");
}

}  // namespace
}  // namespace dblock::test
