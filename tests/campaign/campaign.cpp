// dblock_campaign [--seed N] [--duration D] [--clients N] [--keys N] [--ttl D] [--margin D] [--hold D]
//                 [--sharing PERCENT] [--store server|sqlite|galera|group|multi_primary] [--clock
//                 none|within|beyond] [--faults all|none|KIND] [--keep DIRECTORY]
// Clients use locks while everything fails; then the history is judged. Exit 0: it was a history that a lock
// may have, and enough had happened in it to say so. 1: a violation. 2: too little happened. 64: usage.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "campaign/client.hpp"
#include "campaign/faults.hpp"
#include "campaign/line_watcher.hpp"
#include "support/dblock.hpp"

namespace dblock::campaign {
namespace {

using namespace std::chrono_literals;

constexpr std::array<std::string_view, 5> k_stores{"server", "sqlite", "galera", "group", "multi_primary"};
constexpr milliseconds k_time_to_heal = 5s;
// Much less than an idle machine does, and more than a campaign does in which nothing happens.
constexpr double k_share_of_speed = 0.05;
constexpr double k_enough_a_second = 5;
// A campaign ends soon after what it was looking for.
constexpr Nanos k_first_look = 4 * k_second;
constexpr double k_takeovers_a_second = 1.0 / 30;
constexpr double k_seconds_an_application_takeover = 60;
// What the rules of sharing and of a dead dblock are judged by. Without these situations a campaign says
// nothing of them.
constexpr double k_seconds_an_encounter = 60;

class Campaign {
 public:
  explicit Campaign(Options options)
      : options_(std::move(options)),
        history_(options_.directory + "/history.jsonl"),
        stage_(make_stage(options_, history_)),
        world_{options_, history_, {}, keys_of(options_), test::new_mark()} {}
  ~Campaign() { test::kill_tree(world_.mark); }
  Campaign(const Campaign&) = delete;
  Campaign& operator=(const Campaign&) = delete;

  int go() {
    measure_speed();
    play();
    check_liveness();
    look_at_rows();
    return report();
  }

 private:
  void measure_speed();
  void play();
  void check_liveness();
  void look_at_rows();
  int report() const;
  [[nodiscard]] std::vector<Event> history() const;
  [[nodiscard]] std::vector<Violation> judged(bool goes_on) const;
  [[nodiscard]] std::vector<std::string> shortcomings(const Exercise& all) const;
  [[nodiscard]] Outcome probe(const KeyUse& use);
  [[nodiscard]] double seconds() const { return static_cast<double>(options_.duration.count()) / 1000; }

