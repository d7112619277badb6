// A line of a hundred runs of one key while everything that can befall them does: kill -9 and SIGSTOP of any
// of their processes, and on a server KILL of their connections. No two jobs are ever alive at once, tokens
// rise, everyone who was left alone gets his turn, and nothing is left behind.
//
// The acts are drawn from a seed, which a failure shows; DBLOCK_TEST_SEED draws the same ones again.
#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <optional>
#include <random>
#include <sstream>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/local_file.hpp"
#include "support/overlap.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

using std::chrono::steady_clock;

constexpr milliseconds k_ttl = 3s;
constexpr int k_most_acts = 160;
constexpr int k_job_beyond_any_lease = 60'000;
constexpr int k_notices_lost_lease = 1000;    // some heartbeats
constexpr milliseconds k_clock_drift = 20ms;  // what two clocks may differ by after a lease's time

// What a run may be hit by. Of dblock and its guardian only one is hit at a time: whoever is left stops the
// job in time, and with nobody left a lock can promise nothing. Both may be killed, since the kernel then
// stops the job. dblock continues a stopped guardian, and the guardian a stopped job.
enum class Act { kill_dblock, kill_both, kill_job, kill_guardian, stop_dblock, stop_guardian, stop_job };

struct Run {
  Process process;
  std::optional<Act> fate{};         // its job ends only when this makes somebody stop it
  std::vector<Exit> may_end_with{};  // besides what any run may
  bool hit = false;
  pid_t stopped = 0;  // its process that is continued when the time has come
  steady_clock::time_point stopped_until{};
};

// The runs' sessions on a server.
class Sessions {
 public:
  explicit Sessions(ServerDatabase& database) : database_(database) {}
  void kill_one(std::size_t which) {
    const auto ids = database_.sessions();
    if (!ids.empty()) database_.kill_session(ids[which % ids.size()]);
  }
  void kill_idle() {
    for (const auto& id : database_.sessions("command = 'Sleep'")) database_.kill_session(id);
  }
  [[nodiscard]] std::size_t count() { return database_.sessions().size(); }

 private:
  ServerDatabase& database_;
};

class Storm {
 public:
  Storm(const Database& database, Sessions* sessions) : database_(database), sessions_(sessions) {}

  void gather() {
    const std::string owner = take(database_, "k", {"--ttl", "1h"});
    const std::size_t crowd = 100 / static_cast<std::size_t>(slowness());
    const std::size_t every = crowd / k_fates.size();
    for (std::size_t i = 0; i < crowd; ++i) {
      const auto draw = random_();
      const auto some_ms = 1 + static_cast<int>(draw % 20 * (draw / 20 % 20));
      if (i % every == 3 && i / every < k_fates.size())
        start(k_fates[i / every], k_job_beyond_any_lease);
      else
        start({}, i % every == 4 ? k_notices_lost_lease : some_ms);
    }
    REQUIRE(wait_until(
        [&] {
          return std::ranges::all_of(runs_,
                                     [](const auto& run) { return says(run->process.err(), "waiting"); });
        },
        60s * slowness()));
    release_lease(database_, owner);
  }

  // Until all have ended, or have had far more than enough time.
  void rage() {
    const auto end = started_ + 100s * slowness();
    while (steady_clock::now() < end &&
           std::ranges::any_of(runs_, [](auto& run) { return run->process.running(); })) {
      go_on(steady_clock::now());
      stage();
      if (acts_ < k_most_acts && steady_clock::now() >= next_act_) {
        act();
        next_act_ = steady_clock::now() + milliseconds(10 + random_() % 150);
      }
      pause_for(5ms);
    }
    go_on(steady_clock::time_point::max());
  }

  void check_ends() {
    std::size_t succeeded = 0;
    for (const auto& run : runs_) {
      const Exit exit = run->process.wait(10s * slowness());
      INFO("pid " << run->process.pid() << (run->hit ? ", hit, " : ", ") << exit << ": "
                  << run->process.err());
      CHECK(may_end_so(*run, exit));
      CHECK(soon_gone(run->process));
      succeeded += exit == exited(0) ? 1 : 0;
    }
    const auto intervals = read_intervals(log());
    const auto whole = std::ranges::count_if(intervals, [](const Interval& one) { return one.end_ns != 0; });
    CHECK(succeeded > runs_.size() / 3);
    CHECK(static_cast<std::size_t>(whole) >= succeeded);
  }

