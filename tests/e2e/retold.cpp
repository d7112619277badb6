// What the tests of other projects claim of their locks, told again of dblock. Each case names its source,
// and has no code of it. tests/retold.txt lists every claim, also those that other cases prove.
#include <deque>
#include <filesystem>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

// flock(1) by dblock, as dblock-cookbook(7) says where the two differ: flock waits for ever unless it is told
// otherwise, its times have no unit, and it ends with 1 where the lock is held.
constexpr const char* k_flock = R"(flock() {
  mode=--exclusive wait=forever held=1
  while :; do
    case $1 in
    -s | --shared) mode=--shared ;;
    -x | -e | --exclusive) mode=--exclusive ;;
    -n | --nonblock) wait=0 ;;
    -w | --timeout) wait=${2}s; shift ;;
    -E | --conflict-exit-code) held=$2; shift ;;
    -F | --no-fork) ;; # the lock is dblock's: it cannot make way for the command
    *) break ;;
    esac
    shift
  done
  file=$1
  shift
  [ "$1" = -c ] || set -- -- "$@"
  dblock run --key "$file" $mode --wait "$wait" -E "$held" "$@"
}
)";

class FlockScripts {
 public:
  [[nodiscard]] Spawn spawn(const std::string& options, const std::string& command) const {
    return script_spawn(database.url(), k_flock + ("flock " + options + " " + lockfile + " " + command));
  }
  [[nodiscard]] Finished run(const std::string& options, const std::string& command) const {
    return run_program(spawn(options, command));
  }
  // The command is not run, and this is the exit code.
  void check_refused(const std::string& options, int code, const CallSite& site = CallSite::current()) const {
    const auto finished = run(options, "echo run");
    INFO(at_line(site) << finished.err);
    CHECK(finished.exit == exited(code));
    CHECK(finished.out.empty());
  }

  Database database;
  TempDir directory;
  std::string lockfile = directory.file("lockfile");
};

// util-linux, tests/ts/misc/flock: non-block, no-fork, shared, exclusive, timeout, time-check;
// discoteq/flock, t/default.bats: -s and -n beside a shared lock, -w with a lock that is released, and with
// one that is not.
TEST_CASE("beside readers a script for flock is refused, joins them or waits as it does under flock",
          "[once]") {
  const FlockScripts scripts;
  const std::string log = scripts.directory.file("log");
  const std::string patient = quoted(patient_job(scripts.directory));
  Process reader(scripts.spawn("--shared", "-c \"" + patient + " && echo held >>" + log + "\""));
  await_file(reader, scripts.directory.file("up"));

  scripts.check_refused("--nonblock --conflict-exit-code 123", 123);
  scripts.check_refused("--no-fork --nonblock --conflict-exit-code 123", 123);
  scripts.check_refused("--nonblock --exclusive --conflict-exit-code 123", 123);
  scripts.check_refused("-n", 1);
  scripts.check_refused("-w 0.05", 1);
  scripts.check_refused("-w 0.0", 1);
  scripts.check_refused("-w -1", 64);
  const auto beside = scripts.run("--shared", "echo 'Have shared lock'");
  INFO(beside.err);
  CHECK(beside.exit == exited(0));
  CHECK(beside.out == "Have shared lock\n");

  Process waiter(scripts.spawn("--timeout 600 --conflict-exit-code 5", "-c 'echo waited >>" + log + "'"));
  REQUIRE(soon_in_line(scripts.database, 1, scripts.lockfile));
  let_end(scripts.directory);
  CHECK(reader.wait() == exited(0));
  CHECK(waiter.wait() == exited(0));
  CHECK(lines(read_file(log)) == Words{"held", "waited"});
}

// discoteq/flock, t/default.bats: exclusive locks beside an exclusive one, and -n where nobody has the lock.
TEST_CASE("beside a writer a script for flock is refused, and afterwards it runs and ends as its command",
          "[once]") {
  const FlockScripts scripts;
  const std::string owner = take(scripts.database, scripts.lockfile);
  scripts.check_refused("-n", 1);
  scripts.check_refused("-x -n -E 0", 0);
  scripts.check_refused("-s -n", 1);
  release_lease(scripts.database, owner, scripts.lockfile);
  CHECK(scripts.run("-n", "echo run").out == "run\n");
  CHECK(scripts.run("", "-c 'exit 3'").exit == exited(3));
  CHECK_FALSE(std::filesystem::exists(scripts.lockfile));
}

// ShedLock, AbstractLockProviderIntegrationTest: shouldBeAbleToLockRightAfterUnlock; symfony/lock,
// AbstractStoreTestCase: testSaveWithDifferentKeysOnSameResources.
TEST_CASE("a lock is free at once after its release, ten times over, and a refusal in between changes no row",
          "[once]") {
  const Database database;
  for (int i = 0; i < 10; ++i) {
    const std::string owner = take(database);
    const std::string row = database.row("k");
    CHECK(dblock(database, {"acquire", "--key", "k", "--ttl", "60s"}).exit == exited(75));
    CHECK(database.row("k") == row);
    release_lease(database, owner);
  }
}

