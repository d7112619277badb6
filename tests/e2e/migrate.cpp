// Schema: migrate in all its forms, and what happens with a schema that does not fit.

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

constexpr auto k_empty = Database::Schema::none;

TEST_CASE("migrate twice does no harm and the second does nothing") {
  Database database(k_empty);
  const auto first = dblock(database, {"migrate"});
  INFO(first.err);
  CHECK(first.exit == exited(0));
  const long long version = database.schema_version();
  CHECK(version == static_cast<long long>(count_of("\n" + first.out, "\napplied: 0")));
  REQUIRE(run_true(database) == exited(0));
  const auto second = dblock(database, {"migrate"});
  CHECK(second.exit == exited(0));
  CHECK(second.out == "nothing to do: the schema is at version " + std::to_string(version) + "\n");
  CHECK(database.schema_version() == version);
  CHECK(database.has_row("k"));
}

TEST_CASE("several migrations at once all succeed", "[other-servers][asan-server]") {
  for (int round = 0; round < 3; ++round) {
    const Database database(k_empty);
    std::vector<Process> hosts;
    for (int i = 0; i < 6; ++i) hosts.emplace_back(dblock_spawn(database, {"migrate"}));
    check_all_succeed(hosts);
    const auto again = dblock(database, {"migrate"});
    CHECK(again.exit == exited(0));
    CHECK(again.out.starts_with("nothing to do: "));
    CHECK(run_true(database) == exited(0));
  }
}

TEST_CASE("status and dry-run change nothing", "[asan-local]") {
  Database database(k_empty);
  const auto planned = dblock(database, {"migrate", "--dry-run"});
  CHECK(planned.exit == exited(0));
  CHECK(says(planned.out, "0001"));
  const auto before = dblock(database, {"migrate", "--status"});
  CHECK_FALSE(before.out.empty());
  CHECK(database.schema_version() == 0);
  REQUIRE(dblock(database, {"migrate"}).exit == exited(0));
  const auto after = dblock(database, {"migrate", "--status"});
  CHECK(after.exit == exited(0));
  CHECK(after.out != before.out);
}

TEST_CASE("a missing schema is 78 for every other subcommand and names migrate", "[server][other-servers]") {
  const ServerDatabase database(shared_server(), k_empty);
  for (const Words& words :
       {run_words("k", {}, {"true"}), Words{"acquire", "--key", "k", "--ttl", "5s"},
        Words{"renew", "--key", "k", "--owner", "x"}, Words{"release", "--key", "k", "--owner", "x"},
        Words{"inspect"}, Words{"reap"}}) {
    const auto finished = dblock(database, words);
    INFO(words[0] << ": " << finished.err);
    check_ended(finished, 78, {"dblock migrate"});
  }
}

TEST_CASE("a missing schema is not waited for", "[server]") {
  const ServerDatabase database(shared_server(), k_empty);
  CHECK(run_true(database, "k", {"--wait", "1h"}) == exited(78));
}

TEST_CASE("an older schema is 78 and migrate brings it up to date", "[server][other-servers]") {
  ServerDatabase database;
  database.sql("DELETE FROM dblock_schema ORDER BY version DESC LIMIT 1");
  const auto refused = dblock(database, run_words("k", {}, {"true"}));
  INFO(refused.err);
  CHECK(refused.exit == exited(78));
  CHECK(says(refused.err, "dblock migrate"));
  CHECK(dblock(database, {"migrate"}).exit == exited(0));
  CHECK(run_true(database) == exited(0));
}

TEST_CASE("a newer schema is 78 for everyone and migrate does not touch it") {
  Database database;
  database.set_schema_version(9999);
  for (const Words& words :
       {run_words("k", {}, {"true"}), Words{"inspect"}, Words{"migrate"}, Words{"reap"}}) {
    const auto finished = dblock(database, words);
    INFO(words[0] << ": " << finished.err);
    CHECK(finished.exit == exited(78));
    CHECK(says(finished.err, "newer"));
  }
  CHECK(database.rows() == 0);
}

