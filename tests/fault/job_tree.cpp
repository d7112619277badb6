// Which processes are the job's, and when they are dead: whatever they do to their threads, parents and
// sessions, and whatever /proc shows of them.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/privilege.hpp"

namespace dblock::test {
namespace {

// Nobody holds the kernel's lock on the file any more: all who had opened it have died.
bool all_dead(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  const bool dead = fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  ::close(fd);
  return dead;
}

Words headless(const TempDir& directory) {
  return {job_binary(), "headless", directory.file("alive")};
}

bool is_ready(const TempDir& directory) {
  return says(read_file(directory.file("alive")), "ready");
}

TEST_CASE("a job whose first thread has ended is killed before the lock is free", "[safety][asan-local]") {
  Database database;
  const TempDir directory;
  Process process(dblock_spawn(database, run_words("k", {"--ttl", "60s"}, headless(directory))));
  REQUIRE(wait_until([&] { return is_ready(directory); }));
  process.signal(SIGKILL);
  CHECK(soon_free(database));
  CHECK(all_dead(directory.file("alive")));
}

TEST_CASE("a job whose first thread has ended is killed at the end of its time", "[safety]") {
  const Database database;
  const TempDir directory;
  const auto ended =
      dblock(database, run_words("k", {"--max-runtime", "1s", "--kill-grace", "200ms"}, headless(directory)));
  INFO(ended.err);
  CHECK(ended.exit == exited(124));
  CHECK(is_ready(directory));
  CHECK(all_dead(directory.file("alive")));
}

TEST_CASE("a job whose first thread has ended is killed before its lease ends while dblock is frozen",
          "[safety]") {
  Database database;
  const TempDir directory;
  Process process(
      dblock_spawn(database, run_words("k", {"--ttl", "2s", "--kill-grace", "200ms"}, headless(directory))));
  REQUIRE(wait_until([&] { return is_ready(directory); }));
  process.freeze();
  const long long alive_at = last_seen_before([&] { return all_dead(directory.file("alive")); });
  CHECK(alive_at < database.expires_micros("k"));
  process.signal(SIGCONT);
  CHECK(process.wait() == exited(76));
}

TEST_CASE("a leftover whose first thread has ended keeps the lock until it is gone", "[safety]") {
  Database database;
  const TempDir directory;
  Process process(dblock_spawn(
      database, run_words("k", {}, sh(job_binary() + " headless " + directory.file("alive") + " & exit"))));
  REQUIRE(wait_until([&] { return is_ready(directory); }));
  CHECK_FALSE(wait_until([&] { return !process.running(); }, milliseconds{300}));
  CHECK(database.has_holder("k"));
  process.signal(SIGTERM);
  CHECK(process.wait() == exited(0));  // the job itself has ended well
  CHECK(all_dead(directory.file("alive")));
}

// Each generation ends while dblock looks who is left.
TEST_CASE("the lock is kept while leftovers of the session hand over to their children", "[safety]") {
  const Database database;
  const std::string script =
      GENERATE(as<std::string>{}, "sh -c 'sleep 0.2 & exit' & exit",
               "sh -c 'sh -c \"sh -c \\\"sleep 0.2 & exit\\\" & exit\" & exit' & exit",
               "relay() { [ $1 = 0 ] || { sleep 0.02; relay $(($1 - 1)) & }; }; relay 10 & exit");
  CAPTURE(script);
  int early = 0;
  for (int i = 0; i < 15; ++i) {
    const TempDir directory;
    const std::string held = "exec 9>" + directory.file("alive") + "; flock 9; ";
    const auto ended = dblock(database, run_words("k", {}, sh(held + script)));
    CHECK(ended.exit == exited(0));
    if (!all_dead(directory.file("alive"))) ++early;
  }
  CHECK(early == 0);
}

TEST_CASE("no job is started where /proc is missing or another PID namespace's", "[safety]") {
  DBLOCK_NEEDS(why_no_mount_namespace());
  const Database database;
  const TempDir directory;
  const Words run = run_words("k", {}, {"touch", directory.file("ran")});
  for (const std::string& surroundings :
       {std::string("unshare --pid --fork --kill-child"), std::string("umount -l /proc; exec")}) {
    // A sanitizer's search for leaks needs /proc, too, and has its own exit code where it cannot run.
    const auto ended = in_mount_namespace(surroundings + quoted(dblock_words(run)),
                                          {"DBLOCK_DB=" + database.url(), "ASAN_OPTIONS=detect_leaks=0"});
    INFO(surroundings << ": " << ended.err);
    CHECK(ended.exit == exited(78));
    CHECK(says(ended.err, "mount -t proc"));
    CHECK(read_file(directory.file("ran")).empty());
    CHECK_FALSE(std::filesystem::exists(directory.file("ran")));
  }
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a job that /proc hides from its user is killed all the same", "[safety]") {
  DBLOCK_NEEDS(why_no_other_user());
  DBLOCK_NEEDS(why_no_mount_namespace());
  const UsersHome home;
  const auto user = std::to_string(home.user());
  const std::string script = "mount -o remount,hidepid=2 /proc && cd " + home.path() +
                             " && exec setpriv --reuid " + user + " --regid " + user + " --clear-groups";
  const Spawn spawn = home.spawn(run_words("k", {"--local", "--max-runtime", "1s", "--kill-grace", "200ms"},
                                           sh(job_binary() + " hidden alive & wait")));
  const auto ended = in_mount_namespace(script + quoted(spawn.argv), spawn.env);
  INFO(ended.err);
  CHECK(ended.exit == exited(124));
  CHECK(says(read_file(home.file("alive")), "ready"));
  CHECK(all_dead(home.file("alive")));
}

TEST_CASE("the job ends with its guardian, though no descriptor is to be had for looking at it", "[safety]") {
  const Database database;
  const TempDir directory;
  const std::string script = "exec 9>" + directory.file("alive") +
                             "; flock 9; (sleep 600; :) & setsid sh -c 'sleep 600; :' & echo ready >&9; wait";
  Spawn spec = dblock_spawn(database, run_words("k", {"--ttl", "60s"}, sh(script)));
  // A sanitizer's search for leaks needs descriptors, too.
  spec.argv.insert(spec.argv.begin(), {"/usr/bin/env", "ASAN_OPTIONS=detect_leaks=0"});
  Process process(spec);
  REQUIRE(wait_until([&] { return is_ready(directory); }));
  const pid_t guardian = guardian_of(process);
  const rlimit none{0, 0};
  REQUIRE(::prlimit(process.pid(), RLIMIT_NOFILE, &none, nullptr) == 0);
  ::kill(guardian, SIGKILL);
  const Exit exit = process.wait();
  INFO(process.err());
  if (slowness() == 1) {
    CHECK(exit == exited(70));
  } else {  // a sanitizer reads an object's type through a pipe, and ends the process where it gets none
    CHECK(exit != exited(0));
  }
  CHECK(all_dead(directory.file("alive")));
}

// Processor time of all children that were waited for.
milliseconds spent_by_children() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  return milliseconds((usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
                      (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000);
}

// How many processes sleep on the host beside a run. Where each search looked at all of them once, four
// thousand showed it, and a thousand did not.
int crowd_size() {
  const char* const told = std::getenv("DBLOCK_TEST_CROWD");
  return told != nullptr ? std::stoi(told) : 1000;
}

// A run that waits for the process which its job leaves in its session.
void run_with_leftover(const Database& database) {
  CHECK(dblock(database, run_words("k", {}, sh("sleep 1 & exit"))).exit == exited(0));
}

// A run that kills the daemon which its job leaves: how long it took.
std::chrono::nanoseconds run_with_daemon(const Database& database) {
  const TempDir directory;
  const Words job{job_binary(), "daemon", directory.file("daemon"), "3600000"};
  const auto begun = std::chrono::steady_clock::now();
  Process run(dblock_spawn(database, run_words("k", {"--leftovers", "kill"}, job)));
  const Exit exit = run.wait();
  const auto took = std::chrono::steady_clock::now() - begun;
  INFO(run.err());
  CHECK(exit == exited(0));
  const pid_t daemon = pid_in(directory.file("daemon"));
  CHECK(daemon > 0);
  CHECK_FALSE(alive(daemon));
  CHECK_FALSE(database.has_holder("k"));
  return took;
}

// By the processor's time, and how long the quickest of the runs took that kill a daemon.
struct Cost {
  milliseconds waiting, killing, quickest;
};

// The job's processes are looked for while leftovers live, and in each stop.
Cost cost_of_runs(const Database& database) {
  const auto begin = spent_by_children();
  run_with_leftover(database);
  const auto waited = spent_by_children();
  const auto quickest = best_of_some(0ms, [&] { return run_with_daemon(database); });
  return {waited - begin, spent_by_children() - waited, std::chrono::duration_cast<milliseconds>(quickest)};
}

std::ostream& operator<<(std::ostream& out, const Cost& cost) {
  return out << cost.waiting.count() << " ms of the processor for a run that waits for a leftover, "
             << cost.killing.count() << " ms for five that kill a daemon, the quickest of which took "
             << cost.quickest.count() << " ms";
}

TEST_CASE("what looking for the job's processes costs does not grow with the host's", "[timing]") {
  const Database database;
  const Cost alone = cost_of_runs(database);
  const TempDir directory;
  Process strangers({.argv = {job_binary(), "crowd", directory.file("up"), std::to_string(crowd_size())}});
  await_file(strangers, directory.file("up"), 4 * patience() + 60ms * crowd_size());
  const Cost crowded = cost_of_runs(database);
  kill_tree(strangers.mark());
  std::cout << "alone: " << alone << "\nbeside " << crowd_size() << " processes: " << crowded << "\n";
  CHECK(crowded.waiting < 2 * alone.waiting + 50ms * slowness());
  CHECK(crowded.killing < 2 * alone.killing + 50ms * slowness());
}

TEST_CASE("what was there before dblock outlives the guardian's death, and the job does not", "[safety]") {
  Database database;
  const TempDir directory;
  Spawn spec = dblock_spawn(database, run_words("k", {"--ttl", "60s"},
                                                sh("sleep 600 & echo $! >" + directory.file("job") +
                                                   "; kill -9 $PPID; sleep 600")));
  spec.argv = sh("sleep 600 & echo $! >" + directory.file("helper") + "; exec" + quoted(spec.argv));
  Process process(spec);
  CHECK(process.wait() == exited(70));
  const pid_t helper = pid_in(directory.file("helper"));
  const pid_t job = pid_in(directory.file("job"));
  REQUIRE(helper > 0);
  REQUIRE(job > 0);
  CHECK(alive(helper));
  CHECK_FALSE(alive(job));
  CHECK_FALSE(database.has_holder("k"));
  ::kill(helper, SIGKILL);
}

}  // namespace
}  // namespace dblock::test
