// Every exit code of the contract's table, through the real binary. (76 by revocation and by outage:
// tests/fault.)
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/deaf_port.hpp"
#include "support/live_run.hpp"
#include "support/privilege.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

void expect_own_code(const Finished& finished, int code, const Words& said = {},
                     const CallSite& site = CallSite::current()) {
  check_ended(finished, code, said, site);
  CHECK(finished.out.empty());
}

TEST_CASE("a job that succeeds makes run exit 0 without a word") {
  const Database database;
  const auto finished = dblock(database, run_words("k", {}, {"true"}));
  CHECK(finished.exit == exited(0));
  CHECK(finished.out.empty());
  CHECK(finished.err.empty());
}

TEST_CASE("the job's own exit code passes through whatever it is") {
  const Database database;
  for (const int code : {1, 2, 63, 64, 69, 75, 76, 78, 123, 124, 126, 127, 128, 130, 137, 254, 255}) {
    const auto finished = dblock(database, run_words("k", {}, sh("exit " + std::to_string(code))));
    INFO(finished.err);
    CHECK(finished.exit == exited(code));
    CHECK_FALSE(says(finished.err, "dblock: exit"));  // the code is the job's, not dblock's
  }
}

TEST_CASE("dblock dies of the signal that killed its job", "[asan-local]") {
  const Database database;
  for (const int number : {SIGTERM, SIGINT, SIGKILL, SIGHUP, SIGSEGV, SIGABRT, SIGQUIT, SIGUSR1, SIGPIPE}) {
    const auto finished =
        dblock(database, run_words("k", {}, sh("ulimit -c 0; kill -" + std::to_string(number) + " $$")));
    INFO(finished.err);
    CHECK(finished.exit == killed_by(number));
  }
}

TEST_CASE("dblock dumps no core of its own for a job that was killed by a signal") {
  const TempDir directory;
  const auto dumps_core = [&](Spawn spec) {
    spec.cwd = directory.path();
    Process process(after("ulimit -c unlimited", spec));
    REQUIRE(process.wait() == killed_by(SIGSEGV));
    return process.dumped_core();
  };
  DBLOCK_NEEDS(dumps_core({.argv = sh("kill -SEGV $$")}) ? "" : "this machine writes no core dumps");
  const Database database;
  CHECK_FALSE(dumps_core(dblock_spawn(database, run_words("k", {}, sh("ulimit -c 0; kill -SEGV $$")))));
}

TEST_CASE("a held lock is 75 and names the holder", "[safety]") {
  Database database;
  LiveRun holder(database, {}, sleeping_job);
  const auto refused = dblock(database, run_words("k", {}, {"true"}));
  expect_own_code(refused, 75, {":" + std::to_string(holder.pid())});
  CHECK(dblock(database, {"acquire", "--key", "k", "--ttl", "10s"}).exit == exited(75));
}

TEST_CASE("an unreachable host is 69 within the connect timeout, in words and not by errno",
          "[server][other-servers][asan-server]") {
  const auto refused = dblock_at(k_no_server, run_words("k", {}, {"true"}));
  expect_own_code(refused, 69);  // nothing listens on port 1
  CHECK_FALSE(says(refused.err, "(115)"));
  const DeafPort deaf;
  const auto before = std::chrono::steady_clock::now();
  const auto finished =
      dblock_at("mysql://app@127.0.0.1:" + std::to_string(deaf.number()) + "/d?connect-timeout=1s",
                run_words("k", {}, {"true"}));
  expect_own_code(finished, 69);
  const auto took = std::chrono::steady_clock::now() - before;
  CHECK(took > 900ms);  // the system would try for two minutes, longer than dblock_at() waits
  CHECK(says(finished.err, "127.0.0.1:" + std::to_string(deaf.number())));
}

TEST_CASE("a missing socket is 69 and names the socket", "[server]") {
  const auto finished =
      dblock_at("mysql://app@localhost/d?socket=/nonexistent/sock", run_words("k", {}, {"true"}));
  expect_own_code(finished, 69, {"/nonexistent/sock"});
}

