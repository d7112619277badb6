// A run, its guardian, waiters, a keeper and a watcher live for long, by clocks that run faster: none of them
// grows, nor does what they keep in the store.
//
// DBLOCK_TEST_LIFE=SECONDS:RATE[:TTL]: how long they live by those clocks, how many times as fast these are,
// and the TTL in seconds, with the heartbeat that dblock chooses for it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <sstream>

#include "support/catch.hpp"
#include "support/live_run.hpp"
#include "support/privilege.hpp"
#include "support/server.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

constexpr int k_quarters = 4;
// What differs between two looks at one that does not grow: an allocator rounds, and a process holds a
// descriptor more while it waits. What grows does so with each of some hundred renewals, looks or tries.
constexpr long k_memory_jitter_kib = 128;
constexpr long k_jitter = 2;

struct Life {
  long seconds = 80;
  long rate = 10;
  long ttl = 0;  // 0: 10 s by a clock on the wall, and renewed as often as with `--ttl 1s`
};
Life chosen_life() {
  Life life;
  const char* const told = std::getenv("DBLOCK_TEST_LIFE");
  if (told != nullptr && std::sscanf(told, "%ld:%ld:%ld", &life.seconds, &life.rate, &life.ttl) < 2)
    throw std::runtime_error("DBLOCK_TEST_LIFE is not SECONDS:RATE[:TTL]");
  return life;
}

// What is looked at, by name. Each is the least of many looks: what comes and goes is no growth, and what
// stays is seen in each look.
using Sizes = std::map<std::string, long>;

void keep_least(Sizes& least, const Sizes& seen) {
  for (const auto& [name, size] : seen) {
    const auto [known, is_new] = least.emplace(name, size);
    if (!is_new) known->second = std::min(known->second, size);
  }
}

void look_at(const std::string& name, pid_t pid, Sizes& sizes) {
  sizes[name + ": KiB of memory"] = std::stol("0" + status_field(pid, "RssAnon"));
  sizes[name + ": descriptors"] = static_cast<long>(open_files(pid).size());
  sizes[name + ": threads"] = std::stol("0" + status_field(pid, "Threads"));
}

std::string table_of(const std::vector<Sizes>& quarters) {
  std::ostringstream text;
  for (const auto& [name, first] : quarters.front()) {
    text << "\n" << name << ":";
    for (const auto& sizes : quarters) text << " " << sizes.at(name);
  }
  return text.str();
}

// The store, and a server when there is one, by the fast clock.
class FastStore {
 public:
  explicit FastStore(const Words& clock) {
    if (local_run()) {
      database_ = std::make_unique<Database>();
      return;
    }
    server_ = std::make_unique<Server>();
    server_->stop_gracefully();
    server_->start(clock);
    auto on_server = std::make_unique<ServerDatabase>(server_->address());
    of_server_ = on_server.get();
    database_ = std::move(on_server);
  }
  [[nodiscard]] const Database& database() const { return *database_; }
  void look(Sizes& sizes) {
    sizes["store: places in the line"] = static_cast<long>(database().line().size());
    sizes["store: rows of locks"] = static_cast<long>(database().rows());
    if (of_server_ != nullptr) sizes["store: sessions"] = static_cast<long>(of_server_->sessions().size());
  }

 private:
  std::unique_ptr<Server> server_;
  std::unique_ptr<Database> database_;
  ServerDatabase* of_server_ = nullptr;
};

// Those who live long, all at once.
class Company {
 public:
  Company(const Database& database, const Words& clock, const Life& life)
      : database_(database),
        holder_(database, lease(life), patient_job, "k", clock),
        guardian_(guardian_of(holder_)),
        script_(script(database.url(), clock, life)),
        waiter_(dblock_spawn(database, run_words("k", {"--wait", "forever"}, {"true"}), clock)),
        trier_(dblock_spawn(database, run_words("k", k_tries, {"true"}), clock)),
        watcher_(after("exec >/dev/null", dblock_spawn(database, {"inspect", "--watch", "--json"}, clock))) {
    keeper_ = keeper_of(script_);
    if (!soon_in_line(database, 1)) throw std::runtime_error("nobody waits");
    if (!soon_held(database, "kept")) throw std::runtime_error("the keeper keeps nothing");
    for (int renewals = 0; renewals < 2; ++renewals) {  // all are at work
      if (!soon_renewed(database, "kept")) throw std::runtime_error("no renewals: " + script_.err());
    }
  }

