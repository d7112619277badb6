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
  database.sql("DELETE FROM dblock_schema ORDER BY version DESC LIMIT 1");
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

TEST_CASE("runs, waiters, keepers and guardians live through a migration to a version that serves them",
          "[server]") {
  ServerDatabase database;
  const TempDir directory, other, script;
  const Words terms{"--ttl", "6s", "--heartbeat", "300ms"};
  Process run(dblock_spawn(database, run_words("k", terms, sh(until_told(directory)))));
  await_file(run, directory.file("up"));
  Process waiter(dblock_spawn(database, run_words("k", with(terms, {"--wait", "60s"}), {"true"})));
  REQUIRE(wait_until([&] { return database.waiting_in_line() == 1; }));
  Process reader(dblock_spawn(database, run_words("s", with(terms, {"--shared"}), sh(until_told(other)))));
  await_file(reader, other.file("up"));
  Process killed(dblock_spawn(database, run_words("g", {"--ttl", "10m"}, {"sleep", "600"})));
  REQUIRE(wait_until([&] { return database.has_holder("g"); }));
  static_cast<void>(job_of(killed));
  Spawn keeps;
  keeps.argv = sh(dblock_binary() + " acquire --key p --ttl 3s --while-pid $$ && " + until_told(script));
  keeps.env = {"DBLOCK_DB=" + database.url()};
  Process kept(keeps);
  await_file(kept, script.file("up"));

  const long long ours = database.schema_version();
  database.sql("ALTER TABLE dblock_lock ADD COLUMN later INT NULL,ADD KEY dblock_lock_later (later)");
  database.set_schema_version(ours + 1, ours);
  CHECK(dblock(database, {"migrate"}).exit == exited(0));
  CHECK(database.schema_version() == ours + 1);
  for (const auto& session : database.sessions()) database.kill_session(session);
  await_renewal(database);
  await_renewal(database, "p");
  const auto reads = [&] {
    return database.value("SELECT MAX(expire_time) FROM dblock_lock WHERE lock_key='s'");
  };
  const auto read_until = reads();
  CHECK(wait_until([&] { return reads() > read_until; }));

  killed.signal(SIGKILL);
  CHECK(wait_until([&] { return !database.has_holder("g"); }));
  for (const auto* const where : {&directory, &other, &script}) write_file(where->file("go"), "");
  for (auto* const process : {&run, &reader, &waiter, &kept}) {
    CHECK(process->wait(30s * slowness()) == exited(0));
    INFO(process->err());
  }
  CHECK(wait_until([&] { return !database.has_holder("p"); }));
  CHECK(database.number("SELECT COUNT(lock_value) FROM dblock_lock") == 0);
  CHECK(dblock(database, run_words("k", {}, {"true"})).exit == exited(0));
}

TEST_CASE("a run goes on when its schema is replaced by one that does not serve it, and no other begins") {
  Database database;
  const TempDir directory;
  Process run(dblock_spawn(database, run_words("k", {}, sh(until_told(directory)))));
  await_file(run, directory.file("up"));
  const long long ours = database.schema_version();
  database.set_schema_version(ours + 1, ours + 1);
  for (const Words& words : {run_words("k", {}, {"true"}), Words{"migrate"}}) {
    const auto refused = dblock(database, words);
    CHECK(refused.exit == exited(78));
    CHECK(says(refused.err, "upgrade dblock"));
  }
  write_file(directory.file("go"), "");
  CHECK(run.wait() == exited(0));
  INFO(run.err());
  CHECK_FALSE(database.has_holder("k"));
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