TEST_CASE("a server that does not answer is 69 within the connect timeout", "[server]") {
  Server server;
  const ServerDatabase database(server.address());
  server.freeze();
  CHECK(best_of_some(4s, [&] {  // and not within the 5 s that it is without the option
          const auto before = std::chrono::steady_clock::now();
          const auto finished =
              dblock_at(database.tcp_url() + "?connect-timeout=1s", run_words("k", {}, {"true"}));
          const auto took = std::chrono::steady_clock::now() - before;
          expect_own_code(finished, 69);
          return took;
        }) < 4s);
  server.thaw();
}

TEST_CASE("a read-only server is 69 and said to be read-only",
          "[server][safety][other-servers][asan-server]") {
  Server server;
  ServerDatabase database(server.address());
  REQUIRE(run_true(database, "seen") == exited(0));
  database.sql("SET GLOBAL read_only = 1");
  const TempDir directory;
  for (const char* key : {"seen", "new"}) {
    const auto finished = dblock(database, run_words(key, {}, {"touch", directory.file("ran")}));
    expect_own_code(finished, 69, {"read-only"});
  }
  CHECK_FALSE(std::filesystem::exists(directory.file("ran")));
}

TEST_CASE("a wrong password is 77 and the password is shown nowhere", "[server][other-servers]") {
  ServerDatabase database;
  const std::string user = database.account("IDENTIFIED BY 'right-one'");
  std::string url = database.url(user + ":wrong-one");
  const auto finished = dblock_at(url, run_words("k", {}, {"true"}));
  expect_own_code(finished, 77);
  CHECK_FALSE(says(finished.err, "wrong-one"));
  CHECK(says(finished.err, user));
}

TEST_CASE("77 and doctor name the source of the password", "[server]") {
  ServerDatabase database;
  const TempDir directory;
  const std::string user = database.account("IDENTIFIED BY 'right-one'");
  const std::string url = database.url(user);
  const auto both_say = [&](const std::string& db, const Words& env, const std::string& source) {
    for (const char* subcommand : {"inspect", "doctor"}) {
      const auto finished = dblock_at(db, {subcommand}, env);
      INFO(finished.out << finished.err);
      CHECK(finished.exit == exited(std::string(subcommand) == "doctor" ? 78 : 77));
      CHECK(says(finished.out + finished.err, source));
    }
  };
  const std::string file = directory.file("password");
  write_file(file, "wrong-one\n", 0600);
  both_say(database.url(user + ":wrong-one"), {}, "from the URL of DBLOCK_DB");
  both_say(url + (url.find('?') == std::string::npos ? "?" : "&") + "password-file=" + file, {},
           "from password file " + file);
  both_say(url, {"DBLOCK_PASSWORD_FILE=" + file}, "from DBLOCK_PASSWORD_FILE (" + file + ")");
  both_say(url, {"DBLOCK_PASSWORD=wrong-one"}, "from DBLOCK_PASSWORD");
  const std::string conf = directory.file("conf");
  write_file(conf, "password-command = echo wrong-one\n", 0600);
  both_say(url, {"DBLOCK_CONFIG=" + conf}, "from password-command in " + conf);
  both_say(url, {}, "no password");
  write_file(directory.file("options"), "[client]\npassword=wrong-one\n", 0600);
  both_say(url, {"DBLOCK_DEFAULTS_FILE=" + directory.file("options")},
           "from option file " + directory.file("options") + " line 2");
}

TEST_CASE("a missing privilege is 77", "[server]") {
  ServerDatabase database;
  const std::string user = database.account("", "SELECT");
  expect_own_code(dblock_at(database.url(user), run_words("k", {}, {"true"})), 77);
}

TEST_CASE("a missing database is 78", "[server][other-servers]") {
  const ServerDatabase database;
  const auto finished =
      dblock_at(shared_server().url("t_missing_database", "owner"), run_words("k", {}, {"true"}));
  expect_own_code(finished, 78, {"t_missing_database"});
  CHECK_FALSE(database.name().empty());
  // A server does not tell an account without rights there whether it exists.
  const auto denied = dblock_at(shared_server().url("t_missing_database"), run_words("k", {}, {"true"}));
  expect_own_code(denied, 77, {"t_missing_database"});
}

TEST_CASE("nothing configured is 78 and shows the ways to configure", "[asan-local]") {
  const auto finished = dblock_bare(run_words("k", {}, {"true"}));
  expect_own_code(finished, 78, {"DBLOCK_DB", "[dblock]"});
}