  // By the store's clock, in microseconds. Throws when one has ended.
  [[nodiscard]] long long lived_until() {
    for (Process* each : std::initializer_list<Process*>{&holder_, &script_, &waiter_, &trier_, &watcher_})
      if (!each->running()) throw std::runtime_error("ended: " + each->err());
    if (!alive(keeper_)) throw std::runtime_error("the keeper has ended");
    return std::min(database_.expires_micros("k"), database_.expires_micros("kept"));
  }
  void look(Sizes& sizes) const {
    look_at("run", holder_.pid(), sizes);
    look_at("guardian", guardian_, sizes);
    look_at("keeper", keeper_, sizes);
    look_at("waiter", waiter_.pid(), sizes);
    look_at("run that tries again", trier_.pid(), sizes);
    look_at("inspect --watch", watcher_.pid(), sizes);
  }
  // All end as they should.
  void check_end() {
    CHECK(holder_.end() == exited(0));
    CHECK(waiter_.wait() == exited(0));
    CHECK(trier_.wait() == exited(0));
    watcher_.signal(SIGTERM);
    CHECK(watcher_.wait() == exited(0));
  }

 private:
  // Room for a machine that is slow while the clock is fast.
  static std::string ttl(const Life& life) {
    return std::to_string(life.ttl != 0 ? life.ttl : 10 * life.rate) + "s";
  }
  static Words lease(const Life& life) {
    return with({"--ttl", ttl(life)}, life.ttl != 0 ? Words{} : Words{"--heartbeat", "167ms"});
  }
  static inline const Words k_tries{"--attempts", "100000", "--backoff", "1s", "--backoff-multiplier", "1"};
  static Spawn script(const std::string& url, const Words& clock, const Life& life) {
    Spawn spec = script_spawn(
        url, "dblock acquire --key kept --ttl " + ttl(life) + " --while-pid $$ && exec sleep infinity");
    spec.env = with(spec.env, clock);
    return spec;
  }

  const Database& database_;
  LiveRun holder_;
  pid_t guardian_;
  Process script_;
  Process waiter_;
  Process trier_;
  Process watcher_;
  pid_t keeper_ = -1;
};

TEST_CASE("who lives long does not grow, nor does what the store keeps of it") {
  DBLOCK_NEEDS(why_no_preload());
  const Life life = chosen_life();
  const Words clock = clocks_times(life.rate);
  FastStore store(clock);
  Company company(store.database(), clock, life);
  const long long begun = company.lived_until();
  const auto renewals = [&] { return std::stoll(store.database().column("k", "version")); };
  const auto before = renewals();
  std::vector<Sizes> quarters;
  for (int quarter = 1; quarter <= k_quarters; ++quarter) {
    const long long ends = begun + life.seconds * 1'000'000 * quarter / k_quarters;
    Sizes least;
    const auto at_end = [&] {
      const long long now = company.lived_until();
      if (now == 0) throw std::runtime_error("a lock has no holder");
      if (now < ends - life.seconds * 1'000'000 / k_quarters / 2) return false;
      Sizes seen;
      company.look(seen);
      store.look(seen);
      keep_least(least, seen);
      return now >= ends;
    };
    REQUIRE(wait_until(at_end, 20 * patience() + std::chrono::seconds(life.seconds)));
    quarters.push_back(least);
  }
  std::ostringstream told;
  told << life.seconds << " s at " << life.rate << " times the speed, " << renewals() - before
       << " renewals of the run" << table_of(quarters);
  INFO(told.str());
  if (std::getenv("DBLOCK_TEST_LIFE") != nullptr) WARN(told.str());
  for (const auto& [name, first] : quarters.front()) {
    INFO(name);
    const long allowed = name.ends_with("memory") ? k_memory_jitter_kib : k_jitter;
    CHECK(quarters.back().at(name) <= first + allowed);
  }
  company.check_end();
}

}  // namespace
}  // namespace dblock::test