  const Options options_;
  const History history_;
  std::unique_ptr<Stage> stage_;
  World world_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::map<std::string, int> faults_;
  double runs_a_second_ = 0;
  double played_ = 0;  // seconds, which may be more than were asked for
  bool violated_ = false;
};

// How fast this machine is with nothing else to do.
void Campaign::measure_speed() {
  constexpr int k_runs = 20;
  const Nanos begun = now();
  for (int i = 0; i < k_runs; ++i) {
    const auto outcome =
        run_command(world_.targets, {}, {"run", "--key", "speed", "--", "true"},
                    test::bare_environment(world_.mark, {"DBLOCK_DB=" + stage_->url(0)}), 60s);
    if (!outcome || outcome->code != 0)
      throw std::runtime_error("an undisturbed run failed: " + (outcome ? outcome->err : "it did not end"));
  }
  runs_a_second_ = k_runs * static_cast<double>(k_second) / static_cast<double>(now() - begun);
}

std::vector<Event> Campaign::history() const {
  std::ifstream in(history_.path());
  return read_history(in);
}

std::vector<Violation> Campaign::judged(bool goes_on) const {
  return judge(history(), {.tolerance = test::slowness() * k_second,
                           .clock_beyond_margin = options_.clock == "beyond",
                           .goes_on = goes_on});
}

void Campaign::play() {
  const auto nanos = [](milliseconds time) { return std::chrono::nanoseconds(time).count(); };
  const Nanos step = nanos(largest_step(options_));
  history_.add({.kind = "terms",
                .t = now(),
                .ttl = nanos(options_.ttl),
                .margin = nanos(options_.margin),
                .step = step});
  for (int i = 0; i < options_.clients; ++i) {
    const int group = i % stage_->groups();
    clients_.push_back(
        std::make_unique<Client>(world_, i, group, stage_->url(group), stage_->application_url(group)));
  }
  std::optional<LineWatcher> watcher(std::in_place, *stage_, history_, step);
  std::vector<std::jthread> threads;
  for (const auto& client : clients_) threads.emplace_back([&client] { client->play(); });
  // Before the threads are joined, whatever has happened.
  const std::unique_ptr<World, void (*)(World*)> when_over(&world_, [](World* world) { world->over = true; });
  Faults faults(world_, *stage_);
  const Nanos begun = now();
  const Nanos duration = nanos(options_.duration), latest = begun + 2 * duration;
  Nanos end = begun + duration;
  Nanos look_at = now() + k_first_look;
  const auto take_stock = [&] {
    faults_ = faults.done();
    played_ = static_cast<double>(now() - begun) / k_second;
  };
  while (!violated_) {
    if (now() >= end) {  // on a busy machine too little may have happened by then
      take_stock();
      if (end >= latest || shortcomings(count(history())).empty()) break;
      end += std::max(k_first_look, duration / 10);
    }
    faults.step();
    test::pause_for(10ms);
    if (now() < look_at) continue;
    violated_ = !judged(true).empty();
    look_at = now() + std::max(k_first_look, now() - begun);  // twice as late each time: it costs ever more
  }
  take_stock();
  faults.heal();
  world_.over = true;
  threads.clear();
  watcher.reset();
}

// With nothing wrong any more, every lock is to be had, whoever was its last holder.
Outcome Campaign::probe(const KeyUse& use) {
  const auto limit = options_.ttl + options_.margin + k_time_to_heal * test::slowness();
  Words words{"run", "--key", use.key, "--wait", std::to_string(limit.count()) + "ms"};
  if (use.as == KeyUse::As::slots) words.insert(words.end(), {"--slots", std::to_string(k_slots)});
  words.insert(words.end(), {"--", "true"});
  const auto outcome =
      run_command(world_.targets, {}, words,
                  test::bare_environment(world_.mark, {"DBLOCK_DB=" + stage_->url(0)}), limit + 60s);
  return outcome ? *outcome : Outcome{-SIGKILL, "", "it did not end"};
}

void Campaign::check_liveness() {
  std::vector<std::future<Outcome>> probes;
  for (const KeyUse& use : world_.keys)
    probes.push_back(std::async(std::launch::async, [this, &use] { return probe(use); }));
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const Outcome outcome = probes[i].get();
    if (outcome.code == 0) continue;
    history_.add({.kind = "late",
                  .t = now(),
                  .say = world_.keys[i].key + " was not to be had after all was well: exit " +
                         std::to_string(outcome.code) + " " + test::last_line(outcome.err)});
  }
}

void Campaign::look_at_rows() {
  for (const KeyUse& use : world_.keys) {
    // Another place of several may have been left to expire just before.
    const bool free = test::wait_until(
        [&] {
          const auto dead =
              run_command(world_.targets, {}, {"reap"},
                          test::bare_environment(world_.mark, {"DBLOCK_DB=" + stage_->url(0)}), 60s);
          return dead && dead->code == 0 && stage_->holders(use.key) == 0;
        },
        options_.ttl + options_.margin + k_time_to_heal * test::slowness());
    history_.add(
        {.kind = "final", .t = now(), .token = stage_->token(use.key), .held = !free, .key = use.key});
  }
}

std::vector<std::string> Campaign::shortcomings(const Exercise& all) const {
  std::vector<std::string> found;
  const double speed = all.operations / played_;
  if (speed < std::min(runs_a_second_ * k_share_of_speed, k_enough_a_second))
    found.push_back("only " + std::to_string(speed) + " operations a second where one client alone does " +
                    std::to_string(runs_a_second_));
  if (options_.faults.empty() && all.takeovers < seconds() * k_takeovers_a_second)
    found.push_back("only " + std::to_string(all.takeovers) + " takeovers");
  if (!stage_->application_url(0).empty() &&
      (all.by_applications.grants == 0 || all.by_applications.stores == 0))
    found.emplace_back("no grants to applications, or no transactions of theirs");
  if (options_.faults.empty() && !stage_->application_url(0).empty() &&
      all.by_applications.takeovers < std::floor(seconds() / k_seconds_an_application_takeover))
    found.push_back("only " + std::to_string(all.by_applications.takeovers) + " takeovers by applications");
  const auto encounters = std::floor(seconds() / k_seconds_an_encounter);
  if (world_.shares() && all.met_readers < encounters)
    found.push_back("only " + std::to_string(all.met_readers) + " writers that met readers");
  if (world_.shares() && all.met_full_slots < encounters)
    found.push_back("only " + std::to_string(all.met_full_slots) + " runs that met full slots");
  if (wanted(options_, "kill dblock") && all.orphaned < encounters)
    found.push_back("only " + std::to_string(all.orphaned) + " jobs at work when dblock was killed");
  if (faults_.empty()) found.emplace_back("no faults");
  if (all.grants == 0 || all.writes == 0) found.emplace_back("no grants, or no writes");
  if (all.pauses == 0) found.emplace_back("no pauses");
  if (options_.faults.empty() && all.places == 0) found.emplace_back("nobody was seen in a line");
  return found;
}

void print(const char* title, const std::map<std::string, int>& counts) {
  std::printf("%s\n", title);
  for (const auto& [what, count] : counts) std::printf("  %-36s %d\n", what.c_str(), count);
}

void print(const std::vector<Violation>& violations, const std::string& history) {
  constexpr std::size_t k_shown = 10;
  for (std::size_t i = 0; i < std::min(violations.size(), k_shown); ++i) {
    std::printf("VIOLATION %s: %s\n", to_string(violations[i].rule), violations[i].text.c_str());
    for (const Event& event : violations[i].events) std::printf("    %s", to_line(event).c_str());
  }
  if (violations.size() > k_shown) std::printf("… and %zu more\n", violations.size() - k_shown);
  std::printf("the history is kept: %s\n", history.c_str());
}

int Campaign::report() const {
  std::ifstream in(history_.path());
  const auto events = read_history(in);
  const auto violations = judge(
      events, {.tolerance = test::slowness() * k_second, .clock_beyond_margin = options_.clock == "beyond"});
  const Exercise all = count(events);
  std::map<std::string, int> operations;
  for (const auto& client : clients_)
    for (const auto& [what, count] : client->done()) operations[what] += count;
  std::printf(
      "campaign: seed %u, %s, %.0f s, %d clients, %d keys, TTL %lld ms, margin %lld ms, clock steps: %s\n",
      options_.seed, options_.store.c_str(), seconds(), options_.clients, options_.keys,
      static_cast<long long>(options_.ttl.count()), static_cast<long long>(options_.margin.count()),
      options_.clock.c_str());
  print("operations", operations);
  print("faults", faults_);
  std::printf("operations a second                    %.1f (alone: %.0f)\n", all.operations / played_,
              runs_a_second_);
  const Exercise::Applications& theirs = all.by_applications;
  std::printf("grants to runs and scripts             %d\n", all.grants - theirs.grants);
  std::printf("grants to applications                 %d\n", theirs.grants);
  std::printf("takeovers of leases left to expire     %d\n", all.takeovers - theirs.takeovers);
  std::printf("takeovers by applications              %d\n", theirs.takeovers);
  std::printf("writers that met readers               %d\n", all.met_readers);
  std::printf("runs that met full slots               %d\n", all.met_full_slots);
  std::printf("jobs at work when dblock was killed    %d\n", all.orphaned);
  std::printf("runs that lost their lease (76)        %d\n", all.fenced);
  std::printf("applications that lost theirs          %d\n", theirs.lost);
  std::printf("writes to the fenced store, refused    %d, %d\n", all.writes, all.refused_writes);
  std::printf("fenced transactions, refused           %d, %d\n", theirs.stores, theirs.refused_stores);
  std::printf("pauses                                 %d\n", all.pauses);
  std::printf("places seen in a line                  %d\n", all.places);
  std::printf("events judged                          %zu\n", events.size());
  std::printf("violations                             %zu\n", violations.size());
  if (!violations.empty()) {
    print(violations, history_.path());
    return 1;
  }
  const auto missing = shortcomings(all);
  for (const auto& one : missing) std::printf("TOO LITTLE HAPPENED: %s\n", one.c_str());
  return missing.empty() ? 0 : 2;
}

milliseconds duration_of(const std::string& text) {
  std::size_t used = 0;
  const long long number = std::stoll(text, &used);
  const std::string unit = text.substr(used);
  if (unit == "ms") return milliseconds(number);
  if (unit == "s") return std::chrono::seconds(number);
  if (unit == "m") return std::chrono::minutes(number);
  if (unit == "h") return std::chrono::hours(number);
  throw std::invalid_argument("no duration: " + text);
}

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  std::istringstream in(list);
  for (std::string name; std::getline(in, name, ',');) names.push_back(name);
  return names;
}