  // The stopped holder's lease, which nobody could end, was taken over not before its time.
  void check_takeover() const {
    if (!outlived_) return;  // it had lost its lease on a slow machine before it could be stopped
    const auto intervals = read_intervals(log());
    const auto holder = std::ranges::find(intervals, outlived_->job, &Interval::pid);
    REQUIRE(holder != intervals.end());
    CHECK(holder->end_ns == 0);
    if (const auto next = std::next(holder); next != intervals.end())
      CHECK(next->begin_ns >= outlived_->kept_until_ns);
  }

  void check_afterwards() const {
    const auto late = std::to_string((k_ttl + machine_delay() + 5s * slowness()).count()) + "ms";
    const auto last = dblock(database_, run_words("k", {"--wait", late}, interval_job(log(), 1)));
    INFO(last.err);
    CHECK(last.exit == exited(0));
    CHECK_FALSE(database_.has_holder("k"));
    CHECK(inspected(database_, {"--key", "k", "--all"}).at("locks").at(0).at("waiters").empty());
    CHECK(exclusion_violation_despite_kills(read_intervals(log())) == "");
  }

  [[nodiscard]] std::string story() const {
    return "DBLOCK_TEST_SEED=" + std::to_string(seed_) + "\n" + story_.str() + "all ended after " + elapsed();
  }

 private:
  static constexpr std::array k_fates{Act::stop_dblock, Act::kill_guardian, Act::kill_both, Act::kill_dblock};

  [[nodiscard]] std::string log() const { return directory_.file("log"); }
  [[nodiscard]] std::string elapsed() const {
    return std::to_string(std::chrono::duration_cast<milliseconds>(steady_clock::now() - started_).count()) +
           " ms";
  }

  void start(std::optional<Act> fate, int job_ms) {
    // Where all who could stop the job are killed, the kernel stops it, but would not stop its child.
    const std::string habit = fate && *fate != Act::kill_both ? "family" : "interval";
    const auto margin_ms = std::to_string(machine_delay().count()) + "ms";
    const Words options{"-v",    "--wait",       "forever", "--ttl",    "3s",     "--heartbeat",
                        "300ms", "--kill-grace", "500ms",   "--margin", margin_ms};
    const Words job{job_binary(), habit, log(), std::to_string(job_ms)};
    runs_.push_back(
        std::make_unique<Run>(Run{Process(dblock_spawn(database_, run_words("k", options, job))), fate}));
  }

  void go_on(steady_clock::time_point now) {
    for (const auto& run : runs_) {
      if (run->stopped == 0 || run->stopped_until > now) continue;
      ::kill(run->stopped, SIGCONT);
      run->stopped = 0;
    }
  }

  // A run meets its fate as soon as its job is there.
  void stage() {
    const auto intervals = read_intervals(log());
    if (intervals.empty() || intervals.back().end_ns != 0) return;
    const pid_t job = intervals.back().pid;
    Run* const run = find(proc_info(proc_info(job).parent).parent);
    if (run == nullptr || !run->fate || run->hit) return;
    hit(*run, *run->fate, k_ttl + machine_delay() + 500ms);
    if (run->fate != Act::stop_dblock) return;
    const long long left = database_.expires_micros("k") - realtime_micros();
    const std::chrono::nanoseconds more = machine_delay() - k_clock_drift;
    outlived_ = {job, boot_nanos() + left * 1000 + more.count()};
    // The next in line sleeps until this session ends, and looks at the lock only now and then.
    if (sessions_ != nullptr) sessions_->kill_idle();
  }

  void act() {
    ++acts_;
    const auto whom = random_(), which = random_(), session = random_(), length = random_();
    if (sessions_ != nullptr && session % 5 == 0) {
      story_ << elapsed() << ": KILL of a session\n";
      return sessions_->kill_one(whom);
    }
    constexpr std::array wheel{Act::kill_dblock,   Act::kill_dblock, Act::kill_both,     Act::kill_job,
                               Act::kill_guardian, Act::stop_dblock, Act::stop_dblock,   Act::stop_dblock,
                               Act::stop_dblock,   Act::stop_dblock, Act::stop_guardian, Act::stop_job};
    const Act act = wheel[which % wheel.size()];
    Run* const run = whom % 2 == 0 ? holder() : runs_[whom / 2 % runs_.size()].get();
    if (run == nullptr || run->fate || run->stopped != 0 || !run->process.running()) return;
    if (act <= Act::kill_guardian && ++kills_ > runs_.size() / 4) return;
    const double share = static_cast<double>(length % 1000) / 1000;  // short ones more often than long ones
    hit(*run, act, 100ms + milliseconds(static_cast<int>(share * share * share * 3900)));
  }

