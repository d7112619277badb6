// Fencing in the job's own transaction, CALL dblock_assert_held(key, token): what protects when everything
// that dblock does to stop a job has failed.

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

// A table of the application's in the same database, and its client.
struct Application {
  Application() {
    database.sql("CREATE TABLE ledger (id INT PRIMARY KEY, writer VARCHAR(20)) ENGINE=InnoDB");
    database.sql("GRANT SELECT, INSERT ON " + database.name() + ".ledger TO app@'%'");
  }

  // Shell: a protected write of `writer`; the client stops at the first error.
  [[nodiscard]] std::string write(int id, const std::string& writer) const {
    return "mariadb --no-defaults -u app -S " + database.server().socket + " " + database.name() +
           " -e \"START TRANSACTION; CALL dblock_assert_held('$DBLOCK_KEY', $DBLOCK_TOKEN); "
           "INSERT INTO ledger VALUES (" +
           std::to_string(id) + ",'" + writer + "'); COMMIT\"";
  }
  [[nodiscard]] std::string writers() {
    return database.value("SELECT COALESCE(GROUP_CONCAT(writer ORDER BY id),'') FROM ledger");
  }

  ServerDatabase database;
};

// Stopping a parent first: nothing it could still do is done for those that are to come.
void freeze_all(const std::vector<pid_t>& processes) {
  for (const pid_t pid : processes) REQUIRE(freeze(pid));
}

TEST_CASE("a write under the lock goes through, in every kind of it", "[server][other-servers]") {
  Application app;
  const Words options = GENERATE(Words{}, Words{"--shared"}, Words{"--slots", "2"});
  const auto plain = dblock(app.database, run_words("k", options, sh(app.write(1, "holder"))));
  INFO(plain.err);
  CHECK(plain.exit == exited(0));
  CHECK(app.writers() == "holder");
}

TEST_CASE("the call is made from any database of the server", "[server]") {
  Application app;
  const LiveRun run(app.database);
  const ServerDatabase other;
  const std::string call = "CALL " + app.database.name() + ".dblock_assert_held('k',";
  const std::string token = app.database.column("k", "token");
  Connection session(other.server(), "app", other.name());
  session.sql("START TRANSACTION");
  session.sql(call + token + ")");
  CHECK_THROWS_WITH(session.sql(call + token + "+1)"), Catch::Contains("not held under this token"));
}

TEST_CASE("a frozen holder's late write is refused", "[server][safety]") {
  Application app;
  const TempDir directory;
  const std::string script = until_told(directory) + "; " + app.write(1, "late") + " 2>" +
                             directory.file("said") + "; " + print_into(directory.file("code"), "echo $?") +
                             "; sleep 600";
  Process first(dblock_spawn(app.database, run_words("k", {"--margin", "200ms"}, sh(script))));
  await_file(first, directory.file("up"));
  const pid_t guardian = guardian_of(first);
  const pid_t job = job_of(first);
  freeze_all({first.pid(), guardian, job});
  app.database.age_until_expired("k", 10s);

  // It tries again and again: a waiter would sleep until the frozen one's session ends, or 15 s at least.
  const auto second =
      dblock(app.database, run_words("k", {"--ttl", "30s", "--attempts", "100", "--backoff", "100ms"},
                                     sh(app.write(2, "second"))));
  INFO(second.err);
  REQUIRE(second.exit == exited(0));

  // The job wakes before those who would stop it.
  write_file(directory.file("go"), "");
  ::kill(job, SIGCONT);
  CHECK(wait_until([&] { return !read_file(directory.file("code")).empty(); }));
  CHECK(read_file(directory.file("code")) == "1\n");
  INFO(read_file(directory.file("said")));
  CHECK(says(read_file(directory.file("said")), "ERROR 1644 (45000)"));
  CHECK(says(read_file(directory.file("said")), "granted again since"));
  CHECK(app.writers() == "second");
}

TEST_CASE("a transaction longer than the lease: renewed meanwhile, and not taken over before it ends",
          "[server][safety]") {
  Application app;
  LiveRun run(app.database, {"--ttl", "3s", "--margin", "200ms"});
  const std::string call = "CALL dblock_assert_held('k'," + app.database.column("k", "token") + ")";
  Connection session(app.database.server(), "app", app.database.name());
  session.sql("START TRANSACTION");
  session.sql(call);
  session.sql("INSERT INTO ledger VALUES (1,'long')");
  const long long first_end = app.database.expires_micros("k");
  CHECK(wait_until([&] { return app.database.expires_micros("k") > first_end + 4'000'000; }));
  CHECK(run.running());
  const auto beside = dblock(app.database, run_words("k", {}, {"true"}));
  CHECK(beside.exit == exited(75));
  CHECK_FALSE(says(beside.err, "dblock_assert_held"));
  session.sql(call);

  // All that would have released the lock is gone; only the job's session on the server is left.
  const std::vector<pid_t> processes = run.tree();
  freeze_all(processes);
  for (const pid_t pid : processes) ::kill(pid, SIGKILL);
  const long long end = app.database.expires_micros("k") + 200'000;
  CHECK(wait_until([&] { return realtime_micros() > end; }));
  // A server lets a statement wait for a row for 50 s, longer than dblock() here.
  const auto refused = dblock(app.database, run_words("k", {}, {"true"}));
  INFO(refused.err);
  CHECK(refused.exit == exited(75));
  CHECK(says(refused.err, "a transaction that is protected by dblock_assert_held() is still open"));
  Process waiter(dblock_spawn(app.database, run_words("k", {"--wait", "120s"}, sh(app.write(2, "next")))));
  CHECK_FALSE(waiter.try_wait(1s));
  session.sql("COMMIT");
  const Exit exit = waiter.wait(60s * slowness());
  INFO(waiter.err());
  CHECK(exit == exited(0));
  CHECK(app.writers() == "long,next");
}

