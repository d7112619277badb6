// I5: a statement whose reply is lost is neither success nor failure until it has been read back.
#include <filesystem>
#include <utility>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/overlap.hpp"
#include "support/proxy.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

Spawn through(const Proxy& proxy, const ServerDatabase& database, const Words& words) {
  return dblock_spawn_at(proxy.url(database.name()), words);
}

// Every statement of an undisturbed run, in order, on a row that exists or not.
std::vector<std::string> statements_of_run(ServerDatabase& database, const std::string& key) {
  Proxy proxy(database.server());
  REQUIRE(run_program(through(proxy, database, run_words(key, {}, {"true"}))).exit == exited(0));
  return proxy.statements();
}

void check_one_job_and_no_lock(ServerDatabase& database, const std::string& key, const std::string& log,
                               std::size_t jobs) {
  CHECK(lines(read_file(log)).size() == 2 * jobs);
  CHECK(exclusion_violation(read_intervals(log)).empty());
  CHECK_FALSE(database.has_holder(key));
  CHECK(run_true(database, key) == exited(0));
}

TEST_CASE("the reply to the acquiring UPDATE is lost: read back and one job runs", "[server][safety]") {
  ServerDatabase database;
  const TempDir directory;
  const std::string log = directory.file("log");
  REQUIRE(run_true(database) == exited(0));
  Proxy proxy(database.server());
  proxy.cut(Proxy::Cut::before_reply, containing("UPDATE"));
  const auto finished =
      run_program(through(proxy, database, run_words("k", {}, interval_job(log, 20))), 30s * slowness());
  INFO(finished.err);
  CHECK(proxy.cuts() == 1);
  CHECK(finished.exit == exited(0));
  check_one_job_and_no_lock(database, "k", log, 1);
}

TEST_CASE("the reply to the acquiring INSERT is lost: read back and one job runs", "[server][safety]") {
  ServerDatabase database;
  const TempDir directory;
  const std::string log = directory.file("log");
  Proxy proxy(database.server());
  proxy.cut(Proxy::Cut::before_reply, containing("INSERT"));
  const auto finished =
      run_program(through(proxy, database, run_words("fresh", {}, interval_job(log, 20))), 30s * slowness());
  INFO(finished.err);
  CHECK(proxy.cuts() == 1);
  CHECK(finished.exit == exited(0));
  check_one_job_and_no_lock(database, "fresh", log, 1);
}

TEST_CASE("an acquiring statement that never arrived is resolved too", "[server][safety]") {
  ServerDatabase database;
  const TempDir directory;
  for (const char* verb : {"UPDATE", "INSERT"}) {
    const std::string log = directory.file(verb);
    Proxy proxy(database.server());
    proxy.cut(Proxy::Cut::before_statement, containing(verb));
    const auto finished =
        run_program(through(proxy, database, run_words(verb, {"--wait", "60s"}, interval_job(log, 20))),
                    30s * slowness());
    INFO(verb << " " << finished.err);
    CHECK(proxy.cuts() == 1);
    CHECK(finished.exit == exited(0));
    check_one_job_and_no_lock(database, verb, log, 1);
  }
}

TEST_CASE("a run whose acquiring statements never arrive says in the end that nothing was taken",
          "[server]") {
  ServerDatabase database;
  REQUIRE(run_true(database) == exited(0));
  Proxy proxy(database.server());
  proxy.cut(Proxy::Cut::before_statement, containing("UPDATE"), 1000);
  check_ended(run_program(through(proxy, database, run_words("k", {}, {"true"}))), 69,
              {"the reply to taking lock \"k\" was lost and the lock was not taken; try again"});
}

TEST_CASE("a script whose new lease cannot be read back for long is told that the lease is given back",
          "[server]") {
  ServerDatabase database;
  REQUIRE(run_true(database) == exited(0));
  Proxy proxy(database.server());
  constexpr std::uint16_t k_interrupted = 1317;
  proxy.refuse_statements(containing("SELECT lock_key"), k_interrupted, "interrupted");
  check_ended(run_program(through(proxy, database, {"acquire", "--key", "k", "--ttl", "1h"})), 69,
              {"; lock \"k\" was granted and has been released"});
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a reply lost on the way to acquire for a script leaves exactly the lease that is reported",
          "[server][safety]") {
  ServerDatabase database;
  REQUIRE(run_true(database) == exited(0));
  Proxy proxy(database.server());
  proxy.cut(Proxy::Cut::before_reply, containing("UPDATE"));
  const auto finished =
      run_program(through(proxy, database, {"acquire", "--key", "k", "--ttl", "60s"}), 30s * slowness());
  INFO(finished.err);
  CHECK(proxy.cuts() == 1);
  REQUIRE(finished.exit == exited(0));
  CHECK(database.column("k", "lock_value") + "\n" == finished.out);
}

