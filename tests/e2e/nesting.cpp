// Runs inside the jobs of others that hold the same lock.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

std::string inner(const std::string& words) {
  return dblock_binary() + " run " + words;
}

Finished outer(const Database& database, const std::string& script, const Words& options = {}) {
  return dblock(database, run_words("a", options, sh(script)));
}

TEST_CASE("a run inside a run of the same key nests: same token, an owner id below, counted",
          "[safety][other-servers]") {
  Database database;
  const auto done = outer(database, "echo $DBLOCK_TOKEN $DBLOCK_OWNER; " +
                                        inner("-k a -- sh -c 'echo $DBLOCK_TOKEN $DBLOCK_OWNER; exit 3'"));
  INFO(done.err);
  CHECK(done.exit == exited(3));
  const auto said = lines(done.out);
  REQUIRE(said.size() == 2);
  CHECK(said[1].starts_with(said[0] + "/"));
  CHECK_FALSE(database.has_holder("a"));
}

TEST_CASE("the row counts the runs under one lease, and the lock stays the outer one's until its end",
          "[safety]") {
  Database database;
  const TempDir directory;
  Process process(dblock_spawn(
      database, run_words("a", {},
                          sh(inner("-k a -- sh -c '" + until_told(directory) + "'") + "; touch " +
                             directory.file("inner-done") + "; " + await_in_shell(directory.file("end"))))));
  await_file(process, directory.file("up"));
  CHECK(database.column("a", "lock_count") == "2");
  CHECK(run_true(database, "a") == exited(75));
  write_file(directory.file("go"), "");
  await_file(process, directory.file("inner-done"));
  CHECK(database.column("a", "lock_count") == "1");
  CHECK(run_true(database, "a") == exited(75));
  write_file(directory.file("end"), "");
  CHECK(process.wait() == exited(0));
  CHECK_FALSE(database.has_holder("a"));
}

TEST_CASE("a, then b, then a again") {
  Database database;
  const auto done = outer(database, inner("-k b -- " + dblock_binary() + " run -k a -- sh -c 'echo in'"));
  INFO(done.err);
  CHECK(done.exit == exited(0));
  CHECK(done.out == "in\n");
}

TEST_CASE("several keys nest in a run that holds them all", "[other-servers][asan-local]") {
  Database database;
  const auto done = outer(database, inner("-k b -k a -- echo in"), {"-k", "b"});
  INFO(done.err);
  CHECK(done.exit == exited(0));
  CHECK(done.out == "in\n");
  CHECK_FALSE(database.has_holder("a"));
  CHECK_FALSE(database.has_holder("b"));
}

TEST_CASE("readers nest in readers, and in an exclusive run") {
  Database database;
  CHECK(outer(database, inner("-k a -s -- true"), {"-s"}).exit == exited(0));
  CHECK(outer(database, inner("-k a -s -- true")).exit == exited(0));
  // The other way round is a wait for oneself.
  const auto refused = outer(database, inner("-k a --wait 60s -- true"), {"-s"});
  CHECK(refused.exit == exited(75));
  CHECK(says(refused.err, "part of a run that holds it"));
}

TEST_CASE("a run that may not nest conflicts at once, even when it would wait") {
  Database database;
  const auto refused = outer(database, inner("-k a --no-reentrant --wait 60s -- true"));
  INFO(refused.err);
  CHECK(refused.exit == exited(75));
  CHECK(says(refused.err, "part of a run that holds it"));
}

TEST_CASE("an ancestor whose variables were dropped is recognised, at once and even when waiting") {
  Database database;
  const auto refused = outer(
      database, "env -i PATH=$PATH DBLOCK_DB=" + database.url() + " " + inner("-k a --wait 60s -- true"));
  INFO(refused.err);
  CHECK(refused.exit == exited(75));
  CHECK(says(refused.err, "--preserve-env=DBLOCK_HELD"));
}

