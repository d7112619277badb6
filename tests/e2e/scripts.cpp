// acquire, renew and release, as scripts use them.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/dblock.hpp"

namespace dblock::test {
namespace {

std::string acquire_owner(const Database& database, const Words& options = {"--ttl", "60s"}) {
  const Words words = with({"acquire", "--key", "k"}, options);
  const auto finished = dblock(database, words);
  INFO(finished.err);
  REQUIRE(finished.exit == exited(0));
  REQUIRE(finished.out.ends_with("\n"));
  return finished.out.substr(0, finished.out.size() - 1);
}

Finished shell(const Database& database, const std::string& script) {
  return run_program({.argv = {"/bin/sh", "-c", "dblock() { " + dblock_binary() + " \"$@\"; }\n" + script},
                      .env = {"DBLOCK_DB=" + database.url()}});
}

TEST_CASE("acquire prints the owner id alone on a line and the lease stays") {
  Database database;
  const std::string owner = acquire_owner(database, {"--ttl", "60s", "--note", "by hand"});
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
  CHECK(lease.dump().find(database.column("k", "lock_value")) != std::string::npos);
  CHECK(lease.dump().find(database.column("k", "token")) != std::string::npos);
}

TEST_CASE("renew extends the lease by the stored ttl or the given one and never shortens it") {
  Database database;
  const std::string owner = acquire_owner(database);
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

TEST_CASE("release frees the lock and a second release is 76") {
  Database database;
  const std::string owner = acquire_owner(database);
  CHECK(dblock(database, {"release", "--key", "k", "--owner", owner}).exit == exited(0));
  CHECK_FALSE(database.has_holder("k"));
  CHECK(dblock(database, {"release", "--key", "k", "--owner", owner}).exit == exited(76));
}

TEST_CASE("an expired lease can be neither renewed nor released even when nobody took it") {
  Database database;
  const std::string owner = acquire_owner(database);
  database.age_until_expired("k", std::chrono::microseconds(1));
  const std::string before = database.row("k");
  CHECK(dblock(database, {"renew", "--key", "k", "--owner", owner}).exit == exited(76));
  CHECK(dblock(database, {"release", "--key", "k", "--owner", owner}).exit == exited(76));
  CHECK(database.row("k") == before);
}

TEST_CASE("key and owner default to the variables that acquire exports") {
  const Database database;
  const auto finished = shell(database,
                              "set -e\n"
                              "eval \"$(dblock acquire --key 'it'\\''s a key' --ttl 60s --format shell)\"\n"
                              "test \"$DBLOCK_KEY\" = \"it's a key\"; test -n \"$DBLOCK_TOKEN\"\n"
                              "dblock renew\n"
                              "dblock release\n"
                              "echo done\n");
  INFO(finished.err);
  CHECK(finished.exit == exited(0));
  CHECK(finished.out.ends_with("done\n"));
}

TEST_CASE("a failed acquire ends a script that evals it under set -e with its code") {
  const Database database;
  acquire_owner(database);
  for (const char* interpreter : {"/bin/sh", "/bin/bash"}) {
    const auto finished =
        run_program({.argv = {interpreter, "-c",
                              "set -e; eval \"$(" + dblock_binary() +
                                  " acquire --key k --ttl 60s --format shell)\"; echo went on"},
                     .env = {"DBLOCK_DB=" + database.url()}});
    CHECK(finished.exit == exited(75));
    CHECK(finished.out.empty());
  }
  const auto unreachable =
      run_program({.argv = sh("set -e; eval \"$(" + dblock_binary() +
                              " acquire --key k --ttl 60s --format shell)\"; echo went on"),
                   .env = {"DBLOCK_DB=mysql://app@127.0.0.1:1/d"}});
  CHECK(unreachable.exit == exited(69));
  CHECK(unreachable.out.empty());
  const auto usage = run_program(
      {.argv = sh("set -e; eval \"$(" + dblock_binary() + " acquire --key k --format shell)\"; echo went on"),
       .env = {"DBLOCK_DB=mysql://app@127.0.0.1:1/d"}});
  CHECK(usage.exit == exited(64));
  CHECK(usage.out.empty());
}

TEST_CASE("a script without a dblock on its path does not go on") {
  for (const char* interpreter : {"/bin/sh", "/bin/bash"}) {
    const auto finished = run_program({.argv = {interpreter, "-c",
                                                "PATH=/nowhere; lock=$(dblock acquire --key k --ttl 60s "
                                                "--format shell) || exit; eval \"$lock\"; "
                                                "echo went on"}});
    CHECK(finished.exit == exited(127));
    CHECK(finished.out.empty());
  }
}

TEST_CASE("acquire waits for a holder within its limit") {
  const Database database;
  acquire_owner(database, {"--ttl", "1s", "--margin", "0"});
  CHECK(dblock(database, {"acquire", "--key", "k", "--ttl", "5s", "--wait", "20s"}).exit == exited(0));
}

TEST_CASE("the lease of a running job is left alone by plain renew and release") {
  Database database;
  const TempDir directory;
  Process process(
      dblock_spawn(database, run_words("k", {}, sh("touch " + directory.file("up") + "; sleep 60"))));
  await_file(process, directory.file("up"));
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
  acquire_owner(database, {"--ttl", "60s", "--note", "deploy of shop"});
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
    if (std::string(row) == "free") REQUIRE(dblock(database, run_words("k", {}, {"true"})).exit == exited(0));
    if (std::string(row) == "expired") {
      acquire_owner(database, {"--ttl", "60s"});
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

TEST_CASE("force shows a cooldown with the command that ends it, and that command ends it") {
  Database database;
  for (const Words& options : {Words{}, Words{"--shared"}, Words{"--slots", "2"}}) {
    const Words words = with({"--min-hold", "1h"}, options);
    REQUIRE(dblock(database, run_words("k", words, {"true"})).exit == exited(0));
    const auto refused = dblock(database, run_words("k", {}, {"true"}));
    INFO(refused.err);
    CHECK(refused.exit == exited(75));
    CHECK(says(refused.err, "to end it, see `dblock release --force --key 'k'`"));
    const auto shown = dblock(database, {"release", "--force", "--key", "k"});
    INFO(shown.out << shown.err);
    CHECK(shown.exit == exited(75));
    CHECK(says(shown.out, "cooling down:   for another 59m"));
    CHECK(dblock(database, run_words("k", {}, {"true"})).exit == exited(75));
    const std::string token = database.column("k", "token");
    CHECK(says(shown.out, "dblock release --key 'k' --force --token " + token + "\n"));
    const auto wrong = dblock(database, {"release", "--key", "k", "--force", "--token", "12345"});
    CHECK(wrong.exit == exited(76));
    CHECK(says(wrong.err, "is not the current one: lock \"k\" is cooling down"));
    const auto ended =
        dblock(database, {"release", "--key", "k", "--force", "--token", token, "--wait", "60s"});
    CHECK(ended.exit == exited(0));
    CHECK(ended.out == "freed: k, which was cooling down\n");
    CHECK(dblock(database, run_words("k", {}, {"true"})).exit == exited(0));
  }
}

TEST_CASE("a lock with a minimal hold is free once its revoked holder has gone") {
  Database database;
  REQUIRE(
      dblock(database, {"acquire", "--key", "k", "--ttl", "2s", "--margin", "0", "--min-hold", "1h"}).exit ==
      exited(0));
  REQUIRE(dblock(database, {"release", "--key", "k", "--force", "--token", database.column("k", "token"),
                            "--wait", "60s"})
              .exit == exited(0));
  CHECK(dblock(database, run_words("k", {}, {"true"})).exit == exited(0));
}

TEST_CASE("force with a token that is not current is 76 and names the current holder") {
  Database database;
  acquire_owner(database, {"--ttl", "60s", "--note", "somebody new"});
  const auto refused = dblock(database, {"release", "--key", "k", "--force", "--token", "12345"});
  CHECK(refused.exit == exited(76));
  CHECK((refused.err + refused.out).find(database.column("k", "holder_pid")) != std::string::npos);
  CHECK(database.column("k", "revoke_time") == "NULL");
}

TEST_CASE("a revoked lease cannot be renewed but is still held until its end") {
  Database database;
  const std::string owner = acquire_owner(database);
  const std::string token = database.column("k", "token");
  REQUIRE(dblock(database, {"release", "--key", "k", "--force", "--token", token}).exit == exited(0));
  CHECK(dblock(database, {"renew", "--key", "k", "--owner", owner}).exit == exited(76));
  CHECK(dblock(database, run_words("k", {}, {"true"})).exit == exited(75));
  CHECK(dblock(database, {"release", "--key", "k", "--owner", owner}).exit == exited(0));
  CHECK(dblock(database, run_words("k", {}, {"true"})).exit == exited(0));
}

TEST_CASE("now frees an acquired lease at once but is refused while a heartbeat is fresh") {
  Database database;
  const TempDir directory;
  acquire_owner(database, {"--ttl", "1h"});
  database.age("k", 50min);  // its last sign of life
  CHECK(dblock(database,
               {"release", "--key", "k", "--force", "--now", "--token", database.column("k", "token")})
            .exit == exited(0));
  CHECK_FALSE(database.has_holder("k"));

  Process process(
      dblock_spawn(database, run_words("run", {}, sh("touch " + directory.file("up") + "; sleep 60"))));
  await_file(process, directory.file("up"));
  const auto refused = dblock(
      database, {"release", "--key", "run", "--force", "--now", "--token", database.column("run", "token")});
  CHECK(refused.exit == exited(75));
  CHECK(ends_with_exit_line(refused.err, 75));
  CHECK(database.has_holder("run"));
  CHECK(process.running());
}

TEST_CASE("the command that force prints means the same key however hostile it is, and shows it escaped") {
  Database database;
  const std::string key = "it's \\ \u202e\u00e1";
  REQUIRE(dblock(database, {"acquire", "--key", key, "--ttl", "60s"}).exit == exited(0));
  const auto described = dblock(database, {"release", "--key", key, "--force"});
  CHECK(described.exit == exited(75));
  CHECK((described.out + described.err).find("\u202e") == std::string::npos);
  const auto at = described.out.find("dblock release --key");
  REQUIRE(at != std::string::npos);
  const std::string command = described.out.substr(at + 6, described.out.find('\n', at) - at - 6);
  const auto done =
      run_program({.argv = sh(dblock_binary() + command), .env = {"DBLOCK_DB=" + database.url()}});
  INFO(command << done.err);
  CHECK(done.exit == exited(0));
  CHECK(database.micros(key, "revoke_time") != 0);
}

TEST_CASE("a signal ends the wait for a revoked holder, and says so") {
  Database database;
  REQUIRE(dblock(database, {"acquire", "--key", "k", "--ttl", "60s"}).exit == exited(0));
  Process process(dblock_spawn(database, {"release", "--key", "k", "--force", "--token",
                                          database.column("k", "token"), "--wait", "30s"}));
  REQUIRE(wait_until([&] { return database.micros("k", "revoke_time") != 0; }));
  process.signal(SIGTERM);
  CHECK(process.wait() == killed_by(SIGTERM));
  CHECK(ends_with_exit_line(process.err(), 143));
  CHECK(says(process.err(), "stopped by SIGTERM from pid " + std::to_string(::getpid()) + " (user "));
}

TEST_CASE("force on a free lock is not a success") {
  const Database database;
  REQUIRE(dblock(database, run_words("k", {}, {"true"})).exit == exited(0));
  CHECK(dblock(database, {"release", "--key", "k", "--force", "--token", "1"}).exit == exited(76));
}

TEST_CASE("results have a json form with a format number") {
  Database database;
  const std::string owner = acquire_owner(database);
  for (const Words& words : {Words{"--json", "renew", "--key", "k", "--owner", owner},
                             Words{"--json", "release", "--key", "k", "--owner", owner}}) {
    const auto finished = dblock(database, words);
    CHECK(finished.exit == exited(0));
    CHECK(nlohmann::json::parse(finished.out).at("format") == 1);
  }
}

}  // namespace
}  // namespace dblock::test
