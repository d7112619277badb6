// I5, exhaustively: every packet of a run or command, of its login and of each statement and reply, is where
// the connection is cut (before it, after it), or is delivered late, while another run holds the lock or
// after all is over, or twice. Each time all ends in one truth: jobs never overlap, an exit code of 0 means
// that the job ran or that the row says so, and the lock is not kept longer than TTL and margin.
#include <atomic>
#include <functional>
#include <iostream>
#include <mutex>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/overlap.hpp"
#include "support/proxy.hpp"
#include "support/sweep.hpp"

namespace dblock::test {
namespace {

constexpr milliseconds k_trial_ttl = 2s;
constexpr milliseconds k_margin = 200ms;
// So many trials keep two processors busy. Those of commands mostly wait for a lease that nobody renews.
constexpr std::size_t k_runs_at_once = 10, k_commands_at_once = 30;

// When a packet that was held back arrives.
enum class Arrival { none, during_another, at_the_end };

struct Trial {
  explicit Trial(std::string of) : key(std::move(of)) {}
  std::string key;
  TempDir directory{};
  std::string owner{};  // of a lease that the set-up took
  Harm harm = Harm::none;
  const std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();

  [[nodiscard]] std::string log() const { return directory.file("log"); }
  // Overlap's witness, whose pid `file` names.
  [[nodiscard]] Words job(const std::string& file, int ms) const {
    return {job_binary(), "interval", log(), std::to_string(ms), directory.file(file)};
  }
};

Words lease_options() {
  return {"--ttl", "2s", "--margin", "200ms"};
}
const Words& run_options() {
  static const Words options =
      with({"--wait", "20s", "--heartbeat", "200ms", "--kill-grace", "200ms"}, lease_options());
  return options;
}

class Sweep {
 public:
  virtual ~Sweep() = default;
  explicit Sweep(const char* name, std::size_t at_once = k_commands_at_once)
      : name_(name), at_once_(at_once) {}
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  void go() {
    const std::vector<Packet> packets = record();
    struct Case {
      Harm harm;
      Arrival arrival;
      std::size_t at;
    };
    std::vector<Case> cases;
    for (const HarmedPacket& cut : cuts_of(packets, full_run()))
      cases.push_back({cut.harm, Arrival::none, cut.at});
    for (std::size_t i = 0; i < packets.size(); ++i) {
      if (!packets[i].from_client) continue;
      cases.push_back({Harm::late, Arrival::during_another, i});
      cases.push_back({Harm::late, Arrival::at_the_end, i});
      if (packets[i].command) cases.push_back({Harm::twice, Arrival::none, i});
    }
    const Swept swept = sweep(cases.size(), at_once_, [&](std::size_t n) {
      return trial(cases[n].harm, cases[n].arrival, cases[n].at);
    });
    std::cout << name_ << ": " << packets.size() << " packets, " << swept << ", " << succeeded_
              << " ended with 0\n";
    INFO(summary(swept.failures));
    CHECK(swept.failures.empty());
    CHECK(swept.struck > 0);
    CHECK(succeeded_ > 0);
  }

 protected:
  virtual void set_up(Trial& /*trial*/) {}
  [[nodiscard]] virtual Words command(const Trial& trial) const = 0;
  // What is wrong with it as it has just ended.
  virtual std::string judge(const Trial& trial, Exit exit, const Process& process) = 0;
  [[nodiscard]] virtual Words other_options() const { return {}; }