TEST_CASE("what DBLOCK_HELD says is not believed when the row says otherwise", "[safety][asan-server]") {
  Database database;
  const auto told = outer(database, "printf %s \"$DBLOCK_HELD\"");
  REQUIRE(told.exit == exited(0));
  REQUIRE(says(told.out, "a\t"));
  // The lease is over: the inner run takes the lock for itself.
  const auto alone =
      dblock(database, run_words("a", {}, sh("echo $DBLOCK_OWNER")), {"DBLOCK_HELD=" + told.out});
  CHECK(alone.exit == exited(0));
  CHECK_FALSE(says(alone.out, "/"));
  // Somebody else has it: a conflict like any other.
  LiveRun other(database, {}, patient_job, "a");
  CHECK(dblock(database, run_words("a", {}, {"true"}), {"DBLOCK_HELD=" + told.out}).exit == exited(75));
  CHECK(database.column("a", "lock_count") == "1");
  CHECK(other.end() == exited(0));
  for (const auto* const nonsense : {"", "x", "a\tb", "\t\t\t", "a\t/\tx\n\n"}) {
    CHECK(dblock(database, run_words("a", {}, {"true"}), {std::string("DBLOCK_HELD=") + nonsense}).exit ==
          exited(0));
  }
}

TEST_CASE("a slot is shared with runs that ask for the same number only, and its number is nobody else's") {
  Database database;
  const Words two{"--slots", "2"};
  const auto same = outer(database, inner("-k a --slots 2 -- sh -c 'echo slot $DBLOCK_SLOT'"), two);
  INFO(same.err);
  CHECK(same.exit == exited(0));
  CHECK(same.out == "slot 1\n");
  CHECK(outer(database, inner("-k a --slots 3 -- true"), two).exit == exited(64));
  CHECK(outer(database, inner("-k a --shared -- true"), two).exit == exited(64));
  CHECK(outer(database, inner("-k other -- sh -c 'echo [$DBLOCK_SLOT]'"), two).out == "[]\n");
}

TEST_CASE("a nested run keeps the promise about successes") {
  Database database;
  REQUIRE(outer(database, "true").exit == exited(0));
  const auto skipped = outer(database, inner("-k a --once-per 1h -- echo started"));
  CHECK(skipped.exit == exited(0));
  CHECK(skipped.out.empty());
}

TEST_CASE("of several keys any success counts for a nested run") {
  Database database;
  REQUIRE(run_true(database, "b") == exited(0));
  const auto skipped = outer(database, inner("-k a -k b --once-per 1h -- echo started"), {"-k", "b"});
  CHECK(skipped.exit == exited(0));
  CHECK(skipped.out.empty());
}

TEST_CASE("a writer that may not wait for its own ancestor keeps no readers away") {
  Database database;
  const auto done =
      outer(database, inner("-k a --wait 5s -- true") + "; " + inner("-k a -s -n --no-reentrant -- echo in"),
            {"-s"});
  INFO(done.err);
  CHECK(done.out == "in\n");
}

TEST_CASE("a script cannot end or extend a lease by a nested run's owner id", "[safety]") {
  Database database;
  for (const auto* const verb : {"release", "renew"}) {
    const auto refused = outer(database, inner(std::string("-k a -- ") + dblock_binary() + " " + verb));
    INFO(refused.err);
    CHECK(refused.exit == exited(64));
  }
  const auto below = take(database, "s") + "/0f";
  CHECK(dblock(database, {"release", "--key", "s", "--owner", below}).exit == exited(76));
  CHECK(dblock(database, {"renew", "--key", "s", "--owner", below}).exit == exited(76));
  CHECK(database.has_holder("s"));
}

// A shell script that starts a nested run in a session of its own, waits for its job and ends.
std::string leaves_nested_run(const std::string& options, const std::string& job, const TempDir& directory) {
  return "setsid " + inner("-k a " + options + " -- sh -c '" + job + "'") + " >&2 & " +
         await_in_shell(directory.file("up")) + "; exit 3";
}

TEST_CASE("nobody is granted the lock beside a nested run that outlives the job, and its end frees the lock",
          "[safety][other-servers][asan-local]") {
  Database database;
  const TempDir directory;
  const auto* const mode = GENERATE("--exclusive", "--shared", "--slots=1");
  CAPTURE(mode);
  Process process(dblock_spawn(
      database, run_words("a", {"-v", mode}, sh(leaves_nested_run(mode, until_told(directory), directory)))));
  await_file(process, directory.file("up"));
  REQUIRE(soon_says(process, "a nested run"));
  const auto beside = run_words("a", {mode == std::string("--shared") ? "-x" : mode}, {"true"});
  CHECK(dblock(database, beside).exit == exited(75));
  write_file(directory.file("go"), "");
  CHECK(process.wait(30s * slowness()) == exited(3));
  CHECK(dblock(database, beside).exit == exited(0));
}

