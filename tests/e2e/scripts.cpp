// acquire, renew and release, as scripts use them.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

TEST_CASE("acquire prints the owner id alone on a line and the lease stays") {
  Database database;
  const std::string owner = take(database, "k", {"--ttl", "60s", "--note", "by hand"});
  CHECK(owner.find('\n') == std::string::npos);
  CHECK(database.column("k", "lock_value") == owner);
  CHECK(database.column("k", "kind") == "acquire");
  CHECK(database.column("k", "holder_note") == "by hand");
  CHECK(database.expires_micros("k") - database.micros("k", "create_time") == 60'000'000);
}

TEST_CASE("acquire with json prints a lease object") {
  Database database;
  const auto finished = dblock(database, {"--json", "acquire", "--key", "k", "--ttl", "60s"});
  const auto lease = nlohmann::json::parse(finished.out);
  INFO(finished.out);
  CHECK(lease.at("format") == 1);
  CHECK(says(lease.dump(), database.column("k", "lock_value")));
  CHECK(says(lease.dump(), database.column("k", "token")));
}

TEST_CASE("renew extends the lease by the stored ttl or the given one and never shortens it",
          "[safety][other-servers]") {
  Database database;
  const std::string owner = take(database);
  const long long granted = database.expires_micros("k");
  pause_for(20ms);
  REQUIRE(dblock(database, {"renew", "--key", "k", "--owner", owner}).exit == exited(0));
  const long long renewed = database.expires_micros("k");
  CHECK(renewed > granted);
  CHECK(renewed < granted + 30'000'000);
  REQUIRE(dblock(database, {"renew", "--key", "k", "--owner", owner, "--ttl", "1h"}).exit == exited(0));
  const long long longer = database.expires_micros("k");
  CHECK(longer > renewed + 3'000'000'000);
  REQUIRE(dblock(database, {"renew", "--key", "k", "--owner", owner, "--ttl", "5s"}).exit == exited(0));
  CHECK(database.expires_micros("k") >= longer);
}

TEST_CASE("release frees the lock and a second release is 76", "[safety]") {
  Database database;
  const std::string owner = take(database);
  CHECK(dblock(database, {"release", "--key", "k", "--owner", owner}).exit == exited(0));
  CHECK_FALSE(database.has_holder("k"));
  CHECK(dblock(database, {"release", "--key", "k", "--owner", owner}).exit == exited(76));
}

TEST_CASE("an expired lease can be neither renewed nor released even when nobody took it",
          "[safety][other-servers]") {
  Database database;
  const std::string owner = take(database);
  database.age_until_expired("k", std::chrono::microseconds(1));
  const std::string before = database.row("k");
  CHECK(dblock(database, {"renew", "--key", "k", "--owner", owner}).exit == exited(76));
  CHECK(dblock(database, {"release", "--key", "k", "--owner", owner}).exit == exited(76));
  CHECK(database.row("k") == before);
}

TEST_CASE("key and owner default to the variables that acquire exports", "[asan-local]") {
  const Database database;
  const auto finished =
      run_program(script_spawn(database.url(),
                               "set -e\n"
                               "eval \"$(dblock acquire --key 'it'\\''s a key' --ttl 60s --format shell)\"\n"
                               "test \"$DBLOCK_KEY\" = \"it's a key\"; test -n \"$DBLOCK_TOKEN\"\n"
                               "dblock renew\n"
                               "dblock release\n"
                               "echo done\n"));
  INFO(finished.err);
  CHECK(finished.exit == exited(0));
  CHECK(finished.out.ends_with("done\n"));
}

TEST_CASE("a failed acquire ends a script that evals it under set -e with its code") {
  const Database database;
  take(database);
  const auto went_on = [](const std::string& terms) {
    return "set -e; eval \"$(dblock acquire --key k " + terms + "--format shell)\"; echo went on";
  };
  for (const char* interpreter : {"/bin/sh", "/bin/bash"}) {
    const auto finished = run_program(script_spawn(database.url(), went_on("--ttl 60s "), interpreter));
    CHECK(finished.exit == exited(75));
    CHECK(finished.out.empty());
  }
  const auto unreachable = run_program(script_spawn(k_no_server, went_on("--ttl 60s ")));
  CHECK(unreachable.exit == exited(69));
  CHECK(unreachable.out.empty());
  const auto usage = run_program(script_spawn(k_no_server, went_on("")));
  CHECK(usage.exit == exited(64));
  CHECK(usage.out.empty());
}

TEST_CASE("acquire waits for a holder within its limit") {
  const Database database;
  const std::string holder = take(database);
  Process waiter(dblock_spawn(database, {"-v", "acquire", "--key", "k", "--ttl", "60s", "--wait", "1h"}));
  REQUIRE(soon_says(waiter, "waiting: "));
  CHECK(waiter.out().empty());
  release_lease(database, holder);
  CHECK(waiter.wait() == exited(0));
  CHECK(waiter.out() == database.column("k", "lock_value") + "\n");
  check_ended(dblock(database, {"acquire", "--key", "k", "--ttl", "5s", "--wait", "300ms"}), 75,
              {"lock \"k\" is held by "});
}

TEST_CASE("the lease of a running job is left alone by plain renew and release", "[safety]") {
  Database database;
  LiveRun process(database, {}, sleeping_job);
  const std::string owner = database.column("k", "lock_value");
  for (const char* verb : {"renew", "release"}) {
    const auto refused = dblock(database, {verb, "--key", "k", "--owner", owner});
    CHECK(refused.exit == exited(64));
    const bool renew = std::string(verb) == "renew";  // which has no --force
    CHECK(says(refused.err, renew ? "which renews its lease itself" : "use --force"));
    CHECK(says(refused.err, "--force") != renew);
  }
  CHECK(process.running());
  CHECK(database.column("k", "lock_value") == owner);
}

TEST_CASE("force without a token shows the holder and, once, the complete command, and changes nothing") {
  Database database;
  take(database, "k", {"--ttl", "60s", "--note", "deploy of shop"});
  const std::string before = database.row("k");
  const auto shown = dblock(database, {"release", "--key", "k", "--force"});
  INFO(shown.out << shown.err);
  CHECK(shown.exit == exited(75));
  CHECK(says(shown.out, "deploy of shop"));
  CHECK(says(shown.out, "last heartbeat: "));
  CHECK(count_of(shown.out + shown.err, "dblock release --key 'k' --force --token ") == 1);
  CHECK(says(shown.out, "--token " + database.column("k", "token") + "\n"));
  CHECK(ends_with_exit_line(shown.err, 75));
  CHECK(database.row("k") == before);
  const auto as_json =
      nlohmann::json::parse(dblock(database, {"--json", "release", "--key", "k", "--force"}).out);
  REQUIRE(as_json.at("locks").size() == 1);
  CHECK(as_json.at("locks").at(0).at("note") == "deploy of shop");
  CHECK(says(as_json.at("locks").at(0).at("next_command"), database.column("k", "token")));
}

TEST_CASE("force without a token is 0 when nobody holds the lock, also when a lease has just run out") {
  Database database;
  for (const auto* const row : {"none", "free", "expired"}) {
    INFO(row);
    if (std::string(row) == "free") REQUIRE(run_true(database) == exited(0));
    if (std::string(row) == "expired") {
      take(database, "k", {"--ttl", "60s"});
      database.age("k", 1h);
    }
    const auto shown = dblock(database, {"release", "--key", "k", "--force"});
    CHECK(shown.exit == exited(0));
    CHECK(shown.out == "nobody holds lock \"k\"\n");
    CHECK(shown.err.empty());
    const auto as_json =
        nlohmann::json::parse(dblock(database, {"--json", "release", "--key", "k", "--force"}).out);
    CHECK(as_json.at("locks").empty());
  }
}

TEST_CASE("force shows a cooldown with the command that ends it, and that command ends it", "[asan-local]") {
  Database database;
  for (const Words& options : {Words{}, Words{"--shared"}, Words{"--slots", "2"}}) {
    const Words words = with({"--min-hold", "1h"}, options);
    REQUIRE(run_true(database, "k", words) == exited(0));
    const auto refused = dblock(database, run_words("k", {}, {"true"}));
    INFO(refused.err);
    CHECK(refused.exit == exited(75));
    CHECK(says(refused.err, "to end it, see `dblock release --force --key 'k'`"));
    const auto shown = dblock(database, {"release", "--force", "--key", "k"});
    INFO(shown.out << shown.err);
    CHECK(shown.exit == exited(75));
    CHECK(says(shown.out, "cooling down:   for another 59m"));
    CHECK(run_true(database) == exited(75));
    const std::string token = database.column("k", "token");
    CHECK(says(shown.out, "dblock release --key 'k' --force --token " + token + "\n"));
    const auto wrong = dblock(database, {"release", "--key", "k", "--force", "--token", "12345"});
    CHECK(wrong.exit == exited(76));
    CHECK(says(wrong.err, "is not the current one: lock \"k\" is cooling down"));
    const auto ended =
        dblock(database, {"release", "--key", "k", "--force", "--token", token, "--wait", "60s"});
    CHECK(ended.exit == exited(0));
    CHECK(ended.out == "freed: k, which was cooling down\n");
    CHECK(run_true(database) == exited(0));
  }
}

TEST_CASE("a lock with a minimal hold is free once its revoked holder has gone") {
  Database database;
  take(database, "k", {"--ttl", "2s", "--margin", "0", "--min-hold", "1h"});
  REQUIRE(dblock(database, {"release", "--key", "k", "--force", "--token", database.column("k", "token"),
                            "--wait", "60s"})
              .exit == exited(0));
  CHECK(run_true(database) == exited(0));
}

TEST_CASE("a forced release waits through the lease margin too: when it has returned, the lock can be had") {
  Database database;
  take(database, "k", {"--ttl", "60s", "--margin", "60s"});
  const std::string token = database.column("k", "token");
  const Words force{"-v", "release", "--key", "k", "--force", "--token", token, "--wait"};
  database.age_until_expired("k", 1s);
  // The lease is over, its margin is not.
  check_ended(dblock(database, with(force, {"0"})), 75, {"its lease has expired and can be taken over in "});
  CHECK(run_true(database) == exited(75));
  Process waiter(dblock_spawn(database, with(force, {"10m"})));
  REQUIRE(soon_says(waiter, "waiting: lock \"k\" is held by "));
  CHECK(waiter.running());
  database.age("k", 60s);
  const Exit exit = waiter.wait();
  INFO(waiter.err());
  CHECK(exit == exited(0));
  CHECK(run_true(database) == exited(0));
}

TEST_CASE("force with a token that is not current is 76 and names the current holder", "[safety]") {
  Database database;
  take(database, "k", {"--ttl", "60s", "--note", "somebody new"});
  const auto refused = dblock(database, {"release", "--key", "k", "--force", "--token", "12345"});
  CHECK(refused.exit == exited(76));
  CHECK(says(refused.err + refused.out, database.column("k", "holder_pid")));
  CHECK(database.column("k", "revoke_time") == "NULL");
}

TEST_CASE("a revoked lease cannot be renewed but is still held until its end", "[safety]") {
  Database database;
  const std::string owner = take(database);
  const std::string token = database.column("k", "token");
  REQUIRE(dblock(database, {"release", "--key", "k", "--force", "--token", token}).exit == exited(0));
  CHECK(dblock(database, {"renew", "--key", "k", "--owner", owner}).exit == exited(76));
  CHECK(run_true(database) == exited(75));
  CHECK(dblock(database, {"release", "--key", "k", "--owner", owner}).exit == exited(0));
  CHECK(run_true(database) == exited(0));
}

TEST_CASE("now frees an acquired lease at once but is refused while a heartbeat is fresh",
          "[safety][other-servers][asan-server]") {
  Database database;
  take(database, "k", {"--ttl", "1h"});
  database.age("k", 50min);  // its last sign of life
  CHECK(dblock(database,
               {"release", "--key", "k", "--force", "--now", "--token", database.column("k", "token")})
            .exit == exited(0));
  CHECK_FALSE(database.has_holder("k"));

  LiveRun process(database, {}, sleeping_job, "run");
  const auto refused = dblock(
      database, {"release", "--key", "run", "--force", "--now", "--token", database.column("run", "token")});
  check_ended(
      refused, 75,
      {"lock \"run\" is not freed: the last heartbeat of its holder is ",
       " old, and one is due every 15s, so the holder may be alive. Without another heartbeat --now frees "
       "the "
       "lock in ",
       ": try again then, or revoke it without --now. lock \"run\" is held by ", "; its lease runs out in "});
  CHECK(database.has_holder("run"));
  CHECK(process.running());
}

TEST_CASE("a forced release that has waited says what has become of the lock") {
  Database database;
  const Words force{"release", "-v", "--key", "k", "--force", "--wait", "1h", "--token"};
  LiveRun run(database, {"--ttl", "6s", "--heartbeat", "200ms"}, sleeping_job);
  const auto freed = dblock(database, with(force, {database.column("k", "token")}));
  INFO(freed.err);
  CHECK(freed.exit == exited(0));
  CHECK(says(freed.out, "revoked: k, held by "));
  CHECK(says(freed.out, "; its lease has ended, and the lock is free\n"));
  CHECK(run.wait() == exited(76));

  const std::string owner = take(database, "k", {"--ttl", "1h"});
  Process waiting(dblock_spawn(database, with(force, {database.column("k", "token")})));
  REQUIRE(soon_says(waiting, "waiting: lock \"k\" is held by "));
  // A pause keeps the lock from the next holder as well.
  REQUIRE(dblock(database, {"pause", "-k", "k", "--for", "1h"}).exit == exited(0));
  release_lease(database, owner);
  CHECK(waiting.wait() == exited(0));
  CHECK(says(waiting.out(), "; its lease has ended, and lock \"k\" is paused until "));
}

TEST_CASE("the command that force prints means the same key however hostile it is, and shows it escaped",
          "[asan-local]") {
  Database database;
  const std::string key = "it's \\ \u202e\u00e1";
  take(database, key);
  const auto described = dblock(database, {"release", "--key", key, "--force"});
  CHECK(described.exit == exited(75));
  CHECK_FALSE(says(described.out + described.err, "\u202e"));
  const auto at = described.out.find("dblock release --key");
  REQUIRE(at != std::string::npos);
  const std::string command = described.out.substr(at + 6, described.out.find('\n', at) - at - 6);
  const auto done =
      run_program({.argv = sh(dblock_binary() + command), .env = {"DBLOCK_DB=" + database.url()}});
  INFO(command << done.err);
  CHECK(done.exit == exited(0));
  CHECK(database.micros(key, "revoke_time") != 0);
}

TEST_CASE("a signal ends the wait for a revoked holder, and says so", "[asan-local]") {
  Database database;
  take(database);
  Process process(dblock_spawn(database, {"release", "-v", "--key", "k", "--force", "--token",
                                          database.column("k", "token"), "--wait", "30s"}));
  REQUIRE(soon_says(process, "waiting: lock \"k\" is held by "));
  CHECK(database.micros("k", "revoke_time") != 0);
  process.signal(SIGTERM);
  CHECK(process.wait() == killed_by(SIGTERM));
  CHECK(ends_with_exit_line(process.err(), 143));
  CHECK(says(process.err(), "stopped by SIGTERM from pid " + std::to_string(::getpid()) + " (user "));
}

TEST_CASE("force on a free lock is not a success") {
  const Database database;
  REQUIRE(run_true(database) == exited(0));
  CHECK(dblock(database, {"release", "--key", "k", "--force", "--token", "1"}).exit == exited(76));
}

TEST_CASE("results have a json form with a format number") {
  Database database;
  const std::string owner = take(database);
  for (const Words& words : {Words{"--json", "renew", "--key", "k", "--owner", owner},
                             Words{"--json", "release", "--key", "k", "--owner", owner}}) {
    const auto finished = dblock(database, words);
    CHECK(finished.exit == exited(0));
    CHECK(nlohmann::json::parse(finished.out).at("format") == 1);
  }
}

}  // namespace
}  // namespace dblock::test