  // A machine that stands still for so long loses a lease; the command then says so.
  static bool lasted_a_lease(const Trial& trial) { return lasted(trial, k_trial_ttl); }
  static bool lasted(const Trial& trial, milliseconds length) {
    return std::chrono::steady_clock::now() - trial.begun > length;
  }
  Finished direct(const Words& words) { return dblock(database_, words); }
  // The owner of a lease that `acquire` takes. A machine that stands still for a whole lease, or for as long
  // as a login may take, makes it fail, and it is tried again.
  std::string owner_of_new(const Words& acquire) {
    Finished held;
    const bool taken = wait_until(
        [&] {
          held = direct(acquire);
          return held.exit == exited(0);
        },
        60s * slowness());
    if (!taken) throw std::runtime_error("no lease to begin with: " + held.err);
    return held.out.substr(0, held.out.find('\n'));
  }
  template <typename Ask>
  auto ask(Ask&& question) {
    const std::lock_guard lock(mutex_);
    return question(database_);
  }
  [[nodiscard]] Spawn spawn(const Words& words) const { return dblock_spawn(database_, words); }

 private:
  [[nodiscard]] Spawn through(const Proxy& proxy, const Words& words) const {
    return dblock_spawn_at(proxy.url(database_.name()), words);
  }

  std::vector<Packet> record() {
    Trial trial(new_key());
    set_up(trial);
    Proxy proxy(database_.server());
    Process process(through(proxy, command(trial)));
    const Exit exit = process.wait(30s * slowness());
    INFO(name_ << ": " << exit << " " << process.err());
    REQUIRE(exit == exited(0));
    REQUIRE(judge(trial, exit, process) == "");
    return proxy.packets();
  }

  std::string new_key() { return "k" + std::to_string(++keys_); }

  Verdict trial(Harm harm, Arrival arrival, std::size_t at) {
    Trial trial(new_key());
    trial.harm = harm;
    set_up(trial);
    Proxy proxy(database_.server());
    proxy.harm(harm, at);
    Process process(through(proxy, command(trial)));
    static_cast<void>(wait_until([&] { return proxy.struck() || !process.running(); }, 30s * slowness()));
    // Whoever comes next while the harmed one finds out what has become of its statement. It does not wait in
    // line, where it would sleep until the session of a statement that is late has ended.
    const Words tries{"--wait",    "25s",   "--attempts",           "250",
                      "--backoff", "100ms", "--backoff-multiplier", "1"};
    Process other(spawn(run_words(trial.key, with(tries, other_options()), trial.job("other", 80))));
    const auto other_begun = [&] {
      return !read_file(trial.directory.file("other")).empty() || !other.running();
    };
    if (arrival == Arrival::during_another) {
      static_cast<void>(wait_until([&] { return other_begun() || !process.running(); }, 30s * slowness()));
      // A lease that a command has taken is there for the other to wait for.
      if (process.running()) proxy.deliver();
    }
    const Exit exit = process.wait(40s * slowness());
    if (exit == exited(0)) ++succeeded_;
    std::string wrong = judge(trial, exit, process);
    if (arrival == Arrival::during_another) {
      static_cast<void>(wait_until(other_begun, 30s * slowness()));
      proxy.deliver();
    }
    if (const Exit end = other.wait(40s * slowness()); end != exited(0))
      wrong += "; the other run ended with " + to_string(end) + ": " + other.err();
    if (arrival == Arrival::at_the_end) proxy.deliver();
    // Nothing keeps the lock for longer than a lease and its margin.
    const auto late = std::to_string((k_trial_ttl + k_margin + 5s * slowness()).count()) + "ms";
    const auto last =
        direct(with({"acquire", "--key", trial.key, "--ttl", "5s", "--wait", late}, other_options()));
    if (last.exit != exited(0))
      wrong += "; the last acquire ended with " + to_string(last.exit) + ": " + last.err;
    const std::string violation = exclusion_violation_despite_kills(read_intervals(trial.log()));
    if (!violation.empty()) wrong += "; " + violation + "\n" + read_file(trial.log());
    if (!process.tree().empty()) wrong += "; somebody is left of the tree";
    if (wrong.empty()) return {.struck = proxy.struck()};
    std::string where;
    for (const auto& packet : proxy.packets())
      where += packet.from_client ? (packet.command ? "C" : "c") : "s";
    return {.wrong = std::string(name_) + ", packet " + std::to_string(at) + " " + to_string(harm) +
                     (arrival == Arrival::during_another ? " during another" : "") + ": " + wrong +
                     "\n  exit " + to_string(exit) + ", it said: " + process.err() + "\n  packets " + where};
  }