  [[nodiscard]] Run* holder() {
    const std::string pid = database_.column("k", "holder_pid");
    return find(static_cast<pid_t>(std::atol(pid.c_str())));
  }

  [[nodiscard]] Run* find(pid_t dblock) {
    const auto found =
        std::ranges::find_if(runs_, [&](const auto& run) { return run->process.pid() == dblock; });
    return found == runs_.end() || !(*found)->process.running() ? nullptr : found->get();
  }

  void hit(Run& run, Act act, milliseconds length) {
    const pid_t dblock = run.process.pid();
    const pid_t guardian = only(children_of(dblock));
    const pid_t job = guardian == 0 ? 0 : only(children_of(guardian));
    run.hit = true;
    switch (act) {
      case Act::kill_dblock:
        return send(SIGKILL, "dblock's group", {-dblock}, run, killed_by(SIGKILL));
      case Act::kill_both:
        return send(SIGKILL, "dblock and guardian", {dblock, guardian}, run, killed_by(SIGKILL));
      case Act::kill_job:
        return send(SIGKILL, "the job's group", {-job}, run, killed_by(SIGKILL));
      case Act::kill_guardian:
        return send(SIGKILL, "guardian", {guardian}, run, exited(70));
      case Act::stop_dblock:
        run.stopped = dblock;
        run.stopped_until = steady_clock::now() + length;
        return send(SIGSTOP, "dblock for " + std::to_string(length.count()) + " ms", {dblock}, run,
                    exited(76));
      case Act::stop_guardian:
        run.stopped = guardian;
        run.stopped_until = steady_clock::now() + length;
        return send(SIGSTOP, "guardian", {guardian}, run, {});
      case Act::stop_job:
        return send(SIGSTOP, "job", {job}, run, {});
    }
  }

  static pid_t only(const std::vector<pid_t>& processes) { return processes.empty() ? 0 : processes.front(); }

  void send(int signal, const std::string& to, const std::vector<pid_t>& whom, Run& run,
            const std::optional<Exit>& may_end_with) {
    story_ << elapsed() << " " << run.process.pid() << ": " << ::strsignal(signal) << " " << to << "\n";
    if (may_end_with) run.may_end_with.push_back(*may_end_with);
    for (const pid_t one : whom) {
      if (one != 0) ::kill(one, signal);
    }
  }

  [[nodiscard]] static bool may_end_so(const Run& run, Exit exit) {
    if (exit == exited(0)) return !run.fate;
    if (std::ranges::find(run.may_end_with, exit) != run.may_end_with.end()) return true;
    // On a slow machine a renewal comes late and the job is stopped for it: no fault of dblock's.
    const std::string why = last_line(run.process.err());
    return exit == exited(76) &&
           (says(why, "not be renewed in time") || says(why, "has expired") || says(why, "held up"));
  }

  const Database& database_;
  Sessions* sessions_;  // none with the embedded store
  const TempDir directory_;
  const unsigned seed_ = chosen_seed();
  std::mt19937 random_{seed_};
  std::vector<std::unique_ptr<Run>> runs_;
  const steady_clock::time_point started_ = steady_clock::now();
  steady_clock::time_point next_act_{};
  int acts_ = 0;
  std::size_t kills_ = 0;
  struct Outlived {
    pid_t job;
    long long kept_until_ns;
  };
  std::optional<Outlived> outlived_;
  std::ostringstream story_;
};

void survive(Storm& storm) {
  storm.gather();
  storm.rage();
  INFO(storm.story());
  storm.check_ends();
  storm.check_takeover();
  storm.check_afterwards();
}

TEST_CASE("a hundred waiters in a storm of kill -9 and SIGSTOP and lost connections never overlap",
          "[server][storm][safety]") {
  ServerDatabase database;
  Sessions sessions(database);
  Storm storm(database, &sessions);
  survive(storm);
  CHECK(wait_until([&] { return sessions.count() == 0; }));
}

TEST_CASE("a hundred waiters of the embedded store in a storm of kill -9 and SIGSTOP never overlap",
          "[local][storm][safety]") {
  const Database database;
  Storm storm(database, nullptr);
  survive(storm);
  CHECK(sqlite_value(file_of(database), "PRAGMA integrity_check") == "ok");
}

}  // namespace
}  // namespace dblock::test
