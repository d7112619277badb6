// Readers, writers and holders of slots racing for two locks while some of them are killed: the kernel's own
// file locks, which end with their processes, tell whether two jobs were ever together that may not be.
#include <random>
#include <set>
#include <thread>

#include "support/catch.hpp"
#include "support/dblock.hpp"

namespace dblock::test {
namespace {

constexpr int k_slots = 3;

class Race {
 public:
  enum class Part { reader, writer, slot };

  void start(Part part) {
    Words options{"--wait", "120s", "--ttl", "3s", "--heartbeat", "300ms", "--kill-grace", "300ms"};
    if (part == Part::reader) options.emplace_back("--shared");
    if (part == Part::slot) options.insert(options.end(), {"--slots", std::to_string(k_slots)});
    runs_.emplace_back(
        dblock_spawn(database_, run_words(part == Part::slot ? "slots" : "rw", options, sh(job(part)))));
  }

  [[nodiscard]] std::vector<Process>& runs() { return runs_; }
  [[nodiscard]] std::string violations() const { return read_file(directory_.file("violation")); }
  // Every token that a job was given, by key.
  [[nodiscard]] Words tokens() const { return lines(read_file(directory_.file("tokens"))); }
  [[nodiscard]] const Database& database() const { return database_; }

 private:
  // Holds a file lock as long as it lives, and notes it when it cannot have it at once.
  [[nodiscard]] std::string job(Part part) const {
    const std::string file = part == Part::slot ? "slot$DBLOCK_SLOT" : "rw";
    return "echo \"$DBLOCK_KEY $DBLOCK_TOKEN\" >>" + directory_.file("tokens") + "; flock -n " +
           (part == Part::reader ? "-s " : "-x ") + directory_.file(file) +
           " sleep 0.05 || echo $DBLOCK_KEY $DBLOCK_SLOT >>" + directory_.file("violation");
  }

  Database database_;
  TempDir directory_;
  std::vector<Process> runs_;
};

TEST_CASE("thirty-two racing readers, writers and holders of slots never meet, whoever is killed",
          "[safety]") {
  const auto seed = chosen_seed();
  INFO("seed " << seed);
  std::minstd_rand random(seed);
  Race race;
  for (int round = 0; round < 3; ++round) {
    const std::size_t first = race.runs().size();
    for (int i = 0; i < 32; ++i) {
      const auto part = i % 5 < 2 ? Race::Part::slot : (i % 5 < 4 ? Race::Part::reader : Race::Part::writer);
      race.start(part);
    }
    std::set<std::size_t> killed;
    std::uniform_int_distribution<std::size_t> any(first, race.runs().size() - 1);
    std::uniform_int_distribution<int> moment(0, 100);
    while (killed.size() < 8) {
      std::this_thread::sleep_for(milliseconds(moment(random)));  // chaos has no condition to wait for
      const std::size_t victim = any(random);
      race.runs()[victim].signal(SIGKILL);
      killed.insert(victim);
    }
    for (std::size_t i = first; i < race.runs().size(); ++i) {
      Process& run = race.runs()[i];
      const Exit exit = run.wait(120s * slowness());
      INFO(run.err());
      CHECK((exit == exited(0) || (killed.contains(i) && exit == killed_by(SIGKILL))));
    }
  }
  CHECK(race.violations().empty());
  const auto tokens = race.tokens();
  CHECK(std::set<std::string>(tokens.begin(), tokens.end()).size() == tokens.size());
  CHECK(tokens.size() >= 3 * 24);
  for (const auto& run : race.runs()) CHECK(soon_gone(run));
  CHECK(wait_until([&] {
    return dblock(race.database(), {"inspect", "--key", "rw", "--key", "slots", "--exit-code"}).exit ==
           exited(0);
  }));
}

}  // namespace
}  // namespace dblock::test
