// Passwords that last for minutes: they are asked for again, within the patience of what needs them.

#include <signal.h>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

const Words k_renewed_often{"--ttl", "6s", "--heartbeat", "400ms", "--kill-grace", "500ms"};

// An account whose password is in a file, which the URL names as a file or by a command that prints it.
class TokenAccount {
 public:
  TokenAccount() { write_file(file(), "token-1", 0600); }

  [[nodiscard]] std::string url(const std::string& source) const {
    return database.url(user_) + "&" + source + file();
  }
  void give(const std::string& token) const { write_file(file(), token, 0600); }
  void demand(const std::string& token) {
    database.sql("ALTER USER " + user_ + "@'%' IDENTIFIED BY '" + token + "'");
  }
  void cut_sessions() {
    for (const auto& session :
         database.sql("SELECT id FROM information_schema.processlist WHERE user='" + user_ + "'"))
      database.kill_session(session.at(0));
  }
  void replace() {
    demand("token-2");
    give("token-2");
    cut_sessions();
  }

  ServerDatabase database;
  const TempDir directory;

 private:
  [[nodiscard]] std::string file() const { return directory.file("token"); }
  const std::string user_ = database.account("IDENTIFIED BY 'token-1'");
};

constexpr const char* k_by_file = "password-file=";
constexpr const char* k_by_command = "password-command=cat%20";

TEST_CASE("a holder that is cut off logs in with the password that replaced its own",
          "[server][other-servers]") {
  TokenAccount account;
  const auto* const source = GENERATE(k_by_file, k_by_command);
  CAPTURE(source);
  LiveRun run(account.url(source), k_renewed_often);
  account.replace();
  for (int i = 0; i < 2; ++i) await_renewal(account.database);
  CHECK(run.end() == exited(0));
  CHECK(soon_free(account.database));
}

TEST_CASE("a holder waits for its new password until the lease ends", "[server]") {
  TokenAccount account;
  LiveRun run(account.url(k_by_file), {"--ttl", "1m", "--heartbeat", "300ms", "-v"});
  account.demand("token-2");
  account.cut_sessions();
  CHECK(soon_says(run, "Access denied"));
  account.give("token-2");
  await_renewal(account.database);
  CHECK(run.end() == exited(0));
}

TEST_CASE("a keeper that is cut off logs in with the password that replaced its own", "[server]") {
  TokenAccount account;
  const auto* const source = GENERATE(k_by_file, k_by_command);
  CAPTURE(source);
  KeptScript script(account.url(source), "--ttl 6s");
  account.replace();
  for (int i = 0; i < 2; ++i) await_renewal(account.database);
  script.signal(SIGKILL);
  CHECK(soon_free(account.database));
}

TEST_CASE("the guardian of a dead dblock releases with the password that replaced its own", "[server]") {
  TokenAccount account;
  const auto* const source = GENERATE(k_by_file, k_by_command);
  CAPTURE(source);
  LiveRun run(account.url(source), {"--ttl", "10m"}, sleeping_job);
  account.demand("token-2");
  account.give("token-2");
  run.signal(SIGKILL);
  CHECK(soon_free(account.database));
}

TEST_CASE("a waiter that is cut off waits on with the password that replaced its own, even when that is late",
          "[server]") {
  TokenAccount account;
  const std::string owner = take(account.database);
  Process waiter(dblock_spawn_at(account.url(k_by_file), run_words("k", {"--wait", "10m", "-v"}, {"true"})));
  REQUIRE(soon_in_line(account.database, 1));
  account.demand("token-2");
  // A session that was just being opened is not seen the first time.
  CHECK(wait_until([&] {
    account.cut_sessions();
    return says(waiter.err(), "Access denied");
  }));
  account.give("token-2");
  release_lease(account.database, owner);
  CHECK(waiter.wait() == exited(0));
}

TEST_CASE("a first login that is refused asks once more, and then is 77 whatever the wait", "[server]") {
  TokenAccount account;
  const std::string asked = account.directory.file("asked");
  const std::string url = account.url("password-command=echo%20x%20>>" + asked + ";cat%20");
  CHECK(dblock_at(url, run_words("k", {}, {"true"})).exit == exited(0));
  CHECK(read_file(asked) == "x\n");
  account.demand("token-2");
  check_ended(dblock_at(url, run_words("k", {"--wait", "1h"}, {"true"})), 77,
              {"the password is from password-command"});
  CHECK(read_file(asked) == "x\nx\nx\n");
}

TEST_CASE("a password-command that fails, hangs or prints nothing at first is asked again within the wait",
          "[server]") {
  TokenAccount account;
  const std::string mark = account.directory.file("mark");
  const auto* const trouble = GENERATE("exit%203", "sleep%20600", "exit%200", "kill%20-9%20$$");
  CAPTURE(trouble);
  const std::string url = account.url("connect-timeout=500ms&password-command=[%20-e%20" + mark +
                                      "%20]||{%20touch%20" + mark + ";" + trouble + ";};cat%20");
  const auto ran = dblock_at(url, run_words("k", {"--wait", "1h"}, {"true"}));
  INFO(ran.err);
  CHECK(ran.exit == exited(0));
}

TEST_CASE(
    "a password-command that goes on failing is 69 at the end of the wait, one that is not there 78 at once",
    "[server]") {
  const ServerDatabase database;
  const auto run = [&](const std::string& command, const Words& wait) {
    return dblock_at(database.url() + "&connect-timeout=500ms&password-command=" + command,
                     run_words("k", wait, {"true"}));
  };
  for (const Words& wait : {Words{"-n"}, Words{"--wait", "1s"}}) {
    check_ended(run("exit%203", wait), 69, {"failed with exit status 3"});
    check_ended(run("sleep%20600", wait), 69, {"connect-timeout"});
    check_ended(run("true", wait), 69, {"printed no password"});
  }
  for (const char* const command : {"no-such-program", "/etc/passwd"})
    check_ended(run(command, {"--wait", "1h"}), 78, {"not found, or not executable"});
}

TEST_CASE("a signal ends a wait for a password-command at once, and the command with it", "[server]") {
  const ServerDatabase database;
  for (const int number : {SIGKILL, SIGTERM}) {
    CAPTURE(number);
    const TempDir directory;
    const std::string pid = directory.file("pid");
    const std::string mark = directory.file("mark");
    Process waiter(dblock_spawn_at(database.url() + "&connect-timeout=1h&password-command=[%20-e%20" + mark +
                                       "%20]||{%20touch%20" + mark + ";exit%203;};echo%20$$>" + pid +
                                       ";sleep%203600",
                                   run_words("k", {"--wait", "1h"}, {"true"})));
    REQUIRE(wait_until([&] { return pid_in(pid) != 0; }));
    waiter.signal(number);
    CHECK(waiter.wait() == killed_by(number));
    REQUIRE(wait_until([&] { return ::kill(pid_in(pid), 0) != 0; }));
  }
}

}  // namespace
}  // namespace dblock::test