  const char* name_;
  std::size_t at_once_;
  ServerDatabase database_;
  std::mutex mutex_;
  std::atomic<int> keys_ = 0, succeeded_ = 0;
};

// --- runs ---

class RunSweep : public Sweep {
 public:
  RunSweep(const char* name, int job_ms, Words options = {}, Words others = {})
      : Sweep(name, k_runs_at_once),
        job_ms_(job_ms),
        options_(std::move(options)),
        others_(std::move(others)) {}

 protected:
  [[nodiscard]] Words command(const Trial& trial) const override {
    return run_words(trial.key, with(run_options(), options()), trial.job("own", job_ms_));
  }
  [[nodiscard]] Words other_options() const override { return others_; }
  [[nodiscard]] const Words& options() const { return options_; }

  // 0: the job ran, once and to its end. On a slow machine the lease may be lost, which then is said.
  std::string judge(const Trial& trial, Exit exit, const Process& process) override {
    const pid_t own = pid_in(trial.directory.file("own"));
    bool whole = false;
    for (const auto& one : read_intervals(trial.log())) whole = whole || (one.pid == own && one.end_ns != 0);
    if (exit == exited(0)) return whole ? "" : "; its job did not run";
    const std::string why = last_line(process.err());
    // Released once for the server, not at all by the second answer, and another's by the look that followed.
    if (trial.harm == Harm::twice && exit == exited(76) && whole && says(why, "the job had ended by then"))
      return "";
    const bool slow = says(why, "not be renewed in time") || says(why, "held up") || says(why, "has expired");
    return exit == exited(76) && slow ? "" : "; ended with " + to_string(exit);
  }

 private:
  int job_ms_;
  Words options_, others_;
};

class ExistingRow : public RunSweep {
  using RunSweep::RunSweep;
  void set_up(Trial& trial) override { static_cast<void>(direct(run_words(trial.key, {}, {"true"}))); }
};

class Expired : public RunSweep {
  using RunSweep::RunSweep;
  void set_up(Trial& trial) override {
    static_cast<void>(direct({"acquire", "--key", trial.key, "--ttl", "5s"}));
    ask([&](Database& database) {
      database.age_until_expired(trial.key, 10s);
      return 0;
    });
  }
};

// Another owner holds the lock when the run comes; the run's hook releases the lock once the run waits.
class Contended : public RunSweep {
  using RunSweep::RunSweep;
  void set_up(Trial& trial) override {
    trial.owner = owner_of_new({"acquire", "--key", trial.key, "--ttl", "60s"});
  }
  [[nodiscard]] Words command(const Trial& trial) const override {
    const Spawn direct = spawn({"release", "--key", trial.key, "--owner", trial.owner});
    const std::string release = "export '" + direct.env.front() + "'; exec " + quoted(direct.argv);
    return run_words(trial.key, with(with(run_options(), options()), {"--on-wait", release}),
                     trial.job("own", 50));
  }
};

// A run that leaves if a newer one is granted the lock, as while its place does not count because the network
// held it up.
class Newest : public Contended {
 public:
  Newest(const char* name, int job_ms) : Contended(name, job_ms, {"--line", "newest"}) {}

