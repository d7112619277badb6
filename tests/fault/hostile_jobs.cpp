// Jobs that turn against those who look after them, and how soon a lock is free when dblock alone is killed.
#include <algorithm>
#include <chrono>
#include <iostream>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

using std::chrono::steady_clock;

// Shell: children in the job's session and out of it, one of them deaf to TERM; then the file `up`.
std::string with_children(const TempDir& directory, int children = 1) {
  return "for i in $(seq " + std::to_string(children) +
         "); do sleep 600 & setsid sh -c 'trap \"\" TERM; sleep 600' & done; : >" + directory.file("up") +
         "; ";
}

const std::string k_guardian = "$PPID";
const std::string k_dblock = "$(awk '/^PPid/ {print $2}' /proc/$PPID/status)";

// What is left is dblock itself, or nothing.
bool only_dblock_is_left(const Process& process) {
  const auto tree = process.tree();
  return std::all_of(tree.begin(), tree.end(), [&](pid_t pid) { return pid == process.pid(); });
}

TEST_CASE("a job that kills its guardian is killed with all it started, and the lock is free",
          "[safety][asan-server]") {
  Database database;
  const TempDir directory;
  Process process(dblock_spawn(
      database, run_words("k", {"--ttl", "60s"},
                          sh(with_children(directory) + "kill -9 " + k_guardian + "; sleep 600"))));
  CHECK(wait_until([&] { return only_dblock_is_left(process); }));
  check_ends(process, 70);
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a job that kills dblock is killed with all it started, and the lock is free",
          "[safety][asan-local]") {
  Database database;
  const TempDir directory;
  Process process(dblock_spawn(
      database, run_words("k", {"--ttl", "60s"},
                          sh(with_children(directory) + "kill -9 " + k_dblock + "; sleep 600"))));
  CHECK(process.wait() == killed_by(SIGKILL));
  CHECK(soon_gone(process));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a job that kills dblock and guardian dies, and the lock stays until the lease and its margin end",
          "[safety]") {
  Database database;
  // Both are frozen first: between the two deaths the one that lives on would do its duty.
  const std::string processes = k_dblock + " " + k_guardian;
  const std::string both = "set " + processes + "; kill -STOP $1 $2; kill -9 $1 $2";
  LiveRun process(database, {"--ttl", "3s", "--margin", "1s"}, [&](const TempDir& directory) {
    return sh(": >" + directory.file("up") + "; sleep 0.3; " + both + "; sleep 600");
  });
  CHECK(process.wait() == killed_by(SIGKILL));
  const long long expires = database.expires_micros("k");
  REQUIRE(expires > 0);
  const auto next = dblock(database, run_words("k", {"--wait", "60s"}, {"true"}));
  INFO(next.err);
  CHECK(next.exit == exited(0));
  CHECK(database.micros("k", "last_acquired_at") >= expires + 1'000'000);
}

TEST_CASE("a job of two hundred processes is dead before its lease ends", "[safety]") {
  Database database;
  // A twentieth of the TTL is left for the death of all of them, which takes a busy machine some time.
  LiveRun process(database, {"--ttl", "14s", "--kill-grace", "300ms", "--heartbeat", "400ms"},
                  [](const TempDir& directory) {
                    return sh(with_children(directory, 100) + "trap '' TERM; while :; do sleep 1; done");
                  });
  const pid_t guardian = guardian_of(process);
  process.freeze();
  const long long expires = database.expires_micros("k");
  const long long alive_at = last_seen_before([&] { return job_tree_dead(process, guardian); });
  CHECK(alive_at < expires);
  process.signal(SIGCONT);
  CHECK(process.wait() == exited(76));
}

// "A crash costs milliseconds": the figures are printed. A loaded machine adds to most of them, and a pause
// of dblock's own to all.
TEST_CASE("kill -9 of dblock alone frees the lock within moments") {
  Database database;
  std::vector<double> took;
  for (int i = 0; i < 20; ++i) {
    LiveRun process(database, {"--ttl", "1h"}, sleeping_job);
    const auto killed_at = steady_clock::now();
    process.signal(SIGKILL);
    REQUIRE(soon_free(database));
    took.push_back(std::chrono::duration<double, std::milli>(steady_clock::now() - killed_at).count());
    CHECK(soon_gone(process));
  }
  std::ranges::sort(took);
  std::cout << "from kill -9 of dblock to the free lock: median " << took[took.size() / 2] << " ms, most "
            << took.back() << " ms\n";
  CHECK(took.front() < 500.0 * slowness());
}

}  // namespace
}  // namespace dblock::test
