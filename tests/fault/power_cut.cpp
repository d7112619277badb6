// The power fails, and the disk forgets what was not synced (support/disk.hpp): the store opens, tokens go on
// rising, and a lease is in force for as long as dblock-safety(7) says.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <sstream>

#include "support/catch.hpp"
#include "support/disk.hpp"
#include "support/local_file.hpp"
#include "support/privilege.hpp"
#include "support/steps.hpp"
#include "support/sweep.hpp"

namespace dblock::test {
namespace {

using Token = unsigned long long;

std::size_t chosen_cuts() {
  const char* const told = std::getenv("DBLOCK_TEST_CUTS");
  if (told != nullptr) return std::stoul(told);
  return full_run() ? 200 : 15;
}

// What jobs and scripts have been given so far. They say so in the file `told`: "granted KEY TOKEN" once they
// have the lock, "over KEY TOKEN" before they give it back.
class Told {
 public:
  void take(const DiskStep& step) {
    if (step.path != "told" || step.record.change != DiskChange::written) return;
    std::istringstream line(step.more);
    std::string what, key;
    Token token = 0;
    if (!(line >> what >> key >> token)) throw std::runtime_error("not understood: " + step.more);
    last_[key] = std::max(last_[key], token);
    if (what == "granted") ++grants_;
    if (what == "granted")
      held_.insert(key);
    else
      held_.erase(key);
  }
  [[nodiscard]] Token last(const std::string& key) const { return last_.contains(key) ? last_.at(key) : 0; }
  [[nodiscard]] bool is_held(const std::string& key) const { return held_.contains(key); }
  [[nodiscard]] int grants() const { return grants_; }

 private:
  std::map<std::string, Token> last_;
  std::set<std::string> held_;
  int grants_ = 0;
};

// Shell for a job: says that it has the lock, and that it ends.
const std::string k_telling_job =
    R"(sh -c 'echo "granted $DBLOCK_KEY $DBLOCK_TOKEN" >>"$told"; echo "over $DBLOCK_KEY $DBLOCK_TOKEN" >>"$told"')";

// Shell that takes the lock, says so, and gives it back at last.
const std::string k_take = R"(
  lock=$(dblock acquire -k k --ttl 12h --format shell); eval "$lock"
  echo "granted k $DBLOCK_TOKEN" >>"$told"
  dblock renew
)";
const std::string k_give_back = R"(
  echo "over k $DBLOCK_TOKEN" >>"$told"
  dblock release
)";
std::string rounds_of(int rounds, const std::string& script) {
  return "set -e\nround=0\nwhile [ $((round += 1)) -le " + std::to_string(rounds) + " ]; do\n" + script +
         "done\n";
}

// A script whose store dblock makes first, and whose runs fill the log several times.
std::string script_of_uses(int rounds) {
  const std::string in_slot = "  dblock run -k s --slots 2 -- " + k_telling_job;
  return rounds_of(rounds, "  dblock run -k k --ttl 12h -- " + k_telling_job + k_take + in_slot + " &\n" +
                               in_slot + "\n  wait $!\n" + k_give_back);
}

std::string url_in(const TempDir& home) {
  return "sqlite:" + home.file("locks.db");
}

const std::string k_granted_twice = "granted although it is held";

// The token of a grant to who asks now. 0: somebody holds the lock; none: `wrong` says what dblock said.
std::optional<Token> token_of_grant(const Finished& finished, std::string& wrong) {
  if (finished.exit == exited(75)) return 0;
  if (finished.exit == exited(0)) return nlohmann::json::parse(finished.out).at("token").get<Token>();
  wrong += to_string(finished.exit) + ": " + finished.err;
  return {};
}