 private:
  std::string judge(const Trial& trial, Exit exit, const Process& process) override {
    const bool began = pid_in(trial.directory.file("own")) > 0;
    if (exit == exited(75) && says(process.err(), "a newer run has come") && !began) return "";
    return RunSweep::judge(trial, exit, process);
  }
};

// One place of two is taken for good.
class Slots : public RunSweep {
  using RunSweep::RunSweep;
  void set_up(Trial& trial) override {
    static_cast<void>(direct({"acquire", "--key", trial.key, "--ttl", "1h", "--slots", "2"}));
  }
};

class SeveralKeys : public RunSweep {
  using RunSweep::RunSweep;
  [[nodiscard]] Words command(const Trial& trial) const override {
    return run_words(trial.key, with(run_options(), {"--key", trial.key + "-second"}), trial.job("own", 50));
  }
};

// The first of two members is taken for good.
class Pool : public RunSweep {
  using RunSweep::RunSweep;
  static std::string taken(const Trial& trial) { return trial.key + "-taken"; }
  void set_up(Trial& trial) override {
    static_cast<void>(direct({"acquire", "--key", taken(trial), "--ttl", "1h"}));
  }
  [[nodiscard]] Words command(const Trial& trial) const override {
    const Words pool{"run", "--any", taken(trial), "--any", trial.key};
    return with(with(with(pool, run_options()), {"--"}), trial.job("own", 50));
  }
};

// The job is a run of the same key itself.
class Nested : public RunSweep {
 public:
  explicit Nested(const char* name) : RunSweep(name, 0) {}
  [[nodiscard]] Words command(const Trial& trial) const override {
    const Words inner = run_words(trial.key, run_options(), trial.job("own", 50));
    return run_words(trial.key, run_options(), with({dblock_binary()}, inner));
  }
};

TEST_CASE("each packet of a run of an existing lock harmed", "[server][sweep][safety]") {
  ExistingRow("a run of an existing lock", 50).go();
}
TEST_CASE("each packet of a run of a new lock harmed", "[server][sweep][safety]") {
  RunSweep("a run of a new lock", 50).go();
}
TEST_CASE("each packet of a run with renewals harmed", "[server][sweep][safety][other-servers]") {
  ExistingRow("a run with renewals", 650).go();
}
TEST_CASE("each packet of a takeover harmed", "[server][sweep][safety]") {
  Expired("a takeover", 50).go();
}
TEST_CASE("each packet of a run that waits in line harmed", "[server][sweep][safety][other-servers]") {
  Contended("a run that waits", 50).go();
}
TEST_CASE("each packet of a run that waits as the newest harmed", "[server][sweep][safety]") {
  Newest("a run that waits as the newest", 50).go();
}
TEST_CASE("each packet of a run of a pool harmed", "[server][sweep][safety]") {
  Pool("a run of a pool", 50).go();
}
TEST_CASE("each packet of a reader harmed", "[server][sweep][safety]") {
  ExistingRow("a reader", 50, {"--shared"}).go();
}
TEST_CASE("each packet of a run of one slot harmed", "[server][sweep][safety][other-servers]") {
  Slots("a run of one slot", 50, {"--slots", "2"}, {"--slots", "2"}).go();
}
TEST_CASE("each packet of a run of several keys harmed", "[server][sweep][safety][other-servers]") {
  SeveralKeys("a run of several keys", 50).go();
}
TEST_CASE("each packet of a run inside a run harmed", "[server][sweep][safety][other-servers]") {
  Nested("a run inside a run").go();
}

// --- commands for scripts ---

class Acquire : public Sweep {
  using Sweep::Sweep;
  [[nodiscard]] Words command(const Trial& trial) const override {
    return with({"acquire", "--key", trial.key, "--wait", "20s"}, lease_options());
  }
  // Reported: held by the owner who was printed. Not reported: nothing printed.
  std::string judge(const Trial& trial, Exit exit, const Process& process) override {
    const auto printed = lines(process.out());
    if (exit != exited(0) && !printed.empty()) return "; failed, but printed";
    const bool slow = says(process.err(), "held up for its whole TTL") ||
                      says(process.err(), "its lease ended before it could be reported");
    if (exit == exited(76) && slow && lasted_a_lease(trial)) return "";
    if (exit != exited(0)) return "; ended with " + to_string(exit);
    const std::string owner =
        ask([&](Database& database) { return database.column(trial.key, "lock_value"); });
    return printed.size() == 1 && printed.front() == owner
               ? ""
               : "; printed " + process.out() + ", but held by " + owner;
  }
};

// Tries once; that the database could not be reached is an honest answer.
class Renew : public Sweep {
  using Sweep::Sweep;
  void set_up(Trial& trial) override {
    trial.owner = owner_of_new(with({"acquire", "--key", trial.key}, lease_options()));
  }
  [[nodiscard]] Words command(const Trial& trial) const override {
    return {"renew", "--key", trial.key, "--owner", trial.owner, "--ttl", "3s"};
  }
  std::string judge(const Trial& trial, Exit exit, const Process&) override {
    if (exit == exited(69)) return "";
    if (exit == exited(76) && lasted_a_lease(trial)) return "";
    if (exit != exited(0)) return "; ended with " + to_string(exit);
    const bool renewed = ask([&](Database& database) {
      // Or its time is over by now, on a slow machine.
      return database.column(trial.key, "lock_value") != trial.owner ||
             database.column(trial.key, "ttl_us") == "3000000";
    });
    return renewed ? "" : "; reported, but not renewed";
  }
};

class Release : public Sweep {
  using Sweep::Sweep;
  void set_up(Trial& trial) override {
    trial.owner = owner_of_new(with({"acquire", "--key", trial.key}, lease_options()));
  }
  [[nodiscard]] Words command(const Trial& trial) const override {
    return {"release", "--key", trial.key, "--owner", trial.owner};
  }
  std::string judge(const Trial& trial, Exit exit, const Process& process) override {
    if (exit == exited(69)) return "";
    if (exit == exited(76) && lasted_a_lease(trial) && says(process.err(), "has expired")) return "";
    // 76: done twice, or too late; what was heard of is then that the lock is not ours any more.
    if (exit != exited(0) && exit != exited(76)) return "; ended with " + to_string(exit);
    const std::string owner =
        ask([&](Database& database) { return database.column(trial.key, "lock_value"); });
    return owner != trial.owner ? "" : "; reported, but not released";
  }
};

// A report is true; another run waits through the pause.
class Pauses : public Sweep {
 public:
  Pauses(const char* name, bool ends) : Sweep(name), ends_(ends) {}

