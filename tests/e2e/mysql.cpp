// What is peculiar to MySQL itself; everything else about it is what the other cases say, run over its
// server.

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

constexpr const char* k_mysql_password = "s3same";

// An account as MySQL makes it by default, and the ways to log in to it.
class PasswordAccount {
 public:
  explicit PasswordAccount(const ServerAddress& server = shared_server())
      : database_(server),
        user_(database_.account("IDENTIFIED WITH caching_sha2_password BY '" + std::string(k_mysql_password) +
                                "'")) {}

  // Of `dblock run` by way of `url`, which the server has not yet seen the password of.
  Finished run(const std::string& url, const Words& options = {}, const Words& command = {"true"}) {
    database_.sql("FLUSH PRIVILEGES");
    return dblock_at(url, run_words("k", options, command));
  }
  [[nodiscard]] std::string by_socket() const { return database_.url(login()); }
  [[nodiscard]] std::string by_tcp(const std::string& parameters) const {
    return database_.tcp_url(login()) + parameters;
  }
  [[nodiscard]] ServerDatabase& database() { return database_; }

 private:
  [[nodiscard]] std::string login() const { return user_ + ":" + k_mysql_password; }
  ServerDatabase database_;
  std::string user_;
};

TEST_CASE("mysql: these cases run on MySQL, with accounts as it makes them", "[server][mysql]") {
  const Server own;
  for (const auto& address : {shared_server(), own.address()}) {
    Connection root(address);
    const std::string version = root.value("SELECT VERSION()");
    INFO(version);
    CHECK_FALSE(says(version, "MariaDB"));
    CHECK(std::stoi(version) >= 9);
    CHECK(root.value("SELECT plugin FROM mysql.user WHERE user = 'app'") == "caching_sha2_password");
    CHECK_THROWS(root.sql("INSERT INTO mysql.user () VALUES () RETURNING user"));
  }
}

TEST_CASE("mysql: a password goes out over a unix socket and over tls", "[server][mysql]") {
  PasswordAccount account;
  for (const auto& url : {account.by_socket(), account.by_tcp(""), account.by_tcp("?tls=prefer"),
                          account.by_tcp("?tls=require")}) {
    const auto finished = account.run(url);
    INFO(url << ": " << finished.err);
    CHECK(finished.exit == exited(0));
  }
}

TEST_CASE("mysql: renewals log in with the password after their session was killed", "[server][mysql]") {
  PasswordAccount account;
  auto& database = account.database();
  LiveRun run(account.by_tcp("?tls=require"), {"--ttl", "10s", "--heartbeat", "200ms"});
  database.sql("FLUSH PRIVILEGES");
  const auto session = database.value("SELECT id FROM information_schema.processlist WHERE db = '" +
                                      database.name() + "' AND id <> CONNECTION_ID()");
  database.sql("KILL " + session);
  await_renewal(database);
  CHECK(run.end() == exited(0));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("mysql: a password does not go out over a connection that others can read", "[server][mysql]") {
  const Server plain({without_tls()});
  PasswordAccount with_tls;
  PasswordAccount no_tls(plain.address());
  const TempDir directory;
  const auto refused = [&](PasswordAccount& account, const std::string& parameters) {
    const auto finished = account.run(account.by_tcp(parameters), {}, {"touch", directory.file("ran")});
    INFO(parameters << ": " << finished.err);
    check_ended(finished, 77, {"tls=verify-full"});
    CHECK_FALSE(says(finished.err, k_mysql_password));
  };
  refused(with_tls, "?tls=off");
  refused(no_tls, "?tls=off");
  refused(no_tls, "");
  CHECK(no_tls.run(no_tls.by_tcp("?tls=require")).exit == exited(78));
  CHECK(no_tls.run(no_tls.by_socket()).exit == exited(0));
  CHECK(read_file(directory.file("ran")).empty());
}

TEST_CASE("mysql: an account whose password has expired is 77", "[server][mysql]") {
  PasswordAccount account;
  account.database().sql("ALTER USER u" + account.database().name().substr(1) + "_0 PASSWORD EXPIRE");
  const auto finished = account.run(account.by_socket());
  INFO(finished.err);
  CHECK(finished.exit == exited(77));
}

// super_read_only stops the accounts that read_only lets through.
TEST_CASE("mysql: a server that is read-only to everyone is 69, whoever asks", "[server][mysql][safety]") {
  const Server server;
  ServerDatabase database(server.address());
  REQUIRE(run_true(database, "seen") == exited(0));
  database.sql("SET GLOBAL super_read_only = 1");
  const TempDir directory;
  for (const auto* const key : {"seen", "new"}) {
    const auto finished =
        dblock_at(database.url("root"), run_words(key, {}, {"touch", directory.file("ran")}));
    INFO(finished.err);
    CHECK(finished.exit == exited(69));
    CHECK(says(finished.err, "read-only"));
  }
  CHECK(read_file(directory.file("ran")).empty());
  database.sql("SET GLOBAL super_read_only = 0, GLOBAL read_only = 0");
  CHECK(run_true(database, "seen") == exited(0));
}

TEST_CASE("mysql: the session of a run owns a named lock whose name MySQL takes", "[server][mysql]") {
  ServerDatabase database;
  LiveRun run(database, {}, patient_job, std::string(255, 'k'), {"DBLOCK_HOLDER=" + std::string(200, 'h')});
  const auto length = database.value(
      "SELECT CHAR_LENGTH(object_name) FROM performance_schema.metadata_locks JOIN "
      "performance_schema.threads ON "
      "thread_id = owner_thread_id WHERE object_type = 'USER LEVEL LOCK' AND processlist_db = '" +
      database.name() + "'");
  REQUIRE_FALSE(length.empty());
  CHECK(std::stoi(length) <= 64);
  CHECK(run.end() == exited(0));
}

}  // namespace
}  // namespace dblock::test
