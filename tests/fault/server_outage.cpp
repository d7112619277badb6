// The server away for a while: short outages do not disturb the job, long ones end it before expire_time
// (I4).
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/connection.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/local_file.hpp"
#include "support/proxy.hpp"
#include "support/steps.hpp"
#include "support/sweep.hpp"

namespace dblock::test {
namespace {

const Words k_short_lease{"--ttl", "3s", "--heartbeat", "400ms", "--kill-grace", "500ms"};

Words ends_at_term(const TempDir& directory) {
  return sh("trap 'exit 0' TERM; touch " + directory.file("up") + "; " + k_for_ever);
}

TEST_CASE("a server frozen for longer than the ttl ends the whole tree before expire_time with 76",
          "[server][tsan][safety][asan-server]") {
  Server server;
  ServerDatabase database(server.address());
  const TempDir directory;
  TreeRun process(database, with(k_short_lease, {"--status-file", directory.file("status")}));
  CHECK(process.tree().size() >= 6);  // dblock, guardian, job, two children, the one with its own session
  const long long expires = await_renewal(database);
  server.freeze();
  CHECK(process.job_last_seen() < expires);
  check_ends(process, 76, {}, 20s * slowness());
  // Where the job's death was seen late, the guardian is not dismissed: it goes when dblock has gone.
  CHECK(soon_gone(process));
  const auto status = nlohmann::json::parse(read_file(directory.file("status")));
  CHECK(status.at("outcome") == "lost");
  CHECK(status.at("exit_code") == 76);
  CHECK(status.at("stop").at("reason") == "deadline");
  server.thaw();
}

TEST_CASE("a network that swallows packets ends the tree before expire_time with 76", "[server][safety]") {
  ServerDatabase database;
  Proxy proxy(database.server());
  TreeRun process(proxy.url(database.name()), k_short_lease);
  const long long expires = await_renewal(database);
  proxy.stall();
  CHECK(process.job_last_seen() < expires);
  CHECK(process.wait(20s * slowness()) == exited(76));
}

TEST_CASE("a job that would have exited 0 after the lease was lost is 76 all the same", "[server][safety]") {
  Server server;
  ServerDatabase database(server.address());
  LiveRun process(database, k_short_lease, ends_at_term);
  server.freeze();
  CHECK(process.wait(20s * slowness()) == exited(76));
  server.thaw();
}

TEST_CASE("a server killed and gone for longer than the ttl is 76", "[server][safety]") {
  Server server;
  ServerDatabase database(server.address());
  TreeRun process(database, k_short_lease);
  const long long expires = await_renewal(database);
  server.stop_hard();
  CHECK(process.job_last_seen() < expires);
  CHECK(process.wait(20s * slowness()) == exited(76));
}

TEST_CASE("an outage shorter than the lease is survived", "[server][tsan]") {
  Server server;
  ServerDatabase database(server.address());
  LiveRun process(database, {"--ttl", "6s", "--heartbeat", "400ms", "--kill-grace", "500ms"});
  await_renewal(database);
  server.freeze();
  pause_for(2500ms);
  server.thaw();
  await_renewal(database);
  CHECK(process.end(5) == exited(5));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a server restart mid-run is survived with the same lease",
          "[server][safety][other-servers][asan-server]") {
  Server server;
  ServerDatabase database(server.address());
  for (const bool graceful : {true, false}) {
    LiveRun process(database, {"--ttl", "1m", "--heartbeat", "500ms"});  // MySQL takes a while to start
    const std::string token = database.column("k", "token");
    if (graceful)
      server.stop_gracefully();
    else
      server.stop_hard();
    server.start();
    REQUIRE(wait_until([&] {
      try {
        return database.expires_micros("k") > 0;
      } catch (const std::exception&) {
        return false;  // our own old connection
      }
    }));
    CHECK(soon_renewed(database));
    CHECK(database.column("k", "token") == token);
    CHECK(process.end(5) == exited(5));
    CHECK_FALSE(database.has_holder("k"));
  }
}

TEST_CASE("killed connections are replaced and the run goes on", "[server][other-servers]") {
  ServerDatabase database;
  LiveRun process(database, {"--ttl", "6s", "--heartbeat", "300ms"});
  for (int round = 0; round < 3; ++round) {
    REQUIRE(wait_until([&] {
      const auto ids = database.sessions();
      return !ids.empty() && database.kill_session(ids.front());
    }));
    await_renewal(database);
  }
  CHECK(process.end(5) == exited(5));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a server that turns read-only for a while is survived", "[server][other-servers][asan-server]") {
  Server server;
  ServerDatabase database(server.address());
  LiveRun process(database, {"--ttl", "6s", "--heartbeat", "300ms", "--kill-grace", "500ms"});
  database.sql("SET GLOBAL read_only = 1");
  REQUIRE(soon_says(process, "trying again"));
  database.sql("SET GLOBAL read_only = 0");
  await_renewal(database);
  CHECK(process.end(5) == exited(5));
}

TEST_CASE("a row locked by somebody's transaction for a while is survived", "[server][other-servers]") {
  ServerDatabase database;
  LiveRun process(database, {"--ttl", "12s", "--heartbeat", "300ms"});
  Connection other(database.server(), "root", database.name());
  other.sql("START TRANSACTION");
  other.sql("SELECT * FROM dblock_lock WHERE lock_key = 'k' FOR UPDATE");
  REQUIRE(soon_says(process, "trying again"));
  other.sql("ROLLBACK");
  await_renewal(database);
  CHECK(process.end(5) == exited(5));
}

TEST_CASE("a global read lock is named where it keeps a lock from being granted", "[server][other-servers]") {
  Server server;
  ServerDatabase database(server.address());
  REQUIRE(run_true(database) == exited(0));
  Connection backup(database.server());
  backup.sql("FLUSH TABLES WITH READ LOCK");
  for (const std::string key : {"k", "new"}) {
    for (const Words& words : {run_words(key, {}, {"true"}), run_words(key, {"--slots", "2"}, {"true"})}) {
      CAPTURE(words);
      check_ended(dblock(database, words), 69, {"its tables are locked against changes", "FLUSH TABLES"});
    }
  }
  Process waiter(dblock_spawn(database, run_words("k", {"--wait", "1m"}, {"true"})));
  REQUIRE(soon_says(waiter, "FLUSH TABLES"));
  backup.sql("UNLOCK TABLES");
  CHECK(waiter.wait() == exited(0));
}

TEST_CASE("a global read lock for longer than the ttl ends the job before expire_time",
          "[server][safety][other-servers]") {
  Server server;
  ServerDatabase database(server.address());
  TreeRun process(database, k_short_lease);
  const long long expires = await_renewal(database);
  Connection backup(database.server());
  backup.sql("FLUSH TABLES WITH READ LOCK");
  const long long alive_at = process.job_last_seen();
  // A renewal may have slipped in before the lock was granted.
  CHECK(alive_at < std::max(expires, database.expires_micros("k")));
  CHECK(process.wait(20s * slowness()) == exited(76));
  backup.sql("UNLOCK TABLES");
}

TEST_CASE("a job that ends while the server is away keeps its own code with one warning",
          "[server][safety][asan-server]") {
  Server server;
  ServerDatabase database(server.address());
  const TempDir directory;
  LiveRun process(database, with(k_short_lease, {"--status-file", directory.file("status")}));
  await_renewal(database);
  server.freeze();
  CHECK(process.end(5, 30s * slowness()) == exited(5));
  INFO(process.err());
  CHECK(count_of(process.err(), "dblock: ") == 1);
  CHECK_FALSE(says(process.err(), "dblock: exit"));
  const auto status = nlohmann::json::parse(read_file(directory.file("status")));
  CHECK(status.at("release") == "unknown");
  CHECK(status.at("exit_code") == 5);
  server.thaw();
}

// A run whose job ends with this code while the server is away.
Process unrecorded_run(const ServerDatabase& database, Proxy& proxy, const TempDir& directory,
                       const Words& options, int code) {
  Process run(
      dblock_spawn_at(proxy.url(database.name()),
                      with({"-v"}, run_words("k", with(options, {"--ttl", "1h"}), patient_job(directory)))));
  await_file(run, directory.file("up"));
  proxy.refuse(true);
  proxy.cut_all();
  let_end(directory, code);
  return run;
}

// What becomes of a later run of the same lock.
struct Again {
  Exit exit;
  bool started = false;
};
Again run_again(const Database& database, const Words& options) {
  const TempDir directory;
  const std::string mark = directory.file("again");
  const auto again = dblock(database, run_words("k", options, {"touch", mark}));
  INFO(again.err);
  return {again.exit, std::filesystem::exists(mark)};
}

// Else the same period's job would run twice, and nothing would be left for the post-mortem.
TEST_CASE("how a job ended is recorded as soon as the server is back, while the lease lasts", "[server]") {
  struct Fact {
    Words options;
    int code;
    bool runs_again;
    int next;
  };
  const auto fact =
      GENERATE(Fact{{"--once-per", "1h"}, 0, false, 0}, Fact{{"--keep-on-failure", "1h"}, 3, false, 75},
               Fact{{"--once-per", "1h"}, 3, true, 0});
  CAPTURE(fact.options, fact.code);
  ServerDatabase database;
  Proxy proxy(database.server());
  const TempDir directory;
  Process run = unrecorded_run(database, proxy, directory, fact.options, fact.code);
  const bool waits = fact.code == 0 || fact.next == 75;
  if (waits) REQUIRE(soon_says(run, "trying on while the lease lasts"));
  proxy.refuse(false);
  CHECK(run.wait() == exited(fact.code));
  const auto again = run_again(database, fact.options);
  CHECK(again.exit == exited(fact.next));
  CHECK(again.started == fact.runs_again);
}

// The count for the hook is asked for before that.
TEST_CASE("how a job ended is recorded once a server that stood still at its end goes on", "[server]") {
  const Server server;
  ServerDatabase database(server.address());
  const Words options{"--keep-on-failure", "1h", "--ttl", "1h", "--on-end", "true"};
  const TempDir directory;
  Process run(dblock_spawn(database, with({"-v"}, run_words("k", options, patient_job(directory)))));
  await_file(run, directory.file("up"));
  server.freeze();
  let_end(directory, 3);
  CHECK(soon_says(run, "trying on while the lease lasts"));
  server.thaw();
  CHECK(run.wait() == exited(3));
  CHECK(run_again(database, {}).exit == exited(75));
  CHECK(database.column("k", "failures") == "1");
}

TEST_CASE("how a job ended is recorded by the guardian where dblock is killed before the server is back",
          "[server]") {
  struct Fact {
    Words options;
    int code;
    std::string outcome;
    Again next;
  };
  const Words once{"--once-per", "1h"};
  const Words keep{"--keep-on-failure", "1h"};
  const auto fact =
      GENERATE_COPY(Fact{once, 0, "succeeded", {exited(0), false}}, Fact{keep, 3, "failed", {exited(75)}},
                    Fact{with(once, keep), 0, "succeeded", {exited(0), false}});
  CAPTURE(fact.options, fact.code);
  ServerDatabase database;
  Proxy proxy(database.server());
  const TempDir directory;
  Process run = unrecorded_run(database, proxy, directory, fact.options, fact.code);
  REQUIRE(soon_says(run, "trying on while the lease lasts"));
  run.signal(SIGKILL);
  CHECK(run.wait() == killed_by(SIGKILL));
  pause_for(5500ms);  // longer than a guardian tries that has nothing to record
  proxy.refuse(false);
  CHECK(soon_free(database));
  CHECK(database.column("k", "last_outcome") == fact.outcome);
  CHECK(database.column("k", "last_exit_code") == std::to_string(fact.code));
  const auto again = run_again(database, fact.options);
  CHECK(again.exit == fact.next.exit);
  CHECK(again.started == fact.next.started);
}

TEST_CASE("how a job ended is recorded by the guardian once a store that somebody kept locked is free",
          "[local]") {
  Database database;
  const TempDir directory;
  Process run(dblock_spawn(
      database, with({"-v"}, run_words("k", {"--once-per", "1h", "--ttl", "1h"}, patient_job(directory)))));
  await_file(run, directory.file("up"));
  {
    const SqliteWriter writer(file_of(database));
    let_end(directory, 0);
    REQUIRE(soon_says(run, "trying on while the lease lasts"));
    run.signal(SIGKILL);
    CHECK(run.wait() == killed_by(SIGKILL));
  }
  CHECK(soon_free(database));
  CHECK(database.column("k", "last_outcome") == "succeeded");
  CHECK_FALSE(run_again(database, {"--once-per", "1h"}).started);
}

// A look alone would call the lock held, and a run with -E 0 would be skipped without a word.
TEST_CASE("a reader's single attempt on a store that takes no writes is the store's failure, not a conflict",
          "[local][safety]") {
  Database database;
  LiveRun holder(database);
  const SqliteWriter writer(file_of(database));
  const auto silent = dblock(database, run_words("k", {"--attempts", "1", "--shared", "-E", "0"}, {"true"}));
  INFO(silent.err);
  CHECK(silent.exit == exited(69));
}

TEST_CASE("who stops a run that tries to record its end is not kept waiting", "[server]") {
  ServerDatabase database;
  Proxy proxy(database.server());
  const TempDir directory;
  Process run = unrecorded_run(database, proxy, directory, {"--once-per", "1h"}, 0);
  REQUIRE(soon_says(run, "trying on while the lease lasts"));
  run.signal(SIGTERM);
  CHECK(run.wait() == exited(0));
  CHECK(says(run.err(), "--once-per does not know that the job has succeeded"));
}

// The row's own hold counts from the start of the statement that had to wait.
TEST_CASE("a minimal hold lasts from the grant, also where that had to wait for the row",
          "[server][mariadb]") {
  enum class Way { run, killed_run, acquire, kept };
  const Way way = GENERATE(Way::run, Way::killed_run, Way::acquire, Way::kept);
  const bool protected_by_call = GENERATE(false, true);
  CAPTURE(static_cast<int>(way), protected_by_call);
  ServerDatabase database;
  const std::string before = take(database);
  Connection other(database.server(), "root", database.name());
  other.sql("START TRANSACTION");
  if (protected_by_call) other.sql("CALL dblock_assert_held('k'," + database.column("k", "token") + ")");
  release_lease(database, before);
  if (!protected_by_call) other.sql("SELECT * FROM dblock_lock WHERE lock_key = 'k' FOR UPDATE");
  const TempDir directory;
  const Words hold{"--min-hold", "1h", "--wait", "1m"};
  const Words acquire = with({"acquire", "--key", "k"}, hold);
  Process watched({.argv = {"sleep", "600"}});
  const auto words = [&]() -> Words {
    if (way == Way::acquire) return with(acquire, {"--ttl", "1m"});
    if (way == Way::kept) return with(acquire, {"--while-pid", std::to_string(watched.pid())});
    return run_words("k", hold, patient_job(directory));
  };
  Process command(dblock_spawn(database, words()));
  REQUIRE(wait_until([&] { return !database.sessions("info LIKE 'UPDATE%' AND time_ms > 200").empty(); }));
  const long long not_before = realtime_micros();
  other.sql("COMMIT");
  if (way == Way::run || way == Way::killed_run) {
    await_file(command, directory.file("up"));
    way == Way::run ? let_end(directory) : command.signal(SIGKILL);
  }
  CHECK(command.wait() == (way == Way::killed_run ? killed_by(SIGKILL) : exited(0)));
  if (way == Way::acquire) release_lease(database, last_line(command.out()));
  watched.signal(SIGKILL);
  CHECK(soon_free(database));
  CHECK(database.micros("k", "hold_until") >= not_before + 3'600'000'000);
}

// A server that hangs up for good when it has had so many statements.
class LeavingServer {
 public:
  LeavingServer(const ServerDatabase& database, int statements)
      : left_(statements), proxy_(database.server()) {
    proxy_.cut(Proxy::Cut::before_statement, [this](const std::string&) {
      if (left_-- > 0) return false;
      proxy_.refuse(true);
      proxy_.cut_all();
      return true;
    });
  }
  [[nodiscard]] std::string url(const ServerDatabase& database) const { return proxy_.url(database.name()); }
  [[nodiscard]] bool has_left() const { return proxy_.cuts() > 0; }

 private:
  int left_;  // of the proxy's thread alone
  Proxy proxy_;
};

// A command, and how it ends where the server leaves it in the midst. KEY is a key of each try's own.
struct Forsaken {
  Words words;
  Words said{};                                          // each of this after some statement
  std::vector<Words> first{};                            // what is done before
  std::string last = "dblock: exit 69 (unreachable): ";  // begins what is said last
  std::vector<int> also{};  // an exit code where all that matters was done by then
  std::string output{};     // a file
};

Words with_key(Words words, const std::string& key) {
  for (auto& word : words) word = word == "KEY" ? key : word;
  return words;
}

struct LeftAlone {
  Finished how;
  bool left = false;  // the server, before the command ended
};

LeftAlone leave_after(int statements, const Forsaken& one, const ServerDatabase& database) {
  const std::string key = "k" + std::to_string(statements);
  for (const auto& words : one.first) static_cast<void>(dblock(database, with_key(words, key)));
  const LeavingServer server(database, statements);
  Spawn spec = dblock_spawn_at(server.url(database), with_key(one.words, key));
  const int output = one.output.empty() ? -1 : ::open(one.output.c_str(), O_WRONLY | O_CLOEXEC);
  spec.stdout_fd = output;
  auto how = run_program(spec, 60s * slowness());
  if (output >= 0) ::close(output);
  return {std::move(how), server.has_left()};
}

// What is wrong with how the command ends, whenever the server leaves.
std::string leave_everywhere(const Forsaken& one, const ServerAddress& server) {
  const ServerDatabase database(server, Database::Schema::none);
  static_cast<void>(dblock(database, {"migrate", "--history", "on"}));
  std::string wrong, said;
  bool left = true;
  for (int statements = 0; left; ++statements) {
    const auto tried = leave_after(statements, one, database);
    left = tried.left;
    said += tried.how.err;
    const auto& exit = tried.how.exit;
    const bool told = exit != exited(0) && last_line(tried.how.err).starts_with(one.last);
    const bool done = std::ranges::any_of(one.also, [&](int code) { return exit == exited(code); });
    if (left && !told && !done)
      wrong +=
          "after " + std::to_string(statements) + " statements: " + to_string(exit) + " " + tried.how.err;
  }
  for (const auto& part : one.said)
    if (!says(said, part)) wrong += "never said: " + part + "\n";
  return wrong.empty() ? "" : quoted(one.words) + " " + wrong + "of all that was said:\n" + said;
}

TEST_CASE("a server that leaves in the midst of a command is told of in the words of that command",
          "[server][sweep]") {
  const Words acquire{"acquire", "--key", "KEY", "--ttl", "1h"};
  const Words brief{"acquire", "--key", "KEY", "--ttl", "10s"};  // a lost reply is doubted for so long
  const Words run{"-v", "run", "--key", "KEY", "--ttl", "10s", "--heartbeat", "400ms"};
  Process watched({.argv = {"sleep", "600"}});
  const std::vector<Forsaken> commands{
      {.words = brief, .said = {"\" was granted and frees itself within "}},
      {.words = brief,
       .said = {"warning: the lease could not be released: cannot release lock"},
       .also = {70},
       .output = "/dev/full"},
      {.words = with(brief, {"--while-pid", std::to_string(watched.pid())}),
       .said = {"over a connection of its own; the lock frees itself within "},
       .also = {0}},  // the statement was the keeper's
      {.words = with(run, {"true"}), .said = {"cannot record the run in the history"}, .also = {0}},
      {.words = with(run, {"--wait", "300ms", "true"}), .first = {acquire}, .also = {75}},
      {.words = with(run, {"--wait", "300ms", "--line", "newest", "true"}), .first = {acquire}, .also = {75}},
      {.words = with(run, {"--wait", "300ms", "true"}), .first = {with(acquire, {"--shared"})}, .also = {75}},
      {.words = {"wait", "--key", "KEY", "--timeout", "300ms"}, .first = {acquire}, .also = {75}},
      {.words = {"inspect"}, .said = {"cannot list locks"}, .first = {acquire}},
      {.words = {"history"}, .said = {"cannot read the history"}},
      {.words = {"release", "--force", "--key", "KEY"}, .first = {acquire}},
      {.words = {"reap"}},
      {.words = {"pause", "--key", "KEY", "--for", "1h", "--wait", "300ms"},
       .said = {"; the pause is stored, but a grant that was under way may still pass it: pause again"},
       .first = {acquire},
       .also = {75}},
      {.words = {"resume", "--key", "KEY"},
       .said = {"cannot resume lock"},
       .first = {{"pause", "--key", "KEY", "--for", "1h"}}},
      {.words = {"migrate"}, .said = {"cannot look for dblock's procedures"}},
      {.words = {"migrate", "--status"}, .said = {"cannot look whether a history is kept"}},
      {.words = {"migrate", "--history", "on"}, .said = {"cannot begin the history"}},
      {.words = {"migrate", "--history", "off"}, .said = {"cannot end the history"}},
      {.words = {"doctor"},
       .last = "dblock: exit 78 (configuration): this configuration does not deserve trust: connection",
       .also = {0}}};
  const auto& server = shared_server();  // started by this thread, which outlives those of the tries
  const Swept swept = sweep(commands.size(), commands.size(), [&](std::size_t i) {
    return Verdict{.wrong = leave_everywhere(commands[i], server)};
  });
  INFO(summary(swept.failures));
  CHECK(swept.failures.empty());
}

// What it leaves keeps the lock from nobody for long, once that is free.
TEST_CASE("a waiter whose server leaves as it gives up says with -v that its place stays", "[server]") {
  struct Waiter {
    Words holder, waiter;
  };
  for (const auto& [holder, waiter] :
       std::vector<Waiter>{{{}, {}}, {{}, {"--line", "newest"}}, {{"--shared"}, {}}}) {
    CAPTURE(holder, waiter);
    ServerDatabase database;
    const std::string owner = take(database, "k", with({"--ttl", "1h"}, holder));
    Proxy proxy(database.server());
    const Words options = with({"-v", "--wait", "1h"}, waiter);
    Process run(dblock_spawn_at(proxy.url(database.name()), run_words("k", options, {"true"})));
    REQUIRE(soon_says(run, "waiting: "));
    proxy.cut(Proxy::Cut::before_statement, containing("DELETE FROM dblock_waiter"));
    run.signal(SIGTERM);
    CHECK(run.wait() == killed_by(SIGTERM));
    INFO(run.err());
    CHECK(says(run.err(), "cannot leave the line of lock \"k\""));
    CHECK(proxy.cuts() == 1);
    CHECK(database.number("SELECT COUNT(*) FROM dblock_waiter") == 1);
    release_lease(database, owner);
    CHECK(run_true(database, "k", {"--wait", "30s"}) == exited(0));
  }
}

}  // namespace
}  // namespace dblock::test
