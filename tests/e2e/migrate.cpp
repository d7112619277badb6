// Schema: migrate in all its forms, and what happens with a schema that does not fit.

#include "support/catch.hpp"
#include "support/dblock.hpp"

namespace dblock::test {
namespace {

constexpr auto k_empty = Database::Schema::none;

TEST_CASE("migrate twice does no harm and the second does nothing") {
  Database database(k_empty);
  const auto first = dblock(database, {"migrate"});
  INFO(first.err);
  CHECK(first.exit == exited(0));
  const long long version = database.schema_version();
  CHECK(version >= 1);
  REQUIRE(dblock(database, run_words("k", {}, {"true"})).exit == exited(0));
  CHECK(dblock(database, {"migrate"}).exit == exited(0));
  CHECK(database.schema_version() == version);
  CHECK(database.has_row("k"));
}

TEST_CASE("several migrations at once all succeed") {
  for (int round = 0; round < 3; ++round) {
    const Database database(k_empty);
    std::vector<std::unique_ptr<Process>> hosts;
    for (int i = 0; i < 6; ++i)
      hosts.push_back(std::make_unique<Process>(dblock_spawn(database, {"migrate"})));
    for (const auto& host : hosts) {
      const Exit exit = host->wait();
      INFO(host->err());
      CHECK(exit == exited(0));
    }
    CHECK(dblock(database, run_words("k", {}, {"true"})).exit == exited(0));
  }
}

TEST_CASE("status and dry-run change nothing") {
  Database database(k_empty);
  const auto planned = dblock(database, {"migrate", "--dry-run"});
  CHECK(planned.exit == exited(0));
  CHECK(planned.out.find("0001") != std::string::npos);
  const auto before = dblock(database, {"migrate", "--status"});
  CHECK_FALSE(before.out.empty());
  CHECK(database.schema_version() == 0);
  REQUIRE(dblock(database, {"migrate"}).exit == exited(0));
  const auto after = dblock(database, {"migrate", "--status"});
  CHECK(after.exit == exited(0));
  CHECK(after.out != before.out);
}

TEST_CASE("a missing schema is 78 for every other subcommand and names migrate", "[server]") {
  const ServerDatabase database(shared_server(), k_empty);
  for (const Words& words :
       {run_words("k", {}, {"true"}), Words{"acquire", "--key", "k", "--ttl", "5s"},
        Words{"renew", "--key", "k", "--owner", "x"}, Words{"release", "--key", "k", "--owner", "x"},
        Words{"inspect"}, Words{"reap"}}) {
    const auto finished = dblock(database, words);
    INFO(words[0] << ": " << finished.err);
    CHECK(finished.exit == exited(78));
    CHECK(ends_with_exit_line(finished.err, 78));
    CHECK(finished.err.find("dblock migrate") != std::string::npos);
  }
}

TEST_CASE("a missing schema is not waited for", "[server]") {
  const ServerDatabase database(shared_server(), k_empty);
  const auto before = std::chrono::steady_clock::now();
  CHECK(dblock(database, run_words("k", {"--wait", "30s"}, {"true"})).exit == exited(78));
  CHECK(std::chrono::steady_clock::now() - before < 5s * slowness());
}

TEST_CASE("an older schema is 78 and migrate brings it up to date", "[server]") {
  ServerDatabase database;
  database.sql("DELETE FROM dblock_migration ORDER BY version DESC LIMIT 1");
  const auto refused = dblock(database, run_words("k", {}, {"true"}));
  INFO(refused.err);
  CHECK(refused.exit == exited(78));
  CHECK(refused.err.find("dblock migrate") != std::string::npos);
  CHECK(dblock(database, {"migrate"}).exit == exited(0));
  CHECK(dblock(database, run_words("k", {}, {"true"})).exit == exited(0));
}

TEST_CASE("a newer schema is 78 for everyone and migrate does not touch it") {
  Database database;
  database.set_schema_version(9999);
  for (const Words& words :
       {run_words("k", {}, {"true"}), Words{"inspect"}, Words{"migrate"}, Words{"reap"}}) {
    const auto finished = dblock(database, words);
    INFO(words[0] << ": " << finished.err);
    CHECK(finished.exit == exited(78));
    CHECK(finished.err.find("newer") != std::string::npos);
  }
  CHECK(database.rows() == 0);
}

TEST_CASE("an account that may not create tables is told what migrate needs", "[server]") {
  ServerDatabase database(shared_server(), k_empty);
  const std::string user = database.account("", "SELECT");
  const auto finished = dblock_bare({"migrate"}, {"DBLOCK_DB=" + database.url(user)});
  INFO(finished.err);
  CHECK(finished.exit == exited(77));
  CHECK(finished.err.find("CREATE") != std::string::npos);
}

TEST_CASE("the printed grants are enough for everything but migrate and for no more", "[server]") {
  ServerDatabase database;
  const std::string least = database.account("", "USAGE");
  const auto printed = dblock(database, {"migrate", "--print-grants", least + "@%"});
  INFO(printed.out);
  REQUIRE(printed.exit == exited(0));
  for (std::string statement : lines(printed.out)) {
    if (statement.empty() || statement.starts_with("--")) continue;
    if (statement.ends_with(";")) statement.pop_back();
    database.sql(statement);
  }
  const Words as_least{"DBLOCK_DB=" + database.url(least)};
  CHECK(dblock_bare(run_words("k", {}, {"true"}), as_least).exit == exited(0));
  CHECK(dblock_bare(run_words("k", {"--wait", "2s"}, {"true"}), as_least).exit == exited(0));
  const auto acquired = dblock_bare({"acquire", "--key", "s", "--ttl", "60s"}, as_least);
  CHECK(acquired.exit == exited(0));
  const std::string owner = database.column("s", "lock_value");
  CHECK(dblock_bare({"renew", "--key", "s", "--owner", owner}, as_least).exit == exited(0));
  CHECK(dblock_bare({"release", "--key", "s", "--owner", owner}, as_least).exit == exited(0));
  CHECK(dblock_bare({"inspect", "--all"}, as_least).exit == exited(0));
  CHECK(dblock_bare({"reap"}, as_least).exit == exited(0));
  CHECK(dblock_bare({"migrate", "--status"}, as_least).exit == exited(0));
  Connection session(database.server(), least, database.name());
  CHECK_THROWS(session.sql("CREATE TABLE other (a INT)"));
  CHECK_THROWS(session.sql("DROP TABLE dblock_lock"));
}

TEST_CASE("no grants are printed for a hostile user name", "[server]") {
  const ServerDatabase database;
  const auto printed =
      dblock(database, {"migrate", "--print-grants", "a'@'%' IDENTIFIED BY 'x'; DROP TABLE t; -- "});
  INFO(printed.err);
  CHECK(printed.exit == exited(64));
  CHECK(printed.out.empty());
  CHECK(says(printed.err, "cannot print grants for names with quotes"));
}

}  // namespace
}  // namespace dblock::test
