// The embedded store with many processes at once: exclusion, no busy store ever shown, and kill -9 at any
// moment.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/local_file.hpp"
#include "support/overlap.hpp"

namespace dblock::test {
namespace {

using Processes = std::vector<std::unique_ptr<Process>>;

// Programs that start at the same moment: each waits, ready to become dblock, until the pipe is opened.
class StartingGun {
 public:
  StartingGun() { REQUIRE(::mkfifo(pipe_.c_str(), 0600) == 0); }
  ~StartingGun() { ::close(fd_); }
  StartingGun(const StartingGun&) = delete;
  StartingGun& operator=(const StartingGun&) = delete;
  [[nodiscard]] Spawn behind(Spawn spec) const {
    spec.argv.insert(spec.argv.begin(), {"/bin/sh", "-c", ": <\"$0\"; exec \"$@\"", pipe_});
    return spec;
  }
  void fire() { REQUIRE((fd_ = ::open(pipe_.c_str(), O_WRONLY | O_CLOEXEC)) >= 0); }

 private:
  TempDir directory_;
  std::string pipe_ = directory_.file("gun");
  int fd_ = -1;
};

void check_not_busy(const std::string& err) {
  INFO(err);
  std::string lower = err;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* word : {"busy", "locked", "sqlite_"}) CHECK_FALSE(says(lower, word));
}

TEST_CASE("twenty rounds of sixteen racers that do not wait: one job at a time", "[local][safety]") {
  const Database database;
  const TempDir directory;
  const std::string log = directory.file("log");
  for (int round = 0; round < 20; ++round) {
    StartingGun gun;
    std::vector<Process> racers;
    for (int i = 0; i < 16; ++i)
      racers.emplace_back(
          gun.behind(dblock_spawn(database, run_words("race", {"-n"}, interval_job(log, 30)))));
    gun.fire();
    int won = 0;
    for (auto& racer : racers) {
      const Exit exit = racer.wait();
      check_not_busy(racer.err());
      CHECK((exit == exited(0) || exit == exited(75)));
      won += exit == exited(0) ? 1 : 0;
    }
    CHECK(won >= 1);
  }
  CHECK(exclusion_violation(read_intervals(log)).empty());
}

TEST_CASE("two hundred processes on five keys all get their turn and see no busy store",
          "[local][storm][safety]") {
  const Database database;
  const TempDir directory;
  constexpr int k_keys = 5;
  const auto log = [&](int key) { return directory.file("log" + std::to_string(key)); };
  std::vector<Process> crowd;
  for (int i = 0; i < 200; ++i) {
    const int key = i % k_keys;
    crowd.emplace_back(dblock_spawn(
        database, run_words("key" + std::to_string(key), {"--wait", "60s"}, interval_job(log(key), 5))));
  }
  for (auto& one : crowd) {
    const Exit exit = one.wait(90s * slowness());
    CHECK(exit == exited(0));
    CHECK(one.err().empty());
    check_not_busy(one.err());
  }
  for (int key = 0; key < k_keys; ++key) {
    const auto intervals = read_intervals(log(key));
    CHECK(intervals.size() == 200 / k_keys);
    CHECK(exclusion_violation(intervals).empty());
  }
}

TEST_CASE("a crowd that makes the store together makes one", "[local][safety]") {
  for (int round = 0; round < 5; ++round) {
    const Database database(Database::Schema::none);
    const TempDir directory;
    StartingGun gun;
    std::vector<Process> crowd;
    for (int i = 0; i < 16; ++i)
      crowd.emplace_back(gun.behind(
          dblock_spawn(database, run_words("k", {"--wait", "60s"}, interval_job(directory.file("log"), 1)))));
    gun.fire();
    for (auto& one : crowd) {
      const Exit exit = one.wait(60s * slowness());
      INFO(one.err());
      CHECK(exit == exited(0));
      CHECK(one.err().empty());
    }
    const auto intervals = read_intervals(directory.file("log"));
    CHECK(intervals.size() == 16);
    CHECK(exclusion_violation(intervals).empty());
  }
}

TEST_CASE("a storm of kill -9 leaves a sound store whose tokens rise", "[local][storm][safety]") {
  const Database database;
  const TempDir directory;
  const std::string log = directory.file("log");
  const auto seed = chosen_seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto spawn = [&] {
    switch (random() % 8) {
      case 0:
        return dblock_spawn(database, {"reap"});
      case 1:
        return dblock_spawn(database,
                            {"acquire", "--key", "s" + std::to_string(random() % 9), "--ttl", "1s"});
      default:
        return dblock_spawn(database, run_words("k", {"--wait", "60s", "--ttl", "2s", "--heartbeat", "50ms"},
                                                interval_job(log, static_cast<int>(random() % 20))));
    }
  };
  Processes storm, ended;
  int killed = 0;
  // The more, the better; how many there are is the machine's affair.
  const auto end = std::chrono::steady_clock::now() + 15s * slowness();
  while (killed < 200 && std::chrono::steady_clock::now() < end) {
    // The dead make room; their guardians stop what they have left behind, undisturbed.
    const auto dead =
        std::partition(storm.begin(), storm.end(), [](const auto& one) { return one->running(); });
    ended.insert(ended.end(), std::make_move_iterator(dead), std::make_move_iterator(storm.end()));
    storm.erase(dead, storm.end());
    while (storm.size() < 12) storm.push_back(std::make_unique<Process>(spawn()));
    pause_for(milliseconds(random() % 15));
    Process& victim = *storm[random() % storm.size()];
    if (!victim.running()) continue;
    const auto guardians = children_of(victim.pid());
    const bool guardian = !guardians.empty() && random() % 4 == 0;
    ::kill(guardian ? guardians.front() : victim.pid(), SIGKILL);
    ++killed;
  }
  CHECK(killed >= 10);
  for (const auto& one : storm) (void)one->wait(60s * slowness());
  for (const auto& all : {&storm, &ended}) {
    for (const auto& one : *all) CHECK(soon_gone(*one));
  }
  CHECK(sqlite_value(file_of(database), "PRAGMA integrity_check") == "ok");
  for (int i = 0; i < 3; ++i)
    CHECK(dblock(database, run_words("k", {"--wait", "30s"}, interval_job(log, 1))).exit == exited(0));
  const auto intervals = read_intervals(log);
  CHECK(intervals.size() > 10);
  CHECK(exclusion_violation_despite_kills(intervals).empty());
}

TEST_CASE("kill -9 while the store is being made leaves one that opens", "[local]") {
  std::mt19937 random(chosen_seed());
  for (int round = 0; round < 30; ++round) {
    const Database database(Database::Schema::none);
    std::vector<Process> makers;
    for (int i = 0; i < 3; ++i)
      makers.emplace_back(dblock_spawn(database, run_words("k", {"--wait", "60s"}, {"true"})));
    for (auto& maker : makers) {
      pause_for(milliseconds(random() % 4));
      maker.signal(SIGKILL);
    }
    for (auto& maker : makers) CHECK(soon_gone(maker));
    const auto after = dblock(database, run_words("k", {"--wait", "60s"}, {"true"}));
    INFO(after.err);
    CHECK(after.exit == exited(0));
    CHECK(sqlite_value(file_of(database), "PRAGMA integrity_check") == "ok");
  }
}

}  // namespace
}  // namespace dblock::test