// Asks for "k" and "s" in the store that is left.
std::string wrong_in_store(const TempDir& home, const Told& told, const Words& env, bool leases_are_over) {
  std::string wrong;
  for (const std::string key : {"k", "s"}) {
    const Words words{"acquire", "--json", "--key", key, "--ttl", "60s"};
    const auto token = token_of_grant(
        dblock_at(url_in(home), key == "s" ? with(words, {"--slots", "2"}) : words, env), wrong);
    if (!token) continue;
    const bool must_wait = !leases_are_over && told.is_held(key) && key == "k";
    if (must_wait && *token != 0) wrong += key + ": " + k_granted_twice + "\n";
    if (leases_are_over && *token == 0) wrong += "a lease of " + key + " has outlived the power cut\n";
    if (*token != 0 && *token <= told.last(key))
      wrong += "a token of " + key + " is not greater than an earlier one\n";
  }
  if (const auto said = sqlite_value(home.file("locks.db"), "PRAGMA integrity_check"); said != "ok")
    wrong += said + "\n";
  return wrong;
}

struct Aftermath {
  Arrived arrived;
  bool machine_lives;  // only the processes are gone, and nothing that they wrote
  std::string name;
};
const std::vector<Aftermath> k_aftermaths{{Arrived::none, false, "nothing unsynced has arrived"},
                                          {Arrived::all, false, "everything has arrived"},
                                          {Arrived::some, false, "some has arrived"},
                                          {Arrived::torn, false, "a write is torn"},
                                          {Arrived::all, true, "all processes were killed at once"}};

// What is wrong in each of the states that a power cut may leave now.
std::vector<std::string> wrong_after_cut(const Disk& disk, const Told& told, unsigned draw) {
  return sweep(k_aftermaths.size(), 2,
               [&](std::size_t number) {
                 const Aftermath& after = k_aftermaths[number];
                 const TempDir home, boot;
                 disk.write_to(home.path(), after.arrived, draw);
                 const std::string wrong = wrong_in_store(
                     home, told, after.machine_lives ? Words{} : started_anew(boot), !after.machine_lives);
                 return Verdict{.wrong = wrong.empty() ? "" : after.name + ": " + wrong};
               })
      .failures;
}

TEST_CASE("a power cut at any moment leaves a store that opens, no lease, and tokens that go on rising",
          "[local][safety]") {
  DBLOCK_NEEDS(why_no_preload());
  constexpr int k_rounds = 12;
  const TempDir home;
  const DiskJournal journal(home.path());
  Disk disk(home.path());
  Spawn script = script_spawn(url_in(home), script_of_uses(k_rounds));
  script.env = with(with(journal.env(), script.env), {"told=" + home.file("told")});
  const auto used = run_program(script, 4 * patience());
  INFO(used.err);
  REQUIRE(used.exit == exited(0));
  const auto steps = journal.steps();
  Told told;
  std::vector<std::string> wrong;
  int emptied = 0;  // the log
  const std::size_t stride = 1 + steps.size() / chosen_cuts();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    disk.take(steps[i]);
    told.take(steps[i]);
    if (steps[i].path == "locks.db-wal" && steps[i].record.change == DiskChange::resized) ++emptied;
    if ((i + chosen_seed()) % stride != 0) continue;
    for (const auto& each : wrong_after_cut(disk, told, static_cast<unsigned>(i + chosen_seed())))
      wrong.push_back("after step " + std::to_string(i) + ", " + each);
  }
  CHECK(told.grants() == k_rounds * 4);
  CHECK(emptied >= 1);
  CHECK(disk.differs_from(home.path(), {"-shm"}) == "");
  INFO(steps.size() << " steps; " << summary(wrong));
  CHECK(wrong.empty());
}

// A server whose disk forgets, used by runs and by a script.
class UsedServer {
 public:
  explicit UsedServer(const Words& options, int rounds = 3)
      : rounds_(rounds), server_(options), database_(server_.address()) {
    server_.stop_gracefully();  // the disk has it all
    journal_.emplace(server_.data());
    disk_.emplace(server_.data());
    server_.start(journal_->env());
    Spawn script = script_spawn(database_.url(), rounds_of(rounds_, k_take + k_give_back));
    script.env = with(with(journal_->env(), script.env), {"told=" + server_.data() + "/told"});
    const auto used = run_program(script, 4 * patience());
    server_.stop_hard();
    if (used.exit != exited(0)) throw std::runtime_error("the script failed: " + used.err);
    steps_ = journal_->steps();
  }