TEST_CASE("renewing or releasing a lease that is not ours is 76", "[safety]") {
  const Database database;
  take(database, "k", {"--ttl", "30s"});
  expect_own_code(dblock(database, {"renew", "--key", "k", "--owner", "somebody-else"}), 76);
  expect_own_code(dblock(database, {"release", "--key", "k", "--owner", "somebody-else"}), 76);
  expect_own_code(dblock(database, {"release", "--key", "never-seen", "--owner", "x"}), 76);
}

TEST_CASE("max-runtime stops the job with 124 even when it then exits 0") {
  Database database;
  const auto finished = dblock(database, run_words("k", {"--max-runtime", "300ms"},
                                                   sh(std::string("trap 'exit 0' TERM; ") + k_for_ever)));
  expect_own_code(finished, 124);
  CHECK_FALSE(database.has_holder("k"));
  CHECK(database.column("k", "last_outcome") == "timed_out");
}

TEST_CASE("max-runtime kills a job that ignores the first signal after the grace") {
  Database database;
  const auto finished = dblock(database, run_words("k", {"--max-runtime", "200ms", "--kill-grace", "300ms"},
                                                   sh(std::string("trap '' TERM; ") + k_for_ever)));
  expect_own_code(finished, 124);
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a command that is not there is 127 before anything is locked", "[asan-local]") {
  Database database;
  for (const char* name : {"no-such-program-anywhere", "/no/such/path", "./missing"}) {
    const auto finished = dblock(database, run_words("k", {}, {name}));
    expect_own_code(finished, 127, {name});
  }
  CHECK(database.rows() == 0);
}

TEST_CASE("a command line in one word is 127, and -c is said to be the way to run it") {
  Database database;
  const auto line = dblock(database, run_words("k", {}, {"echo hi there"}));
  expect_own_code(line, 127, {"write -c 'echo hi there'"});
  const auto path = dblock(database, run_words("k", {}, {"./job --full"}));
  CHECK(says(path.err, "write -c './job --full'"));
  const auto program = dblock(database, run_words("k", {}, {"no-such-program"}));
  CHECK_FALSE(says(program.err, "write -c"));
  CHECK(database.rows() == 0);
}

TEST_CASE("a command that cannot be executed is 126 before anything is locked") {
  Database database;
  const TempDir directory;
  write_file(directory.file("plain"), "#!/bin/sh\n", 0644);
  expect_own_code(dblock(database, run_words("k", {}, {directory.file("plain")})), 126);
  expect_own_code(dblock(database, run_words("k", {}, {directory.path()})), 126);
  CHECK(database.rows() == 0);
}

TEST_CASE("a command without an interpreter is 126, says so and leaves the lock free") {
  Database database;
  const TempDir directory;
  write_file(directory.file("script"), "#!/no/such/interpreter\n", 0755);
  const auto finished = dblock(database, run_words("k", {}, {directory.file("script")}));
  INFO(finished.err);
  CHECK(finished.exit == exited(126));
  CHECK(says(finished.err, "interpreter"));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a missing command is found without waiting for the lock") {
  Database database;
  take(database);
  CHECK(dblock(database, run_words("k", {"--wait", "1h"}, {"no-such-program"})).exit == exited(127));
}

TEST_CASE("inspect with max-age is 1 for a key whose last success is too old or never was") {
  Database database;
  const auto never = dblock(database, {"inspect", "--key", "never", "--max-age", "1h"});
  CHECK(never.exit == exited(1));
  CHECK(says(never.out + never.err, "never"));
  REQUIRE(run_true(database) == exited(0));
  CHECK(dblock(database, {"inspect", "--key", "k", "--max-age", "1h"}).exit == exited(0));
  REQUIRE(dblock(database, run_words("bad", {}, {"false"})).exit == exited(1));
  CHECK(dblock(database, {"inspect", "--key", "bad", "--max-age", "1h"}).exit == exited(1));
  // The clock was set back since.
  database.age("k", -2h);
  CHECK(dblock(database, {"inspect", "--key", "k", "--max-age", "24h"}).exit == exited(0));
  const auto ahead = dblock(database, {"inspect", "--key", "k", "--max-age", "12h"});
  CHECK(ahead.exit == exited(1));
  CHECK(says(ahead.out, "ahead of the clock"));
}