TEST_CASE("a nested run that was killed with its guardian holds the lock no longer than its lease") {
  Database database;
  const TempDir directory;
  const std::string job = "touch " + directory.file("up") +
                          "; read -r pid name state parent rest </proc/$PPID/stat; kill -9 $PPID $parent";
  Process process(dblock_spawn(
      database, run_words("a", {"-v", "--ttl", "2s"}, sh(leaves_nested_run("--ttl 2s", job, directory)))));
  CHECK(process.wait(30s * slowness()) == exited(3));
  CHECK_FALSE(database.has_holder("a"));
}

TEST_CASE("a dblock that is killed while it waits for a nested run leaves the lock to that", "[safety]") {
  Database database;
  const TempDir directory;
  const auto* const mode = GENERATE("--exclusive", "--shared", "--slots=1");
  CAPTURE(mode);
  const auto job = leaves_nested_run("--ttl 3s " + std::string(mode), until_told(directory), directory);
  Process process(dblock_spawn(database, run_words("a", {"-v", "--ttl", "3s", mode}, sh(job))));
  REQUIRE(soon_says(process, "a nested run"));
  const pid_t guardian = guardian_of(process);
  process.signal(SIGKILL);
  CHECK(wait_until([&] { return !alive(guardian); }, 30s * slowness()));
  const auto beside = run_words("a", {mode == std::string("--shared") ? "-x" : mode}, {"true"});
  CHECK(dblock(database, beside).exit == exited(75));
  write_file(directory.file("go"), "");
  CHECK(run_true(database, "a", {"--wait", "40s"}) == exited(0));
}

// What has stopped nothing must not release as if it had.
TEST_CASE("a stop that is heard after the job has left a nested run behind leaves the lock to that",
          "[safety][asan-local]") {
  Database database;
  const TempDir directory;
  const std::string job = "setsid " + inner("-k a -- sh -c '" + until_told(directory) + "'") + " >&2 & " +
                          await_in_shell(directory.file("leave")) + "; exit 3";
  Process process(dblock_spawn(database, run_words("a", {"-v", "--leftovers", "leave"}, sh(job))));
  await_file(process, directory.file("up"));
  const pid_t guardian = guardian_of(process);
  const std::string job_in_proc = "/proc/" + std::to_string(job_of(process));
  process.freeze();
  write_file(directory.file("leave"), "");
  // Waited for, and asleep again: the guardian has left the nested run behind.
  REQUIRE(wait_until([&] {
    return !std::filesystem::exists(job_in_proc) &&
           says(read_file("/proc/" + std::to_string(guardian) + "/stat"), ") S ");
  }));
  process.signal(SIGTERM);
  process.signal(SIGCONT);
  CHECK(soon_says(process, "a nested run"));
  CHECK(run_true(database, "a") == exited(75));
  write_file(directory.file("go"), "");
  CHECK(process.wait(30s * slowness()) == exited(3));
  CHECK_FALSE(database.has_holder("a"));
}

TEST_CASE("a signal ends the wait for a nested run, which keeps the lock, and the status file names it",
          "[safety]") {
  Database database;
  const TempDir directory;
  Process process(
      dblock_spawn(database, run_words("a", {"-v", "--status-file", directory.file("status")},
                                       sh(leaves_nested_run("", until_told(directory), directory)))));
  REQUIRE(soon_says(process, "a nested run"));
  process.signal(SIGTERM);
  CHECK(process.wait(30s * slowness()) == exited(3));
  const auto stop = nlohmann::json::parse(read_file(directory.file("status"))).at("stop");
  CHECK(stop.at("reason") == "signal");
  CHECK(stop.at("signal") == "TERM");
  CHECK(run_true(database, "a") == exited(75));
  write_file(directory.file("go"), "");
}

TEST_CASE("an inner run whose outer lease is revoked is stopped with it", "[safety][asan-server]") {
  Database database;
  const TempDir directory;
  Process process(
      dblock_spawn(database, run_words("a", {"--heartbeat", "200ms", "--kill-grace", "500ms"},
                                       sh(inner("-k a --heartbeat 200ms --kill-grace 500ms -- sh -c '" +
                                                until_told(directory) + "'")))));
  await_file(process, directory.file("up"));
  revoke(database, "a");
  CHECK(process.wait(30s * slowness()) == exited(76));
  CHECK(process.tree().empty());
}

}  // namespace
}  // namespace dblock::test
