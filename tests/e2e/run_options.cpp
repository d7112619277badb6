// Options of run beside the lock itself: status file, run time, parent, leftovers, warnings, conflict code.
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/proxy.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

using nlohmann::json;

json status_of(const std::string& file) {
  return json::parse(read_file(file));
}

TEST_CASE("the status file tells how the run ended and is private", "[asan-local]") {
  Database database;
  const TempDir directory;
  const std::string file = directory.file("status.json");
  CHECK(dblock(database, run_words("k", {"--status-file", file}, sh("exit 3"))).exit == exited(3));
  const json status = status_of(file);
  INFO(status.dump());
  CHECK(status.at("format") == 1);
  CHECK(status.at("exit_code") == 3);
  CHECK(status.at("key") == "k");
  CHECK(status.at("outcome") == "failed");
  CHECK(status.at("release") == "released");
  const auto token = status.at("token");
  CHECK((token.is_string() ? token.get<std::string>() : token.dump()) == database.column("k", "token"));
  struct stat info {};
  REQUIRE(::stat(file.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777U) == 0600U);
  CHECK(std::distance(std::filesystem::directory_iterator(directory.path()), {}) ==
        1);  // no temporary file left
}

TEST_CASE("the status file has a key that a terminal would not show as it is in JSON's own escapes") {
  const Database database;
  const TempDir directory;
  const std::string file = directory.file("status.json");
  const std::string key = "k\u200b\u202e\u00e1";
  CHECK(run_true(database, key, {"--status-file", file}) == exited(0));
  CHECK(status_of(file).at("key") == key);
  CHECK(says(read_file(file), R"("k\u200b\u202e\u00e1")"));
}

TEST_CASE("the status file has its mode whatever the umask") {
  const Database database;
  for (const char* mask : {"umask 0", "umask 277", "umask 777"}) {
    const TempDir directory;
    const std::string file = directory.file("status.json");
    CAPTURE(mask);
    CHECK(run_program(after(mask, dblock_spawn(database, run_words("k", {"--status-file", file}, {"true"}))))
              .exit == exited(0));
    struct stat info {};
    REQUIRE(::stat(file.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777U) == 0600U);
  }
}

TEST_CASE("the status file tells of a conflict") {
  Database database;
  const TempDir directory;
  const std::string file = directory.file("status.json");
  take(database);
  CHECK(run_true(database, "k", {"--status-file", file}) == exited(75));
  CHECK(status_of(file).at("exit_code") == 75);
  CHECK(status_of(file).at("outcome") == "held");
  CHECK(status_of(file).at("owner").is_null());
}

TEST_CASE("the status file names no owner when the database cannot be reached") {
  const TempDir directory;
  const std::string file = directory.file("status.json");
  const std::string nowhere = "mysql://root@localhost/d?socket=" + directory.file("nobody");
  CHECK(dblock_at(nowhere, run_words("k", {"--status-file", file}, {"true"})).exit == exited(69));
  CHECK(status_of(file).at("exit_code") == 69);
  CHECK(status_of(file).at("owner").is_null());
}

TEST_CASE("the status file tells a killed job, one out of time, a wait cut short and a dead guardian apart",
          "[asan-server]") {
  Database database;
  const TempDir directory;
  const Words options{"-v", "--wait", "1h", "--status-file", directory.file("status")};
  const auto check_status = [&](const char* outcome, int code, const char* release) {
    const json status = status_of(directory.file("status"));
    INFO(status.dump());
    CHECK(status.at("outcome") == outcome);
    CHECK(status.at("exit_code") == code);
    CHECK(status.at("release") == release);
  };
  CHECK(dblock(database, run_words("k", options, sh("kill -KILL $$"))).exit == killed_by(SIGKILL));
  check_status("signalled", 137, "released");

  CHECK(dblock(database, run_words("k", with(options, {"--max-runtime", "100ms"}), {"sleep", "60"})).exit ==
        exited(124));
  check_status("timed_out", 124, "released");

  LiveRun run(database, options);
  ::kill(guardian_of(run), SIGKILL);
  CHECK(run.wait() == exited(70));
  check_status("error", 70, "released");

  take(database);
  Process waiter(dblock_spawn(database, run_words("k", options, {"true"})));
  REQUIRE(soon_says(waiter, "waiting"));
  waiter.signal(SIGTERM);
  CHECK(waiter.wait() == killed_by(SIGTERM));
  check_status("interrupted", 143, "none");
}