TEST_CASE("inspect with max-age judges each known key under a prefix, and says when there is none",
          "[asan-local]") {
  Database database;
  const Words ask{"inspect", "--prefix", "etl/", "--max-age", "1h"};
  REQUIRE(run_true(database, "other") == exited(0));
  const auto none = dblock(database, ask);
  CHECK(none.exit == exited(1));
  CHECK(none.out == "no key that starts with \"etl/\" is known\n");
  REQUIRE(run_true(database, "etl/a") == exited(0));
  REQUIRE(run_true(database, "etl/b") == exited(0));
  const LiveRun reader(database, {"--shared"}, patient_job, "etl/a");
  const auto young = dblock(database, ask);
  INFO(young.out << young.err);
  CHECK(young.exit == exited(0));
  CHECK(young.out.empty());
  database.age("etl/b", 2h);
  const auto old = dblock(database, ask);
  CHECK(old.exit == exited(1));
  CHECK(says(old.out, "the last success under key \"etl/b\" was 2h"));
  CHECK(lines(old.out).size() == 1);
  CHECK(says(old.err, "exit 1 (stale): 1 of 2 keys had no success within 1h"));
}

TEST_CASE("inspect with max-held is 1 with a line for each lock that has been held for longer") {
  Database database;
  const Words ask{"inspect", "--max-held", "90m"};
  CHECK(dblock(database, ask).exit == exited(0));
  for (const std::string key : {"etl/a", "etl/b", "x"}) take(database, key, {"--ttl", "10h", "--note", "me"});
  REQUIRE(run_true(database, "cooling", {"--min-hold", "10h"}) == exited(0));
  database.age("cooling", 2h);
  const auto young = dblock(database, ask);
  INFO(young.out << young.err);
  CHECK(young.exit == exited(0));
  CHECK(young.out.empty());
  database.age("etl/a", 2h);
  database.age("x", 3h);
  const auto all = dblock(database, ask);
  CHECK(all.exit == exited(1));
  CHECK(lines(all.out).size() == 2);
  CHECK(says(all.out, "lock \"etl/a\" is held by "));
  CHECK(says(all.out, "for 2h"));
  CHECK(says(all.err, "exit 1 (overdue): locks held for longer than 1h30m: 2"));
  const auto one = dblock(database, with(ask, {"--prefix", "etl/"}));
  CHECK(one.exit == exited(1));
  CHECK(lines(one.out).size() == 1);
  CHECK(says(one.err, "1h30m: 1\n"));
  CHECK(dblock(database, with(ask, {"-k", "etl/b"})).exit == exited(0));
  CHECK(dblock(database, with(ask, {"-k", "x"})).exit == exited(1));
  const auto document = dblock(database, with(ask, {"--json"}));
  CHECK(document.exit == exited(1));
  CHECK(says(document.out, "\"key\":\"etl/b\""));
}

TEST_CASE("inspect with max-failures is 1 with a line for each key whose last runs failed") {
  const Database database;
  const Words ask{"inspect", "--max-failures", "2"};
  const auto fails = [&](const std::string& key) {
    return dblock(database, run_words(key, {}, {"false"})).exit == exited(1);
  };
  REQUIRE(fails("etl/a"));
  REQUIRE(fails("x"));
  CHECK(dblock(database, ask).exit == exited(0));
  for (const std::string key : {"etl/a", "x", "etl/b"}) REQUIRE(fails(key));
  const auto all = dblock(database, ask);
  INFO(all.out << all.err);
  CHECK(all.exit == exited(1));
  CHECK(all.out ==
        "runs under key \"etl/a\" that failed in a row: 2\n"
        "runs under key \"x\" that failed in a row: 2\n");
  CHECK(says(all.err, "exit 1 (failing): keys under which the last 2 runs failed: 2\n"));
  CHECK(lines(dblock(database, with(ask, {"--prefix", "etl/"})).out).size() == 1);
  const auto unknown = dblock(database, with(ask, {"-v", "-k", "etl/b", "-k", "never"}));
  CHECK(unknown.exit == exited(0));
  CHECK(says(unknown.err, "no lock is known under key \"never\"; is the key spelt right?"));
  const auto document = dblock(database, with(ask, {"-k", "x", "--json"}));
  CHECK(document.exit == exited(1));
  CHECK(says(dblock(database, {"inspect", "--all", "--json"}).out, "\"failures\":2"));
  CHECK(
      says(dblock(database, {"inspect", "--format", "prometheus"}).out, "\ndblock_failures{key=\"x\"} 2\n"));
  REQUIRE(run_true(database, "x") == exited(0));
  CHECK(dblock(database, with(ask, {"-k", "x"})).exit == exited(0));
}