Options parse(int argc, char** argv) {
  Options options;
  options.seed = test::chosen_seed();
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 >= argc) throw std::invalid_argument(name + " needs a value");
    const std::string value = argv[i + 1];
    if (name == "--seed")
      options.seed = static_cast<unsigned>(std::stoul(value));
    else if (name == "--duration")
      options.duration = duration_of(value);
    else if (name == "--clients")
      options.clients = std::stoi(value);
    else if (name == "--keys")
      options.keys = std::stoi(value);
    else if (name == "--ttl")
      options.ttl = duration_of(value);
    else if (name == "--margin")
      options.margin = duration_of(value);
    else if (name == "--hold")
      options.hold = duration_of(value);
    else if (name == "--sharing")
      options.sharing = std::stoi(value);
    else if (name == "--store" && std::ranges::count(k_stores, value) > 0)
      options.store = value;
    else if (name == "--clock" && (value == "none" || value == "within" || value == "beyond"))
      options.clock = value;
    else if (name == "--faults")
      options.faults = names_in(value);
    else if (name == "--keep")
      options.directory = value;
    else
      throw std::invalid_argument("not understood: " + name + " " + value);
  }
  if (options.store != "server") options.clock = "none";
  return options;
}

int main(int argc, char** argv) {
  Options options;
  try {
    options = parse(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dblock_campaign: %s\n", error.what());
    return 64;
  }
  const bool keep = !options.directory.empty();
  if (!keep)
    options.directory = test::state_dir() + "/campaign-" + options.store + "-" + options.clock + "-" +
                        std::to_string(options.seed);
  std::filesystem::remove(options.directory + "/history.jsonl");
  std::filesystem::create_directories(options.directory);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::printf("seed %u, history in %s\n", options.seed, options.directory.c_str());
  int code = 70;
  try {
    code = Campaign(options).go();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dblock_campaign: %s\n", error.what());
  }
  if (code == 0 && !keep) std::filesystem::remove_all(options.directory);
  return code;
}

}  // namespace
}  // namespace dblock::campaign

int main(int argc, char** argv) {
  return dblock::campaign::main(argc, argv);
}