TEST_CASE("runs, waiters, keepers and guardians live through a migration to a version that serves them",
          "[server][other-servers][asan-server]") {
  ServerDatabase database;
  const Words terms{"--ttl", "6s", "--heartbeat", "300ms"};
  LiveRun run(database, terms, patient_job, "r");
  Process waiter(dblock_spawn(database, run_words("r", with(terms, {"--wait", "60s"}), {"true"})));
  REQUIRE(soon_in_line(database, 1, "r"));
  LiveRun reader(database, with(terms, {"--shared"}), patient_job, "s");
  LiveRun killed(database, {"--ttl", "10m"}, sleeping_job, "g");
  KeptScript kept(database.url(), "--ttl 3s", await_in_shell("go"));

  const long long ours = database.schema_version();
  database.sql("ALTER TABLE dblock_lock ADD COLUMN later INT NULL,ADD KEY dblock_lock_later (later)");
  database.set_schema_version(ours + 1, ours);
  CHECK(dblock(database, {"migrate"}).exit == exited(0));
  CHECK(database.schema_version() == ours + 1);
  for (const auto& session : database.sessions()) database.kill_session(session);
  await_renewal(database, "r");
  await_renewal(database);
  const auto reads = [&] {
    return database.value("SELECT MAX(expire_time) FROM dblock_lock WHERE lock_key='s'");
  };
  const auto read_until = reads();
  CHECK(wait_until([&] { return reads() > read_until; }));

  killed.signal(SIGKILL);
  CHECK(soon_free(database, "g"));
  run.tell();
  reader.tell();
  write_file(kept.file("go"), "");
  for (Process* const process : std::initializer_list<Process*>{&run, &reader, &waiter, &kept}) {
    CHECK(process->wait(30s * slowness()) == exited(0));
    INFO(process->err());
  }
  CHECK(soon_free(database));
  CHECK(database.number("SELECT COUNT(lock_value) FROM dblock_lock") == 0);
  CHECK(run_true(database) == exited(0));
}

TEST_CASE("a run goes on when its schema is replaced by one that does not serve it, and no other begins",
          "[safety]") {
  Database database;
  LiveRun run(database);
  const long long ours = database.schema_version();
  database.set_schema_version(ours + 1, ours + 1);
  for (const Words& words : {run_words("k", {}, {"true"}), Words{"migrate"}}) {
    const auto refused = dblock(database, words);
    CHECK(refused.exit == exited(78));
    CHECK(says(refused.err, "upgrade dblock"));
  }
  CHECK(run.end() == exited(0));
  INFO(run.err());
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("an account that may not create tables is told what migrate needs", "[server][other-servers]") {
  ServerDatabase database(shared_server(), k_empty);
  const std::string user = database.account("", "SELECT");
  const auto finished = dblock_at(database.url(user), {"migrate"});
  INFO(finished.err);
  CHECK(finished.exit == exited(77));
  CHECK(says(finished.err, "CREATE"));
}

TEST_CASE("the printed grants are enough for everything but migrate and for no more",
          "[server][other-servers]") {
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
  const std::string as_least = database.url(least);
  CHECK(dblock_at(as_least, run_words("k", {}, {"true"})).exit == exited(0));
  CHECK(dblock_at(as_least, run_words("k", {"--wait", "60s"}, {"true"})).exit == exited(0));
  const auto acquired = dblock_at(as_least, {"acquire", "--key", "s", "--ttl", "60s"});
  CHECK(acquired.exit == exited(0));
  const std::string owner = database.column("s", "lock_value");
  CHECK(dblock_at(as_least, run_words("s", {"--wait", "300ms"}, {"true"})).exit == exited(75));
  CHECK(dblock_at(as_least, {"renew", "--key", "s", "--owner", owner}).exit == exited(0));
  CHECK(dblock_at(as_least, {"release", "--key", "s", "--owner", owner}).exit == exited(0));
  CHECK(dblock_at(as_least, {"inspect", "--all"}).exit == exited(0));
  CHECK(dblock_at(as_least, {"reap"}).exit == exited(0));
  CHECK(dblock_at(as_least, {"migrate", "--status"}).exit == exited(0));
  Connection session(database.server(), least, database.name());
  CHECK_THROWS(session.sql("CREATE TABLE other (a INT)"));
  CHECK_THROWS(session.sql("DROP TABLE dblock_lock"));
}

TEST_CASE("no grants are printed for a hostile user name", "[server][asan-server]") {
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