TEST_CASE("the documents of max-failures and max-age have the keys that the lines name, held or not") {
  Database database;
  const auto keys = [&](const Words& options, const Words& format) {
    const auto asked = dblock(database, with(with({"inspect"}, options), format));
    CHECK(asked.exit == exited(1));
    return asked.out;
  };
  for (const std::string key : {"bad", "good"}) REQUIRE(run_true(database, key) == exited(0));
  REQUIRE(dblock(database, run_words("bad", {}, {"false"})).exit == exited(1));
  take(database, "held");
  const Words failures{"--max-failures", "1"};
  database.age("bad", 2h);
  const Words age{"--max-age", "1h", "-k", "bad", "-k", "good", "-k", "held"};
  for (const Words& options : {failures, age}) {
    CAPTURE(options);
    for (const Words& format : {Words{"--json"}, Words{"--format", "csv"}}) {
      const std::string document = keys(options, format);
      CAPTURE(document);
      CHECK(says(document, "bad"));
      CHECK(says(document, "held"));
      CHECK_FALSE(says(document, "good"));
    }
    CHECK(says(keys(options, {"--format", "prometheus"}), "dblock_failures{key=\"bad\"} 1\n"));
  }
}

TEST_CASE("what the system refuses dblock is named, and no job is started") {
  DBLOCK_NEEDS(why_no_preload());
  const Database database;
  const TempDir directory;
  const Words run = run_words("k", {}, {"touch", directory.file("ran")});
  const Words acquire{"acquire", "--key", "k", "--while-pid", std::to_string(::getpid())};
  struct Refusal {
    Words words;
    Words env;
    int code;
    const char* said;
  };
  for (const auto& refusal : std::vector<Refusal>{
           {run, failing("getrandom", ENOSYS), 70, "cannot draw a random number: Function not implemented"},
           {run, failing("signalfd", EMFILE), 70,
            "cannot make a descriptor for signals: Too many open files"},
           {run, failing("mmap", ENOMEM), 70, "cannot map a page for the guardian: Cannot allocate memory"},
           {run, failing("prctl", EINVAL), 78, "(PR_SET_CHILD_SUBREAPER): Invalid argument; without that"},
           {run, failing("open", ENOENT, "/children"), 78,
            "/children: No such file or directory; without that"},
           {acquire, failing("pidfd_open", ENOSYS), 70, "--while-pid: cannot watch process "},
           {run, failing("pidfd_open", ENOSYS), 70, "Function not implemented; pidfd_open needs Linux 5.3"},
           {run, failing("pidfd_open", EPERM), 70, "does a container's seccomp profile forbid pidfd_open?"},
           {acquire, failing("pidfd_open", EPERM), 70, "seccomp profile forbid pidfd_open?"},
           {run, failing("pthread_create", EPERM), 70, "seccomp profile forbid clone3?"},
           {run, failing("pthread_create", EAGAIN), 70, "too many processes (ulimit -u)?"}}) {
    CAPTURE(refusal.said);
    check_ended(dblock(database, refusal.words, refusal.env), refusal.code, {refusal.said});
    CHECK_FALSE(database.has_holder("k"));
  }
  CHECK_FALSE(std::filesystem::exists(directory.file("ran")));
}

TEST_CASE("a table with a column that somebody has made too short is 70, and its row is as it was",
          "[server]") {
  ServerDatabase database;
  REQUIRE(run_true(database) == exited(0));
  database.sql("ALTER TABLE " + database.name() + ".dblock_lock MODIFY holder_command VARCHAR(4) NOT NULL");
  const std::string before = database.row("k");
  check_ended(dblock(database, run_words("k", {}, {"sleep", "0"})), 70,
              {"holder_command", "; this should not happen: were dblock's tables changed by hand?"});
  CHECK(database.row("k") == before);
}

TEST_CASE("a lease that was revoked by hand, without a name, is 76 like any other") {
  Database database;
  const std::string owner = take(database);
  revoke(database);
  database.set_text("k", "revoked_by", "");
  check_ended(dblock(database, {"renew", "--key", "k", "--owner", owner}), 76,
              {"was revoked with `dblock release --force`"});
}

}  // namespace
}  // namespace dblock::test