TEST_CASE("the status file replaces a symbolic link and does not follow it") {
  const Database database;
  const TempDir directory;
  write_file(directory.file("precious"), "untouched");
  std::filesystem::create_symlink(directory.file("precious"), directory.file("status"));
  const auto finished =
      dblock(database, run_words("k", {"--status-file", directory.file("status")}, {"true"}));
  INFO(finished.err);
  CHECK(finished.exit == exited(0));
  CHECK(read_file(directory.file("precious")) == "untouched");
  CHECK_FALSE(std::filesystem::is_symlink(directory.file("status")));
  CHECK(status_of(directory.file("status")).at("exit_code") == 0);
}

TEST_CASE("a status file never takes the place of a pipe, a device or what stands for a descriptor",
          "[asan-local]") {
  const Database database;
  const TempDir directory;
  const std::string pipe = directory.file("pipe");
  REQUIRE(run_program({.argv = {"/usr/bin/mkfifo", pipe}}).exit == exited(0));
  for (const std::string& path : {pipe, std::string("/dev/null"), std::string("/dev/stdout")}) {
    const auto finished = dblock(database, run_words("k", {"--status-file", path}, {"true"}));
    check_ended(finished, 78);
  }
  CHECK(std::filesystem::is_fifo(pipe));
  CHECK(std::filesystem::is_character_file("/dev/null"));
}

TEST_CASE("a status file that can no longer be written at the end is one warning, and changes no exit code") {
  const Database database;
  const TempDir directory;
  for (const int code : {0, 3}) {
    REQUIRE(std::filesystem::create_directory(directory.file("place")));
    const std::string file = directory.file("place") + "/status";
    const auto finished = dblock(
        database, run_words("k", {"--status-file", file},
                            sh("rmdir " + directory.file("place") + "; exit " + std::to_string(code))));
    INFO(finished.err);
    CHECK(finished.exit == exited(code));
    CHECK(lines(finished.err).size() == 1);
    CHECK(says(finished.err, "dblock: warning: cannot write the status file " + file + ": "));
    CHECK(says(finished.err, "; name a file in a directory this user may write to\n"));
  }
  CHECK(run_true(database) == exited(0));
}

TEST_CASE("a run that fails before it takes the lock replaces an older run's status file") {
  const Database database;
  const TempDir directory;
  const Words options{"--status-file", directory.file("status")};
  REQUIRE(run_true(database, "k", options) == exited(0));
  CHECK(dblock(database, run_words("k", options, {"no-such-program"})).exit == exited(127));
  CHECK(status_of(directory.file("status")).at("exit_code") == 127);
  CHECK(dblock_bare(run_words("k", options, {"true"}), {}).exit == exited(78));
  CHECK(status_of(directory.file("status")).at("exit_code") == 78);
}