TEST_CASE("the reply to the release is lost: the run keeps its code and the lock is free",
          "[server][safety][other-servers][asan-server]") {
  const auto mode = GENERATE(Words{}, Words{"--shared"}, Words{"--slots", "2"}, Words{"--key", "l"},
                             Words{"--key", "l", "--shared"});
  ServerDatabase database;
  Proxy proxy(database.server());
  // The acquiring UPDATE may begin alike: the release is what follows the job's start.
  LiveRun process(proxy.url(database.name()), with({"--ttl", "60s"}, mode));
  proxy.cut(Proxy::Cut::before_reply, containing("UPDATE"));
  CHECK(process.end(5, 30s * slowness()) == exited(5));
  INFO(process.err());
  CHECK(proxy.cuts() == 1);
  CHECK(database.value("SELECT COUNT(lock_value) FROM dblock_lock") == "0");
  CHECK(database.value("SELECT MAX(last_exit_code) FROM dblock_lock") == "5");
}

TEST_CASE("a script's release whose reply is lost succeeds when it was its own, and only then",
          "[server][safety]") {
  ServerDatabase database;
  Proxy proxy(database.server());
  const auto release_unheard = [&](const std::string& owner) {
    proxy.cut(Proxy::Cut::before_reply, containing("UPDATE"));
    return run_program(through(proxy, database, {"release", "--key", "k", "--owner", owner}),
                       30s * slowness());
  };
  const std::string first = take(database);
  const auto released = release_unheard(first);
  INFO(released.err);
  CHECK(released.exit == exited(0));
  CHECK_FALSE(database.has_holder("k"));

  const std::string forgotten = take(database, "k", {"--ttl", "1s", "--margin", "0"});
  const std::string successor =
      take(database, "k", {"--ttl", "60s", "--wait", "60s"});  // when that has expired
  const auto too_late = release_unheard(forgotten);
  INFO(too_late.err);
  CHECK(too_late.exit == exited(76));
  CHECK(database.column("k", "lock_value") == successor);
  release_lease(database, successor);
  CHECK(release_unheard(forgotten).exit == exited(76));
  CHECK(proxy.cuts() == 3);
}

TEST_CASE("a run whose lock another took over is told so, though the reply to its release is lost",
          "[server][safety]") {
  const auto mode = GENERATE(Words{}, Words{"--shared"}, Words{"--slots", "2"});
  ServerDatabase database;
  Proxy proxy(database.server());
  LiveRun process(proxy.url(database.name()), mode);
  // As after two renewals that failed: the holder may be dead, so that somebody frees the lock by force.
  database.sql("UPDATE dblock_lock SET update_time=update_time-INTERVAL 1 HOUR");
  const std::string token = database.value("SELECT MAX(token) FROM dblock_lock");
  REQUIRE(dblock(database, {"release", "--key", "k", "--force", "--now", "--token", token}).exit ==
          exited(0));
  take(database, "k", with({"--ttl", "60s"}, mode));
  proxy.cut(Proxy::Cut::before_reply, containing("UPDATE"));
  CHECK(process.end(0, 30s * slowness()) == exited(76));
  INFO(process.err());
  CHECK(proxy.cuts() == 1);
}

TEST_CASE("replies to renewals are lost again and again: the run survives",
          "[server][safety][other-servers]") {
  ServerDatabase database;
  Proxy proxy(database.server());
  LiveRun process(proxy.url(database.name()), {"--ttl", "8s", "--heartbeat", "300ms"});
  proxy.cut(Proxy::Cut::before_reply, containing("UPDATE"), 4);
  CHECK(wait_until([&] { return proxy.cuts() == 4; }));
  CHECK(soon_renewed(database));
  CHECK(process.end(5) == exited(5));
  CHECK_FALSE(database.has_holder("k"));
}

