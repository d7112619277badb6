// Crowds of runs with line policies and of a pool, whose processes are killed and frozen, whose sessions end
// and whose replies are lost, judged by arrival: each begins to wait before the next is started.
#include <algorithm>
#include <random>
#include <regex>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/proxy.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

using std::chrono::steady_clock;

class Crowd {
 public:
  // No later one is started before this one waits, has its job running, or has ended.
  void join(const Words& before_job, const std::string& then) {
    const std::size_t number = runs_.size();
    const std::string said = "echo " + std::to_string(number) + " >>" + directory_.file("ran") + "; ";
    runs_.push_back(
        {Process(dblock_spawn_at(proxy_.url(database_.name()), with(before_job, sh(said + then))))});
    Process& run = runs_.back().process;
    const bool came = wait_until(
        [&] { return says(run.err(), "waiting: ") || has_run(number) || !run.running(); }, 60s * slowness());
    INFO(number << ": " << run.err());
    REQUIRE(came);
  }

  // One misfortune, of one of the runs that have come, or of all.
  void harm() {
    thaw(steady_clock::now());
    Run& victim = runs_.at(draw(runs_.size()));
    switch (draw(8)) {
      case 0:
      case 1:
        return freeze(victim);
      case 2:
        return kill(victim, false);
      case 3:
        return kill(victim, true);
      case 4:
        return proxy_.cut_all();
      case 5:
        return kill_one_session();
      case 6:
        return proxy_.cut(Proxy::Cut::before_reply, [](const std::string&) { return true; });
      default:
        return proxy_.cut(Proxy::Cut::before_statement, [](const std::string&) { return true; });
    }
  }
  void thaw_all() { thaw(steady_clock::time_point::max()); }

  [[nodiscard]] ServerDatabase& database() { return database_; }
  [[nodiscard]] std::string file(const std::string& name) const { return directory_.file(name); }
  [[nodiscard]] std::size_t size() const { return runs_.size(); }
  [[nodiscard]] Process& process(std::size_t i) { return runs_.at(i).process; }
  [[nodiscard]] bool killed(std::size_t i) const { return runs_.at(i).killed; }
  [[nodiscard]] bool was_frozen(std::size_t i) const { return runs_.at(i).was_frozen; }
  // Whose jobs ran, in the order of their starts.
  [[nodiscard]] std::vector<std::size_t> who_ran() const {
    std::vector<std::size_t> ran;
    for (const auto& line : lines(read_file(directory_.file("ran")))) ran.push_back(std::stoul(line));
    return ran;
  }
  [[nodiscard]] bool has_run(std::size_t i) const { return std::ranges::count(who_ran(), i) > 0; }

 private:
  struct Run {
    Process process;
    bool killed = false;
    bool was_frozen = false;
    std::optional<steady_clock::time_point> thaws{};
  };

  std::size_t draw(std::size_t of) { return std::uniform_int_distribution<std::size_t>(0, of - 1)(random_); }
  void freeze(Run& run) {
    if (run.thaws || !run.process.running()) return;
    run.process.freeze();
    run.was_frozen = true;
    run.thaws = steady_clock::now() + milliseconds(draw(5000));
  }
  void thaw(steady_clock::time_point now) {
    for (auto& run : runs_) {
      if (!run.thaws || *run.thaws > now) continue;
      run.process.signal(SIGCONT);
      run.thaws.reset();
    }
  }
  void kill(Run& run, bool guardian_too) {
    if (run.thaws || !run.process.running() || &run == &runs_.back()) return;
    run.killed = true;
    if (guardian_too && says(run.process.err(), "waiting: ")) return kill_with_guardian(run.process);
    run.process.signal(SIGKILL);
    static_cast<void>(run.process.wait());
  }
  void kill_one_session() {
    const auto sessions = database_.sessions();
    if (!sessions.empty()) database_.kill_session(sessions.at(draw(sessions.size())));
  }

  ServerDatabase database_;
  Proxy proxy_{database_.server()};
  TempDir directory_;
  std::mt19937 random_{chosen_seed()};
  std::vector<Run> runs_;
};

const Words k_brisk{"-v", "--wait", "120s", "--ttl", "6s", "--heartbeat", "500ms", "--kill-grace", "500ms"};