TEST_CASE("a killed dblock leaves no temporary status file") {
  Database database;
  const TempDir directory;
  LiveRun process(database, {"--status-file", directory.file("status")}, sleeping_job);
  process.signal(SIGKILL);
  CHECK(soon_gone(process));
  CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("an unwritable status file is 78 before acquiring") {
  Database database;
  const TempDir directory;
  for (const std::string& file : {std::string("/nonexistent/status"), directory.path()}) {
    const auto finished =
        dblock(database, run_words("k", {"--status-file", file}, {"touch", directory.file("ran")}));
    check_ended(finished, 78);
  }
  CHECK_FALSE(std::filesystem::exists(directory.file("ran")));
  CHECK(database.rows() == 0);
}

TEST_CASE("a relative status file is relative to where dblock was started") {
  const Database database;
  const TempDir directory;
  auto spec = dblock_spawn(database, run_words("k", {"--status-file", "status"}, sh("cd /; true")));
  spec.cwd = directory.path();
  CHECK(run_program(spec).exit == exited(0));
  CHECK(status_of(directory.file("status")).at("exit_code") == 0);
}

TEST_CASE("the conflict exit code can be chosen and 0 is silent") {
  Database database;
  take(database);
  const auto chosen = dblock(database, run_words("k", {"-E", "9"}, {"true"}));
  check_ended(chosen, 9);
  const auto skipped = dblock(database, run_words("k", {"-E", "0"}, {"true"}));
  CHECK(skipped.exit == exited(0));
  CHECK(skipped.err.empty());
}

TEST_CASE("a run that skips with -E 0 says nothing of a password that others may read, one that runs does",
          "[server]") {
  ServerDatabase database;
  const TempDir directory;
  write_file(directory.file("pw"), "p", 0644);
  const std::string url =
      database.url(database.account("IDENTIFIED BY 'p'")) + "&password-file=" + directory.file("pw");
  const std::string owner = take(database);
  const auto skipped = dblock_at(url, run_words("k", {"-E", "0"}, {"true"}));
  CHECK(skipped.exit == exited(0));
  CHECK(skipped.err.empty());
  check_ended(dblock_at(url, run_words("k", {}, {"true"})), 75, {"others may read"});
  release_lease(database, owner);
  const auto ran = dblock_at(url, run_words("k", {"-E", "0"}, {"true"}));
  CHECK(ran.exit == exited(0));
  CHECK(says(ran.err, "others may read password file"));
}

TEST_CASE("max-runtime does not count the time spent waiting") {
  const Database database;
  const std::string owner = take(database);
  Process waiter = waiting_run(database, {"--wait", "60s", "--max-runtime", "2s"}, sh("exit 4"));
  pause_for(2s);  // all of what the job may take
  release_lease(database, owner);
  CHECK(waiter.wait() == exited(4));
}

TEST_CASE("with-parent ends the run when the process that started dblock ends", "[safety]") {
  Database database;
  const TempDir directory;
  // The shell starts dblock in the background and stays; killing it must stop the run.
  Process shell({.argv = sh(dblock_binary() + " run -v --with-parent --kill-grace 500ms --key k -- " +
                            job_binary() + " tree " + directory.file("up") + " & exec sleep 60"),
                 .env = {"DBLOCK_DB=" + database.url()}});
  await_file(shell, directory.file("up"));
  shell.signal(SIGKILL);
  CHECK(soon_gone(shell));
  CHECK(says(shell.err(), "the process that started dblock has ended; stopping the job"));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("without with-parent the run outlives the process that started dblock") {
  Database database;
  const TempDir directory;
  Process shell({.argv = sh(dblock_binary() + " run --ttl 6s --heartbeat 200ms --key k -- sh -c 'touch " +
                            directory.file("up") + "; sleep 60' & exec sleep 60"),
                 .env = {"DBLOCK_DB=" + database.url()}});
  await_file(shell, directory.file("up"));
  shell.signal(SIGKILL);
  shell.wait();
  // A run that ended with its parent would be over before its second renewal from now.
  for (int renewals = 0; renewals < 2; ++renewals) REQUIRE(soon_renewed(database));
  CHECK(database.has_holder("k"));
  CHECK(shell.tree().size() >= 3);
}

// Starts a job that leaves a child behind for `child_ms`, and returns how the run went and how long it took.
struct Left {
  Finished finished;
  milliseconds took{0};
  pid_t child = 0;
  bool alive_after = false;
};
constexpr long k_an_hour = 3'600'000;  // a run that awaited such a child would not end in time
Left leave_child(const Database& database, const Words& options, const std::string& habit, long child_ms) {
  const TempDir directory;
  Left left;
  const auto before = std::chrono::steady_clock::now();
  Process process(dblock_spawn(
      database,
      run_words("k", options, {job_binary(), habit, directory.file("pid"), std::to_string(child_ms)})));
  left.finished.exit = process.wait();
  left.took = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - before);
  left.finished.err = process.err();
  left.child = pid_in(directory.file("pid"));
  left.alive_after = alive(left.child);
  return left;
}

TEST_CASE("leftovers auto waits for those in the job's session, and renews the lease until they end",
          "[safety][asan-server]") {
  Database database;
  const TempDir directory;
  Process process(dblock_spawn(database, run_words("k", {"-v", "--ttl", "6s", "--heartbeat", "200ms"},
                                                   sh("echo $$ >" + directory.file("job") + "; (" +
                                                      until_told(directory) + ") & exit 3"))));
  await_file(process, directory.file("up"));
  const pid_t job = pid_in(directory.file("job"));
  REQUIRE(job > 0);
  REQUIRE(wait_until([&] { return !alive(job); }));
  for (int renewals = 0; renewals < 2; ++renewals) await_renewal(database);
  CHECK(soon_says(process, "the lock is kept until what the job left running has ended, too: sh ("));
  CHECK(soon_says(process,
                  "); --leftovers kill stops such processes, --leftovers leave does not wait for them"));
  CHECK(process.running());
  CHECK(run_true(database) == exited(75));
  write_file(directory.file("go"), "");
  CHECK(process.wait() == exited(3));
  CHECK(process.tree().empty());
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("leftovers auto leaves and names a daemon") {
  const Database database;
  const auto left = leave_child(database, {"-v"}, "daemon", k_an_hour);
  CHECK(left.finished.exit == exited(0));
  CHECK(left.alive_after);
  CHECK(says(left.finished.err, std::to_string(left.child)));
}

TEST_CASE("leftovers wait waits for daemons too", "[safety]") {
  const Database database;
  const auto left = leave_child(database, {"--leftovers", "wait"}, "daemon", 700);
  CHECK(left.took >= 700ms);
  CHECK_FALSE(left.alive_after);
}

TEST_CASE("leftovers kill stops them all", "[safety]") {
  const Database database;
  for (const char* habit : {"child", "daemon"}) {
    const auto left = leave_child(database, {"--leftovers", "kill", "--kill-grace", "1s"}, habit, k_an_hour);
    CHECK(left.finished.exit == exited(0));
    CHECK_FALSE(left.alive_after);
  }
}

TEST_CASE("leftovers leave leaves them all") {
  const Database database;
  for (const char* habit : {"child", "daemon"}) {
    const auto left = leave_child(database, {"--leftovers", "leave"}, habit, k_an_hour);
    CHECK(left.finished.exit == exited(0));
    CHECK(left.alive_after);
  }
}

TEST_CASE("after a stop by dblock nothing is left, whatever --leftovers says", "[safety]") {
  Database database;
  for (const char* leftovers : {"leave", "wait", "auto"}) {
    INFO(leftovers);
    const TempDir directory;
    LiveRun process(database, {"--leftovers", leftovers, "--kill-grace", "300ms"}, tree_job);
    process.signal(SIGTERM);
    CHECK(process.wait().signalled);
    CHECK(process.tree().empty());
    CHECK_FALSE(database.has_holder("k"));
  }
  const TempDir directory;
  Process late(dblock_spawn(
      database, run_words("k", {"--leftovers", "leave", "--kill-grace", "300ms", "--max-runtime", "500ms"},
                          tree_job(directory))));
  CHECK(late.wait() == exited(124));
  CHECK(late.tree().empty());
}

TEST_CASE("one warning tells of a slow release", "[server]") {
  const ServerDatabase database;
  Proxy proxy(database.server());
  LiveRun process(proxy.url(database.name()), {"--warn-after", "1s"});
  proxy.delay(1100ms);
  CHECK(process.end(0, 60s * slowness()) == exited(0));
  INFO(process.err());
  CHECK(count_of(process.err(), "releasing lock \"k\" took") == 1);
}

TEST_CASE("one warning tells of a slow acquisition", "[server]") {
  const ServerDatabase database;
  Proxy proxy(database.server());
  proxy.delay(150ms);
  const auto run = [&](const std::string& limit) {
    return dblock_at(proxy.url(database.name()), run_words("k", {"--warn-after", limit}, {"true"}));
  };
  const auto finished = run("200ms");
  INFO(finished.err);
  CHECK(finished.exit == exited(0));
  CHECK(count_of(finished.err, "acquir") == 1);
  CHECK(run("30s").err.empty());
}

TEST_CASE("options of run can come from the environment, and the command line has the last word") {
  Database database;
  const auto finished = dblock(database, run_words("k", {}, sh("sleep 20")),
                               {"DBLOCK_MAX_RUNTIME=200ms", "DBLOCK_NOTE=from env"});
  CHECK(finished.exit == exited(124));
  take(database, "held");
  CHECK(dblock(database, run_words("held", {}, {"true"}), {"DBLOCK_CONFLICT_EXIT_CODE=33"}).exit ==
        exited(33));
  CHECK(dblock(database, run_words("held", {"-E", "34"}, {"true"}), {"DBLOCK_CONFLICT_EXIT_CODE=33"}).exit ==
        exited(34));
}

}  // namespace
}  // namespace dblock::test