 private:
  const milliseconds length_ = 3s * slowness();
  [[nodiscard]] Words pause(const Trial& trial) const {
    return {"pause", "--key", trial.key, "--for", std::to_string(length_.count()) + "ms"};
  }
  void set_up(Trial& trial) override {
    if (ends_) static_cast<void>(direct(pause(trial)));
  }
  [[nodiscard]] Words command(const Trial& trial) const override {
    return ends_ ? Words{"resume", "--key", trial.key} : pause(trial);
  }
  std::string judge(const Trial& trial, Exit exit, const Process&) override {
    if (exit == exited(69)) return "";
    // A machine that stands still for as long as the pause lasts sees its end.
    if (!ends_ && exit == exited(64) && lasted(trial, length_)) return "";
    if (exit != exited(0)) return "; ended with " + to_string(exit);
    const std::string row = "SELECT COUNT(*) FROM dblock_pause WHERE pause_key=" + sql_hex(trial.key);
    const auto rows = ask([&](ServerDatabase& database) {
      return database.number(ends_ ? row + " AND end_time>UTC_TIMESTAMP(6)" : row);
    });
    if (!ends_ && rows == 0 && lasted(trial, length_)) return "";
    return rows == (ends_ ? 0 : 1) ? "" : "; reported, but there are " + std::to_string(rows) + " pauses";
  }

  bool ends_;
};

TEST_CASE("each packet of acquire harmed", "[server][sweep][safety]") {
  Acquire("acquire").go();
}
TEST_CASE("each packet of renew harmed", "[server][sweep][safety]") {
  Renew("renew").go();
}
TEST_CASE("each packet of release harmed", "[server][sweep][safety]") {
  Release("release").go();
}
TEST_CASE("each packet of pause harmed", "[server][sweep][safety][other-servers]") {
  Pauses("pause", false).go();
}
TEST_CASE("each packet of resume harmed", "[server][sweep][safety]") {
  Pauses("resume", true).go();
}

}  // namespace
}  // namespace dblock::test