// The connection looks alive: only time tells.
TEST_CASE("one renewal that is never answered costs no lease, at any TTL", "[server][timing]") {
  ServerDatabase database;
  const Words terms =
      GENERATE(Words{"--ttl", "1s"}, Words{"--ttl", "2s"}, Words{"--ttl", "3s"}, Words{"--ttl", "4s"},
               Words{"--ttl", "4s", "--heartbeat", "1500ms", "--kill-grace", "500ms"});
  CAPTURE(terms);
  Proxy proxy(database.server());
  LiveRun process(proxy.url(database.name()), terms);
  for (int time = 1; time <= 3; ++time) {
    proxy.cut(Proxy::Cut::never_answered, containing("UPDATE"));
    REQUIRE(wait_until([&] { return proxy.cuts() == time || !process.running(); }));
    // The unheard one may have been done by now or not; the next one comes by another connection.
    const long long version = std::stoll(database.column("k", "version"));
    CHECK(wait_until(
        [&] { return std::stoll(database.column("k", "version")) >= version + 2 || !process.running(); }));
    INFO(process.err());
    REQUIRE(process.running());
  }
  CHECK(process.end(5) == exited(5));
  CHECK(says(process.err(), "no answer within"));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("whichever statement of a run is cut there is at most one job and no lock is left",
          "[server][safety][other-servers][asan-server]") {
  ServerDatabase database;
  const TempDir directory;
  const auto on_existing_row = statements_of_run(database, "k").size();
  for (const auto how : {Proxy::Cut::before_statement, Proxy::Cut::before_reply}) {
    for (std::size_t n = 0; n < on_existing_row + 2; ++n) {
      for (const bool fresh : {false, true}) {
        const std::string key =
            fresh ? "fresh" + std::to_string(n) + std::to_string(static_cast<int>(how)) : "k";
        const std::string log =
            directory.file(key + std::to_string(n) + std::to_string(static_cast<int>(how)));
        Proxy proxy(database.server());
        std::size_t seen = 0;
        proxy.cut(how, [&](const std::string&) { return seen++ == n; });
        const auto finished =
            run_program(through(proxy, database, run_words(key, {"--wait", "60s"}, interval_job(log, 10))),
                        30s * slowness());
        INFO("statement " << n << (fresh ? " fresh " : " existing ") << static_cast<int>(how) << ": "
                          << finished.err);
        const bool ran = std::filesystem::exists(log);
        CHECK((finished.exit == exited(0)) == ran);
        CHECK(finished.exit == exited(0));
        CHECK_FALSE(database.has_holder(key));
        if (ran) CHECK(lines(read_file(log)).size() == 2);
      }
    }
  }
}

TEST_CASE("a signal while the outcome of the acquisition is unknown leaves no lock",
          "[server][safety][asan-server]") {
  ServerDatabase database;
  REQUIRE(run_true(database) == exited(0));
  Proxy proxy(database.server());
  const TempDir directory;
  proxy.cut(Proxy::Cut::before_reply, [&](const std::string& statement) {
    if (!containing("UPDATE")(statement)) return false;
    proxy.refuse(true);  // and it cannot be read back for now
    return true;
  });
  Process process(
      through(proxy, database,
              run_words("k", {"--wait", "forever", "--ttl", "4s"}, {"touch", directory.file("ran")})));
  REQUIRE(wait_until([&] { return proxy.cuts() == 1; }));
  pause_for(200ms);
  process.signal(SIGTERM);
  pause_for(100ms);
  proxy.refuse(false);
  CHECK(process.wait() == killed_by(SIGTERM));
  CHECK_FALSE(std::filesystem::exists(directory.file("ran")));
  // Undecided when the signal came: released when it could be, else it ends with its time.
  CHECK(wait_until([&] {
    return !database.has_holder("k") ||
           dblock(database, {"inspect", "--key", "k", "--exit-code"}).exit == exited(0);
  }));
}

// The granting statement waits for the row when its run gives up: it is done later, and nobody hears of it.
TEST_CASE("a grant that comes after its run or acquire has been ended is given back", "[server][safety]") {
  enum class Fate { signalled, guardian_killed, acquire_signalled };
  const Fate fate = GENERATE(Fate::signalled, Fate::guardian_killed, Fate::acquire_signalled);
  CAPTURE(static_cast<int>(fate));
  ServerDatabase database;
  REQUIRE(run_true(database) == exited(0));
  Connection other(database.server(), "root", database.name());
  other.sql("START TRANSACTION");
  other.sql("SELECT * FROM dblock_lock WHERE lock_key = 'k' FOR UPDATE");
  const TempDir directory;
  const Words acquire{"acquire", "--key", "k", "--wait", "1m", "--ttl", "10m"};
  const Words run = run_words("k", {"--ttl", "10m"}, {"touch", directory.file("ran")});
  Process process(dblock_spawn(database, fate == Fate::acquire_signalled ? acquire : run));
  REQUIRE(wait_until([&] { return !database.sessions("info LIKE 'UPDATE%'").empty(); }));
  const bool kills = fate == Fate::guardian_killed;
  ::kill(kills ? guardian_of(process) : process.pid(), kills ? SIGKILL : SIGTERM);
  REQUIRE(soon_says(process, "whether it was done is not known"));
  static_cast<void>(wait_until([&] { return !process.running(); }, 500ms));
  other.sql("COMMIT");
  CHECK(process.wait() == (kills ? exited(70) : killed_by(SIGTERM)));
  CHECK(soon_gone(process));
  INFO(process.err());
  CHECK_FALSE(database.has_holder("k"));
  CHECK_FALSE(std::filesystem::exists(directory.file("ran")));
}

TEST_CASE("an acquire or run that is ended before it knows what it has says when the lock frees itself",
          "[server]") {
  const bool runs = GENERATE(false, true);
  ServerDatabase database;
  REQUIRE(run_true(database) == exited(0));
  Connection other(database.server(), "root", database.name());
  other.sql("START TRANSACTION");
  other.sql("SELECT * FROM dblock_lock WHERE lock_key = 'k' FOR UPDATE");
  const Words acquire{"acquire", "--key", "k", "--wait", "1m", "--ttl", "1m"};
  Process process(dblock_spawn(database, runs ? run_words("k", {}, {"true"}) : acquire));
  REQUIRE(wait_until([&] { return !database.sessions("info LIKE 'UPDATE%'").empty(); }));
  ::kill(runs ? guardian_of(process) : process.pid(), runs ? SIGKILL : SIGTERM);
  CHECK(process.wait(30s * slowness()) == (runs ? exited(70) : killed_by(SIGTERM)));
  CHECK(says(last_line(process.err()), "it frees itself within"));
  CHECK(process.out().empty());
}

// The first signal has it look for a grant that comes late.
TEST_CASE("a second signal ends an acquire that makes sure that nothing is held", "[server]") {
  ServerDatabase database;
  REQUIRE(run_true(database) == exited(0));
  Connection other(database.server(), "root", database.name());
  other.sql("START TRANSACTION");
  other.sql("SELECT * FROM dblock_lock WHERE lock_key = 'k' FOR UPDATE");
  Process process(dblock_spawn(database, {"acquire", "--key", "k", "--wait", "1m", "--ttl", "1m"}));
  REQUIRE(wait_until([&] { return !database.sessions("info LIKE 'UPDATE%'").empty(); }));
  process.signal(SIGTERM);
  REQUIRE(soon_says(process, "whether it was done is not known"));
  CHECK(wait_until([&] {
    process.signal(SIGINT);
    return !process.running();
  }));
  CHECK(process.wait() == killed_by(SIGINT));
}

TEST_CASE("an acquisition that stays unknown starts nothing", "[server][safety][asan-server]") {
  ServerDatabase database;
  REQUIRE(run_true(database) == exited(0));
  Proxy proxy(database.server());
  const TempDir directory;
  proxy.cut(Proxy::Cut::before_reply, [&](const std::string& statement) {
    if (!containing("UPDATE")(statement)) return false;
    proxy.refuse(true);
    return true;
  });
  const auto finished =
      run_program(through(proxy, database, run_words("k", {"--ttl", "1s"}, {"touch", directory.file("ran")})),
                  30s * slowness());
  INFO(finished.err);
  check_ended(finished, 69);
  CHECK_FALSE(std::filesystem::exists(directory.file("ran")));
}

TEST_CASE("a grant whose reply is lost, and whose row somebody deletes before it is proved, starts nothing",
          "[server][safety]") {
  const bool of_pool = GENERATE(false, true);
  ServerDatabase database;
  REQUIRE(run_true(database, "k") == exited(0));
  REQUIRE(run_true(database, "l") == exited(0));
  Proxy proxy(database.server());
  const TempDir directory;
  bool lost = false;
  const auto grant_then_renewal = [&](const std::string& statement) {
    if (!containing("UPDATE")(statement)) return false;
    if (lost) database.delete_rows();
    return !std::exchange(lost, true);
  };
  proxy.cut(Proxy::Cut::before_reply, grant_then_renewal, 2);
  const Words lock = of_pool ? Words{"--any", "k", "--any", "l"} : Words{"--key", "k"};
  const auto finished =
      run_program(through(proxy, database, with(with({"run"}, lock), {"touch", directory.file("ran")})),
                  30s * slowness());
  check_ended(finished, 69,
              {of_pool ? "one of the pool of lock \"k\" was granted" : ": lock \"k\" was granted",
               " was granted and its row then vanished; is another tool deleting rows?"});
  CHECK_FALSE(std::filesystem::exists(directory.file("ran")));
}

TEST_CASE("a waiter stands where it stood, though the reply to taking its place was lost",
          "[server][other-servers]") {
  ServerDatabase database;
  const std::string owner = take(database);
  const TempDir directory;
  const auto notes = [&](const char* name) {
    return sh("echo " + std::string(name) + " >>" + directory.file("ran"));
  };
  Proxy proxy(database.server());
  proxy.cut(Proxy::Cut::before_reply, containing("INSERT INTO dblock_waiter"));
  Process first(through(proxy, database, with({"-v"}, run_words("k", {"--wait", "60s"}, notes("first")))));
  REQUIRE(wait_until([&] { return database.number("SELECT COUNT(*) FROM dblock_waiter") == 1; }));
  const auto arrival = database.value("SELECT MIN(arrival) FROM dblock_waiter");
  Process second = waiting_run(database, {"--wait", "60s"}, notes("second"));
  REQUIRE(soon_says(first, "waiting: "));
  CHECK(database.value("SELECT MIN(arrival) FROM dblock_waiter") == arrival);
  CHECK(database.number("SELECT COUNT(*) FROM dblock_waiter") == 2);
  release_lease(database, owner);
  CHECK(first.wait() == exited(0));
  CHECK(second.wait() == exited(0));
  CHECK(read_file(directory.file("ran")) == "first\nsecond\n");
}

// The place counts for more than a minute; a lock that is free goes to whoever asks much sooner.
TEST_CASE("a place that a granted run could not give up keeps the next in line out for seconds", "[server]") {
  ServerDatabase database;
  const std::string owner = take(database);
  Proxy proxy(database.server());
  proxy.cut(Proxy::Cut::before_statement, containing("DELETE FROM dblock_waiter"));
  Process first(through(proxy, database, with({"-v"}, run_words("k", {"--wait", "60s"}, {"true"}))));
  REQUIRE(soon_says(first, "waiting: "));
  Process second = waiting_run(database, {"--wait", "60s"});
  release_lease(database, owner);
  CHECK(first.wait() == exited(0));
  CHECK(proxy.cuts() == 1);
  CHECK(second.wait(40s) == exited(0));
  CHECK(database.number("SELECT COUNT(*) FROM dblock_waiter") == 0);
}

TEST_CASE(
    "a lease that somebody gives back before its script is told of it is 76, and no owner id is printed",
    "[server]") {
  ServerDatabase database;
  REQUIRE(run_true(database) == exited(0));
  Proxy proxy(database.server());
  proxy.cut(Proxy::Cut::before_reply, [&](const std::string& statement) {
    const std::string owner = database.column("k", "lock_value");
    if (containing("SELECT")(statement) && owner != "NULL")
      static_cast<void>(dblock(database, {"release", "--key", "k", "--owner", owner}));
    return false;
  });
  const auto finished = run_program(through(proxy, database, {"acquire", "--key", "k", "--ttl", "60s"}));
  check_ended(finished, 76, {"lock \"k\" was granted and revoked at once"});
  CHECK(finished.out.empty());
}

TEST_CASE("a lease that ends before its script is told of it is 76, and no owner id is printed", "[server]") {
  ServerDatabase database;
  REQUIRE(run_true(database) == exited(0));
  Proxy proxy(database.server());
  proxy.cut(Proxy::Cut::before_statement, [&](const std::string& statement) {
    if (!containing("SELECT")(statement) || !database.has_holder("k")) return false;
    static_cast<void>(wait_until([&] { return run_true(database) == exited(0); }));
    return true;
  });
  const auto finished = run_program(
      through(proxy, database, {"acquire", "--key", "k", "--ttl", "1s", "--margin", "0s", "--wait", "10s"}));
  check_ended(finished, 76, {"lock \"k\" was granted, but its lease ended before it could be reported"});
  CHECK(finished.out.empty());
}

}  // namespace
}  // namespace dblock::test