  // What is wrong after a power cut right behind each of the grants that scripts were told of, and at
  // `others` moments by lot.
  std::vector<std::string> wrong_after_cuts(const std::vector<Arrived>& all_arrived, std::size_t others,
                                            std::size_t enough = SIZE_MAX) {
    std::minstd_rand random(chosen_seed());
    std::set<std::size_t> moments;
    while (moments.size() < std::min(others, steps_.size())) moments.insert(random() % steps_.size());
    Told told;
    std::vector<std::string> wrong;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const bool held_before = told.is_held("k");
      disk_->take(steps_[i]);
      told.take(steps_[i]);
      if (wrong.size() >= enough) continue;
      if (!moments.contains(i) && (held_before || !told.is_held("k"))) continue;
      for (const auto arrived : all_arrived)
        if (const std::string found = wrong_after_cut(arrived, told, static_cast<unsigned>(i));
            !found.empty())
          wrong.push_back("after step " + std::to_string(i) + ": " + found);
    }
    if (told.grants() != rounds_) wrong.push_back("not all grants were told");
    if (const auto different = disk_->differs_from(server_.data(), {}); !different.empty())
      wrong.push_back("the journal does not know what happened to " + different);
    return wrong;
  }
  [[nodiscard]] std::size_t steps() const { return steps_.size(); }

 private:
  // The machine starts anew with what is left, and somebody asks for the lock.
  std::string wrong_after_cut(Arrived arrived, const Told& told, unsigned draw) {
    const std::string kept = server_.data() + ".kept";
    std::filesystem::rename(server_.data(), kept);
    std::filesystem::create_directory(server_.data());
    disk_->write_to(server_.data(), arrived, draw);
    server_.start();
    std::string wrong;
    const auto token =
        token_of_grant(dblock(database_, {"acquire", "--json", "--key", "k", "--ttl", "60s"}), wrong);
    server_.stop_hard();
    std::filesystem::remove_all(server_.data());
    std::filesystem::rename(kept, server_.data());
    if (!token) return wrong;
    if (*token != 0 && *token <= told.last("k")) return "the token is not greater than an earlier one";
    if (*token != 0 && told.is_held("k")) return k_granted_twice;
    return "";
  }

  int rounds_;
  Server server_;
  ServerDatabase database_;
  std::optional<DiskJournal> journal_;
  std::optional<Disk> disk_;
  std::vector<DiskStep> steps_;
};

const Words k_flushed{"--innodb-flush-log-at-trx-commit=1", "--log-bin", "--sync-binlog=1"};

TEST_CASE("a power cut takes back no lease of a server that flushes its log at each commit",
          "[server][mariadb][safety]") {
  DBLOCK_NEEDS(why_no_preload());
  UsedServer server(k_flushed);
  const bool is_short = chosen_cuts() < 100;
  const auto wrong = server.wrong_after_cuts(
      is_short ? std::vector{Arrived::none}
               : std::vector{Arrived::none, Arrived::all, Arrived::some, Arrived::torn},
      is_short ? 1 : chosen_cuts() / 10);
  INFO(server.steps() << " steps; " << summary(wrong));
  CHECK(wrong.empty());
}

// What dblock-safety(7) and `doctor` warn of.
TEST_CASE("a power cut takes back leases of a server that leaves its log unflushed, but no token",
          "[server][mariadb][safety]") {
  DBLOCK_NEEDS(why_no_preload());
  std::vector<Words> lax{{"--innodb-flush-log-at-trx-commit=2"}};
  if (full_run()) {
    lax.push_back({"--innodb-flush-log-at-trx-commit=0"});
    lax.push_back({"--innodb-flush-log-at-trx-commit=1", "--log-bin", "--sync-binlog=0"});
  }
  for (const auto& options : lax) {
    INFO(options.back());
    UsedServer server(with(options, {"--innodb-flush-log-at-timeout=2700"}), 6);
    const auto wrong =
        server.wrong_after_cuts({Arrived::none}, 0, 1);  // one that was flushed by chance is no proof
    INFO(server.steps() << " steps; " << summary(wrong));
    CHECK_FALSE(wrong.empty());
    CHECK(std::ranges::all_of(wrong, [](const auto& each) { return each.ends_with(k_granted_twice); }));
  }
}

}  // namespace
}  // namespace dblock::test