TEST_CASE("wait and inspect --exit-code see an open transaction that keeps an exclusive run out",
          "[server][other-servers]") {
  Application app;
  const auto& database = app.database;
  const auto kind = GENERATE(Words{}, Words{"--shared"});
  const auto lease = take(database, "k", with({"--ttl", "60s"}, kind));
  Connection session(database.server(), "app", database.name());
  session.sql("START TRANSACTION");
  session.sql("CALL dblock_assert_held('k'," + app.database.column("k", "token") + ")");
  check_ended(dblock(database, {"wait", "-k", "k", "--timeout", "0"}), 75, {"is held by"});
  release_lease(database, lease);

  const std::string why =
      "lock \"k\" is free, but a transaction that is protected by dblock_assert_held() is still open";
  const auto inspect = [&] { return dblock(database, {"inspect", "-k", "k", "--exit-code"}); };
  CHECK(inspect().exit == exited(75));
  CHECK(says(inspect().err, why));
  check_ended(dblock(database, {"wait", "-k", "k", "--timeout", "0"}), 75, {why});
  Process waiter(dblock_spawn(database, {"-v", "wait", "-k", "k"}));
  REQUIRE(soon_says(waiter, "waiting: " + why));
  session.sql("COMMIT");
  const auto ended = std::chrono::steady_clock::now();
  CHECK(waiter.wait() == exited(0));
  CHECK(std::chrono::steady_clock::now() - ended < 3s * slowness());
  CHECK(inspect().exit == exited(0));
  CHECK(run_true(database) == exited(0));
}

TEST_CASE("migrate by an account that may not create routines says so, and a later one adds it",
          "[server][other-servers]") {
  ServerDatabase database(shared_server(), Database::Schema::none);
  const std::string user = database.account("", "SELECT,INSERT,UPDATE,DELETE,CREATE,ALTER,INDEX");
  const std::string as_user = database.url(user);
  const auto migrated = dblock_at(as_user, {"migrate"});
  INFO(migrated.err);
  CHECK(migrated.exit == exited(0));
  CHECK(says(migrated.err, "but not all procedures"));
  CHECK(says(migrated.err, "CREATE ROUTINE"));
  CHECK(says(migrated.err, "run `dblock migrate` again"));
  CHECK(dblock_at(as_user, run_words("k", {}, {"true"})).exit == exited(0));
  CHECK(says(dblock_at(as_user, {"migrate", "--status"}).out, "not there"));
  CHECK(says(dblock_at(as_user, {"--json", "migrate", "--status"}).out, "\"procedures\":false"));
  CHECK(says(dblock_at(as_user, {"migrate"}).err, "but not all procedures"));

  const auto added = dblock(database, {"migrate"});
  CHECK(added.exit == exited(0));
  CHECK(says(added.out, "dblock_assert_held"));
  CHECK_FALSE(says(added.err, "but not all procedures"));
  CHECK(says(dblock(database, {"migrate", "--status"}).out,
             "callable: dblock_acquire(), dblock_assert_held(), dblock_release(), dblock_renew()"));
  CHECK(says(dblock(database, {"--json", "migrate", "--status"}).out, "\"procedures\":true"));
  CHECK(says(dblock(database, {"migrate"}).out, "nothing to do"));
}

TEST_CASE("what migrate --dry-run prints can be given to the client", "[server][other-servers]") {
  ServerDatabase database(shared_server(), Database::Schema::none);
  const auto planned = dblock(database, {"migrate", "--dry-run"});
  REQUIRE(planned.exit == exited(0));
  const auto fed = run_program(
      {.argv = {"mariadb", "--no-defaults", "-u", "app", "-S", database.server().socket, database.name()},
       .input = planned.out});
  INFO(fed.err);
  CHECK(fed.exit == exited(0));
  const auto after = dblock(database, {"migrate"});
  CHECK(after.exit == exited(0));
  CHECK(run_true(database) == exited(0));
  CHECK(says(dblock(database, {"migrate", "--status"}).out,
             "callable: dblock_acquire(), dblock_assert_held(), dblock_release(), dblock_renew()"));
  const auto judged = dblock(database, {"doctor"});
  INFO(judged.out << judged.err);
  CHECK_FALSE(says(judged.out, "not dblock's"));
}

}  // namespace
}  // namespace dblock::test