// ShedLock, FuzzTester: eight threads, of which one has less to do, add to two numbers; buildkite/agent,
// lock_test.go: TestLocker; Redisson, RedissonFairLockTest: testConcurrencyLoop_MultiInstance. A renewal
// comes in between.
TEST_CASE("scripts that add to two numbers, each under its own lock, lose no addition", "[safety][once]") {
  const Database database;
  const TempDir directory;
  const auto adds = [&](const std::string& key, int times) {
    write_file(directory.file(key), "0\n");
    const std::string lease = " --key " + key + " --owner \"$owner\" || exit; ";
    Spawn script = script_spawn(
        database.url(), "i=0; while [ $i -lt " + std::to_string(times) + " ]; do i=$((i + 1)); " +
                            "owner=$(dblock acquire --key " + key + " --ttl 60s --wait 10m) || exit; " +
                            "read number <" + key + "; dblock renew" + lease + "echo $((number + 1)) >" +
                            key + "; dblock release" + lease + "done");
    script.cwd = directory.path();
    return script;
  };
  std::vector<Spawn> scripts;
  for (int i = 0; i < 8; ++i) scripts.push_back(adds(i % 2 == 0 ? "even" : "odd", i == 0 ? 1 : 3));
  std::vector<Process> running;
  for (const auto& script : scripts) running.emplace_back(script);
  check_all_succeed(running, 120s * slowness());
  CHECK(lines(read_file(directory.file("even"))) == Words{"10"});
  CHECK(lines(read_file(directory.file("odd"))) == Words{"12"});
}

// Redisson, RedissonFairLockTest: testTryLockNonDelayed; etcd, v3_lock_test.go: testMutexTryLock.
TEST_CASE("a waiter that has given up holds up nobody who asks without a wait", "[once]") {
  const Database database;
  LiveRun holder(database);
  check_ended(dblock(database, run_words("k", {"--wait", "200ms"}, {"true"})), 75);
  check_ended(dblock(database, run_words("k", {"-n"}, {"true"})), 75);
  CHECK(holder.end() == exited(0));
  CHECK(run_true(database, "k", {"-n"}) == exited(0));
}

// Redisson, RedissonReadWriteLockTest: testWriteRead.
TEST_CASE("readers that wait behind a writer all have the lock together when the writer has ended",
          "[once]") {
  const Database database;
  LiveRun writer(database);
  std::deque<Process> readers;
  std::vector<TempDir> directories(8);
  for (const auto& directory : directories)
    readers.push_back(waiting_run(database, {"--shared", "--wait", "10m"}, patient_job(directory)));
  CHECK(writer.end() == exited(0));
  for (std::size_t i = 0; i < readers.size(); ++i) await_file(readers[i], directories[i].file("up"));
  CHECK(run_true(database) == exited(75));
  for (const auto& directory : directories) let_end(directory);
  for (auto& reader : readers) CHECK(reader.wait() == exited(0));
}

// buildkite/agent, lock_test.go: TestDoOnce.
TEST_CASE("of ten runs at once that want a job done once one does it, and all of them succeed", "[once]") {
  const Database database;
  const TempDir directory;
  std::vector<Process> runs;
  for (int i = 0; i < 10; ++i)
    runs.emplace_back(dblock_spawn(database, run_words("k", {"--once-per", "1h", "--wait", "10m"},
                                                       sh("echo done >>" + directory.file("log")))));
  check_all_succeed(runs, 60s * slowness());
  CHECK(lines(read_file(directory.file("log"))) == Words{"done"});
}

// GNU parallel, sem01.sh: two jobs at a time, and the example of sem(1), whose five jobs take 5, 1, 2, 3 and
// 4 seconds.
TEST_CASE("of five jobs that want two slots each begins when one before it has ended, and none sooner",
          "[once]") {
  const Database database;
  const TempDir directory;
  const std::vector<TempDir> own(6);  // each job's, by its number
  const auto job = [&](std::size_t number) {
    const std::string note = "echo " + std::to_string(number) + " >>" + directory.path();
    return sh(note + "/begun;" + quoted(patient_job(own[number])) + " && " + note + "/ended");
  };
  const auto begun = [&] { return lines(read_file(directory.file("begun"))); };
  std::deque<Process> jobs;
  for (const std::size_t number : {5U, 1U}) {
    jobs.emplace_back(dblock_spawn(database, run_words("k", {"--slots", "2"}, job(number))));
    await_file(jobs.back(), own[number].file("up"));
  }
  for (const std::size_t number : {2U, 3U, 4U})
    jobs.push_back(waiting_run(database, {"--slots", "2", "--wait", "10m"}, job(number)));
  for (const std::size_t number : {1U, 2U, 3U}) {
    CHECK(begun().size() == number + 1);
    let_end(own[number]);
    await_file(jobs.back(), own[number + 1].file("up"));
  }
  let_end(own[4]);
  CHECK(jobs.back().wait() == exited(0));
  let_end(own[5]);
  for (auto& run : jobs) CHECK(run.wait() == exited(0));
  CHECK(begun() == Words{"5", "1", "2", "3", "4"});
  CHECK(lines(read_file(directory.file("ended"))) == Words{"1", "2", "3", "4", "5"});
}

// etcd, ctl_v3_lock_test.go: testLock; v3_lock_test.go: TestMutexWaitsOnCurrentHolder.
TEST_CASE("INT ends the first waiter and then the holder, and the second waiter runs under a greater token",
          "[once]") {
  const Database database;
  const TempDir directory;
  LiveRun holder(database);
  const auto first_token = std::stoull(database.column("k", "token"));
  Process blocked = waiting_run(database, {"--wait", "10m"}, {"touch", directory.file("blocked")});
  Process next =
      waiting_run(database, {"--wait", "10m"}, sh("echo $DBLOCK_TOKEN >" + directory.file("token")));
  blocked.signal(SIGINT);
  CHECK(blocked.wait() == killed_by(SIGINT));
  REQUIRE(soon_in_line(database, 1));
  CHECK(next.running());
  CHECK(holder.running());
  holder.signal(SIGINT);
  CHECK(holder.wait() == killed_by(SIGINT));
  CHECK(next.wait() == exited(0));
  CHECK(std::stoull("0" + read_file(directory.file("token"))) > first_token);
  CHECK_FALSE(std::filesystem::exists(directory.file("blocked")));
}

}  // namespace
}  // namespace dblock::test