TEST_CASE("of thirty --line newest runs under faults no older one runs after a newer, and the last runs",
          "[server][safety][storm]") {
  Crowd crowd;
  LiveRun holder(crowd.database());
  for (int i = 0; i < 30; ++i) {
    crowd.join(run_words("k", with(k_brisk, {"--line", "newest"}), {}), "true");
    crowd.harm();
  }
  CHECK(holder.end() == exited(0));
  crowd.thaw_all();
  for (std::size_t i = 0; i < crowd.size(); ++i) {
    const Exit exit = crowd.process(i).wait(60s * slowness());
    INFO(i << ": " << exit << " " << crowd.process(i).err());
    if (i + 1 == crowd.size()) CHECK(exit == exited(0));
    if (exit == exited(0) || crowd.killed(i)) continue;
    CHECK(exit == exited(75));
    CHECK(says(crowd.process(i).err(), "a newer run has come"));
  }
  const auto ran = crowd.who_ran();
  REQUIRE(!ran.empty());
  CHECK(ran.back() == crowd.size() - 1);
  CHECK(std::ranges::is_sorted(ran));
}

TEST_CASE("of thirty --replace runs under faults none revokes a newer one, and the last one's job runs",
          "[server][safety][storm]") {
  Crowd crowd;
  for (int i = 0; i < 30; ++i) {
    crowd.join(run_words("k", with(k_brisk, {"--replace", "--replaceable"}), {}), "exec sleep 300");
    crowd.harm();
  }
  crowd.thaw_all();
  const std::size_t last = crowd.size() - 1;
  CHECK(wait_until([&] { return crowd.has_run(last); }, 60s * slowness()));
  std::vector<pid_t> pids;
  for (std::size_t i = 0; i < crowd.size(); ++i) pids.push_back(crowd.process(i).pid());
  std::size_t revoked = 0;
  for (std::size_t i = 0; i < crowd.size(); ++i) {
    const std::string said = crowd.process(i).err();
    INFO(i << ": " << said);
    std::smatch by;
    if (!std::regex_search(said, by, std::regex(":([0-9]+)[^:]*\\(--replace\\)"))) continue;
    ++revoked;
    const auto newer = std::ranges::find(pids, static_cast<pid_t>(std::stol(by[1])));
    REQUIRE(newer != pids.end());
    CHECK(newer - pids.begin() > static_cast<std::ptrdiff_t>(i));
  }
  CHECK(revoked > 0);
  crowd.process(last).signal(SIGTERM);
  CHECK(crowd.process(last).wait(60s * slowness()) == killed_by(SIGTERM));
}

TEST_CASE("twenty runs of a pool under faults share no member, and come in the order of their arrival",
          "[server][safety][storm]") {
  constexpr std::size_t k_members = 5;
  Crowd crowd;
  std::vector<std::unique_ptr<LiveRun>> holders;
  Words words{"run"};
  for (std::size_t i = 0; i < k_members; ++i) {
    const std::string key = "env" + std::to_string(i);
    holders.push_back(std::make_unique<LiveRun>(crowd.database(), Words{}, patient_job, key));
    words = with(words, {"--any", key});
  }
  words = with(with(words, k_brisk), {"--"});
  const std::string member = crowd.file("$DBLOCK_KEY");
  for (int i = 0; i < 20; ++i) {
    crowd.join(words, "mkdir " + member + " && sleep 0.2 && rmdir " + member);
    crowd.harm();
  }
  for (auto& holder : holders) CHECK(holder->end() == exited(0));
  crowd.thaw_all();
  for (std::size_t i = 0; i < crowd.size(); ++i) {
    const Exit exit = crowd.process(i).wait(60s * slowness());
    INFO(i << ": " << exit << " " << crowd.process(i).err());
    CHECK((exit == exited(0) || crowd.killed(i)));
  }
  // As many as there are members may start at the same time.
  const auto ran = crowd.who_ran();
  for (std::size_t place = 0; place < ran.size(); ++place) {
    CAPTURE(place, ran[place]);
    if (!crowd.was_frozen(ran[place])) CHECK(place <= ran[place] + k_members);
  }
}

}  // namespace
}  // namespace dblock::test
