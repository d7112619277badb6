// dblock, its guardian or both killed or frozen before every single system call that a run makes after the
// guardian's birth: while it connects and takes the lock, around the opening of the gate, while the job runs,
// is stopped (in its grace, or for a lost lease), and while the lock is released. Whoever comes next never
// has a job beside one of the first run's, whose tree holds the kernel's lock on the log, escaped daemons
// included.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <sstream>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/overlap.hpp"
#include "support/privilege.hpp"
#include "support/sweep.hpp"
#include "support/tracer.hpp"

namespace dblock::test {
namespace {

enum class Fate { kill_dblock, kill_guardian, kill_both, freeze_dblock, stop_guardian, freeze_both };

// A job that outlives dblock's death ends before anyone else may begin; here it is the time that dblock lets
// pass.
struct Story {
  const char* name;
  Words options;
  int job_ms;
  bool loses_lease = false;
  Exit end = exited(0);
};

constexpr int k_does_not_end = 60'000;
const Story k_plain{"a run to its end", {}, 200};
const Story k_grace{
    "a job that ignores the first signal", {"--max-runtime", "40ms"}, k_does_not_end, false, exited(124)};
const Story k_lost{"a lease that is revoked", {}, k_does_not_end, true, exited(76)};

bool kills_dblock(Fate fate) {
  return fate == Fate::kill_dblock || fate == Fate::kill_both;
}
bool lease_must_end(Fate fate) {
  return fate == Fate::kill_both || fate == Fate::freeze_dblock || fate == Fate::freeze_both;
}

// On an overloaded machine a guardian may be so late that dblock stops the job in its place, and the guardian
// too. Killed after that, dblock leaves nobody to release: as if both had been killed.
bool replaced_its_guardian(const Process& dblock) {
  return says(dblock.err(), "dblock stopped the job itself");
}

// DBLOCK_TEST_STRIKE="worker 98 40": this step alone, so many times; with " begun" after that: counted from
// the begin of the job.
std::vector<Step> chosen_steps() {
  const char* const told = std::getenv("DBLOCK_TEST_STRIKE");
  std::istringstream words(told != nullptr ? told : "");
  std::string who, begun;
  Step step;
  std::size_t times = 0;
  if (!(words >> who >> step.number >> times)) return {};
  step.after_begin = (words >> begun) && begun == "begun";
  step.who = who == "worker" ? Tracee::worker : who == "guardian" ? Tracee::guardian : Tracee::dblock;
  return std::vector<Step>(times, step);
}

// Enough to keep two processors busy, though much of a trial is waiting. Where one is frozen until the lock
// is another's, nearly all of it is.
constexpr std::size_t k_at_once = 8, k_frozen_at_once = 32;

// How long a process that a tracer has let go could have run: without the time for which the machine ran
// others in its place.
class OwnTime {
 public:
  explicit OwnTime(pid_t process) : process_(process) {}
  [[nodiscard]] std::chrono::nanoseconds until(long long boot_ns) const {
    return std::chrono::nanoseconds(boot_ns - begin_) - (kept_waiting_by_machine(process_) - waited_);
  }

 private:
  pid_t process_;
  long long begin_ = boot_nanos();
  std::chrono::nanoseconds waited_ = kept_waiting_by_machine(process_);
};

// A machine that is busy with other work holds the tracer up, and so the run that is traced. Where the lease
// has nearly ended before the guardian goes on, both are frozen. So a guardian whose job lived beside the
// next holder's is to blame where it had this time of its own: the margin, the job's grace and the slack.
milliseconds guardian_needs() {
  return machine_delay() + 250ms;
}

class Fire {
 public:
  Fire(const Story& story, Fate fate) : story_(story), fate_(fate) {
    if (!local_run()) shared_.emplace();
  }

  // Strikes at every step of each of `who`.
  void rage(const std::vector<Tracee>& who, std::size_t at_once = k_at_once) {
    const auto counts = count_steps();
    std::vector<Step> steps = chosen_steps();
    const bool all = steps.empty();
    for (const std::size_t begun : {0U, 1U}) {
      for (const Tracee one : all ? who : std::vector<Tracee>{}) {
        const auto count = static_cast<std::size_t>(counts.at(begun).at(static_cast<std::size_t>(one)));
        for (const std::size_t n : steps_of(count, static_cast<std::size_t>(slowness())))
          steps.push_back({one, static_cast<int>(n), begun == 1});
      }
    }
    const Swept swept = sweep(steps.size(), at_once, [&](std::size_t i) { return trial(steps[i]); });
    std::cout << story_.name << ": " << swept;
    for (const char* when = " (steps before the job's begin: dblock "; const auto& count : counts) {
      std::cout << when << count[0] << ", its worker " << count[1] << ", the guardian " << count[2];
      when = "; after it: ";
    }
    std::cout << "), " << with_job_ << " with a job alive, " << held_too_long_
              << " with the guardian held too long\n";
    INFO(summary(swept.failures));
    CHECK(swept.failures.empty());
    CHECK(swept.struck > 0);
    if (all) CHECK(with_job_ > 0);
  }

 private:
  // A run that nobody disturbs; a few of them, since they differ a little.
  StepCounts count_steps() {
    StepCounts most{};
    for (int runs = 0, held_up = 0; runs < 3;) {
      const TempDir directory;
      Store store(*this);
      TracedRun run(first(store.database, new_key(), directory.file("log")), directory.file("log"));
      run.run_to({});
      const Exit exit = run.process().wait();
      if (lost_for_tracing(exit) && ++held_up < 10) continue;
      INFO(exit << " " << run.process().err());
      REQUIRE(exit == story_.end);
      ++runs;
      for (const std::size_t begun : {0U, 1U}) {
        std::ranges::transform(most.at(begun), run.steps().at(begun), most.at(begun).begin(),
                               [](int a, int b) { return std::max(a, b); });
      }
    }
    return most;
  }

  // Tracing can hold a run up for longer than its short lease.
  [[nodiscard]] bool lost_for_tracing(Exit exit) const {
    return lease_must_end(fate_) && exit != story_.end && exit == exited(76);
  }

  // The server's for all trials, or an embedded store for each: who is frozen inside of a transaction keeps
  // its file locked, so that nobody else gets in.
  struct Store {
    explicit Store(Fire& fire)
        : own(fire.shared_ ? nullptr : std::make_unique<Database>()), database(own ? *own : *fire.shared_) {}
    std::unique_ptr<Database> own;
    Database& database;
  };

  std::string new_key() { return "k" + std::to_string(++keys_); }

  Spawn first(const Database& database, const std::string& key, const std::string& log) {
    const Words terms{"--wait",       "20s",
                      "--heartbeat",  "50ms",
                      "--kill-grace", "150ms",
                      "--leftovers",  "kill",
                      "--ttl",        lease_must_end(fate_) ? "1s" : "60s",
                      "--margin",     std::to_string(machine_delay().count()) + "ms"};
    // With both gone the kernel stops the job itself, and nobody stops its children.
    const std::string habit = fate_ == Fate::kill_both || fate_ == Fate::freeze_both ? "interval" : "brood";
    std::string job = "exec " + job_binary() + " " + habit + " " + log + " " + std::to_string(story_.job_ms);
    if (story_.loses_lease)
      job = dblock_binary() + " release --key " + key + " --force --token $DBLOCK_TOKEN >/dev/null 2>&1; " +
            job;
    return dblock_spawn(database, run_words(key, with(terms, story_.options), sh(job)));
  }

  // Strikes one run at `step`, while the next waits for the lock. What was wrong with it all.
  Verdict trial(const Step& step) {
    const std::string key = new_key();
    const TempDir directory;
    const std::string log = directory.file("log");
    Store store(*this);
    Database& database = store.database;
    TracedRun run(first(database, key, log), log);
    if (!run.run_to(step)) {
      const Exit exit = run.process().wait();
      if (exit == story_.end || lost_for_tracing(exit)) return {.struck = false};
      return {.wrong = told(step, run, "undisturbed, but another end: " + to_string(exit))};
    }
    const bool job_alive = begun_and_not_ended(log);
    if (job_alive) ++with_job_;
    const Words job{job_binary(), "interval", log, "100", directory.file("next")};
    // The guardian that has to stop a frozen dblock's job in time gets all the time that there is.
    const bool guardian_first = fate_ == Fate::freeze_dblock;
    if (guardian_first) strike(run);
    const OwnTime guardians(run.guardian());
    Process next(dblock_spawn(database, run_words(key, {"--wait", next_wait()}, job)));
    if (!guardian_first) strike(run);
    const long long kept_until =
        fate_ == Fate::kill_both && job_alive ? kept_until_ns(database, key, run.dblock()) : 0;
    auto guardian_had = std::chrono::nanoseconds::max();
    if (fate_ == Fate::freeze_dblock || fate_ == Fate::freeze_both) {
      // The next one's job must live through the return of the frozen one.
      static_cast<void>(
          wait_until([&] { return begun(directory, log) || !next.running(); }, 25s * slowness()));
      if (const long long at = begun_at(directory, log)) guardian_had = guardians.until(at);
      run.let_go();
    }
    const Exit next_exit = next.wait(40s * slowness());
    const Exit exit = run.process().wait(40s * slowness());
    std::string wrong;
    const bool lease_stays = kills_dblock(fate_) && replaced_its_guardian(run.process());
    const bool shut_out = may_have_been_shut_out(next_exit) || (lease_stays && next_exit == exited(75));
    if (next_exit != exited(0) && !shut_out)
      wrong += "the next run ended with " + to_string(next_exit) + ": " + next.err();
    wrong += judge(run, exit, directory, kept_until);
    if (!wrong.empty() && guardian_first && exit == exited(76) && guardian_had < guardian_needs()) {
      ++held_too_long_;
      return {.struck = false};
    }
    if (!soon_gone(run.process())) wrong += "; somebody is left of the tree";
    if (!lease_stays && !wait_until([&] { return !has_lease(database, key); }))
      wrong += "; the lock is not free";
    return {.wrong = wrong.empty() ? "" : told(step, run, wrong)};
  }

  void strike(TracedRun& run) {
    switch (fate_) {
      // The one that is left goes on at once: to wait for the death of the other may take as long as a disk
      // takes.
      case Fate::kill_dblock:
        ::kill(run.dblock(), SIGKILL);
        run.let_go(run.guardian());
        return run.kill({run.dblock()});
      case Fate::kill_guardian:
        ::kill(run.guardian(), SIGKILL);
        run.let_go(run.dblock());
        return run.kill({run.guardian()});
      case Fate::kill_both:
        return run.kill({run.guardian(), run.dblock()});
      case Fate::freeze_dblock:
        return run.let_go(run.guardian());
      case Fate::stop_guardian:
        ::kill(run.guardian(), SIGSTOP);
        return run.let_go();
      case Fate::freeze_both:
        return;
    }
  }

  // Exit code and jobs tell one truth.
  std::string judge(TracedRun& run, Exit exit, const TempDir& directory, long long kept_until) {
    const auto intervals = read_intervals(directory.file("log"));
    const pid_t next_pid = pid_in(directory.file("next"));
    std::vector<Interval> own, of_next;
    for (const auto& one : intervals) (one.pid == next_pid ? of_next : own).push_back(one);
    std::string wrong;
    if (own.size() > 1) wrong += "; its job ran twice";
    const bool whole = !own.empty() && own.front().end_ns != 0;
    if (!may_end_with(exit, !own.empty(), whole)) wrong += "; it ended with " + to_string(exit);
    // With both frozen nobody keeps the job from running on: only its token tells that it is late.
    if (fate_ != Fate::freeze_both) {
      const std::string violation = exclusion_violation_despite_kills(intervals);
      if (!violation.empty()) wrong += "; " + violation + "\n" + read_file(directory.file("log"));
    } else if (!own.empty() && !of_next.empty() && own.front().begin_ns < of_next.front().begin_ns &&
               own.front().token >= of_next.front().token) {
      wrong += "; tokens do not rise";
    }
    if (kept_until != 0 && !of_next.empty() && of_next.front().begin_ns < kept_until)
      wrong += "; taken over " + std::to_string((kept_until - of_next.front().begin_ns) / 1'000'000) +
               " ms too early";
    if (fate_ == Fate::kill_guardian && says(run.process().err(), "nothing was run") && !own.empty())
      wrong += "; it says that nothing was run";
    return wrong;
  }

  [[nodiscard]] bool may_end_with(Exit exit, bool began, bool whole) const {
    // The worker's last calls come while dblock ends, so that the kill may be too late.
    const bool had_ended = exit == story_.end && (exit != exited(0) || whole);
    if (kills_dblock(fate_)) return exit == killed_by(SIGKILL) || had_ended;
    if (exit == exited(0)) return story_.end == exited(0) && whole;
    if (exit == story_.end || exit == exited(76)) return true;
    if (fate_ == Fate::kill_guardian) return exit == exited(70);
    return fate_ != Fate::stop_guardian && exit == exited(69) && !began;
  }

  // Who is frozen inside of a transaction of the embedded store keeps its file locked, so that nobody else
  // gets in.
  [[nodiscard]] std::string next_wait() const {
    return std::to_string((5s * slowness()).count() + (lease_must_end(fate_) ? 2 : 15)) + "s";
  }
  [[nodiscard]] bool may_have_been_shut_out(Exit exit) const {
    return local_run() && (fate_ == Fate::freeze_dblock || fate_ == Fate::freeze_both) && exit == exited(69);
  }

  static bool begun_and_not_ended(const std::string& log) {
    const auto intervals = read_intervals(log);
    return !intervals.empty() && intervals.back().end_ns == 0;
  }
  static bool begun(const TempDir& directory, const std::string& log) {
    return begun_at(directory, log) != 0;
  }
  // The next one's job; 0: not yet.
  static long long begun_at(const TempDir& directory, const std::string& log) {
    const pid_t pid = pid_in(directory.file("next"));
    for (const auto& one : read_intervals(log)) {
      if (one.pid == pid) return one.begin_ns;
    }
    return 0;
  }

  std::string told(const Step& step, TracedRun& run, const std::string& wrong) const {
    return std::string(story_.name) + ", " + to_string(step) + " (dblock " + std::to_string(run.dblock()) +
           ", guardian " + std::to_string(run.guardian()) + "): " + wrong +
           "\n  it said: " + run.process().err();
  }

  // One that has not come to its end.
  bool has_lease(Database& database, const std::string& key) {
    const std::lock_guard lock(mutex_);
    return database.expires_micros(key) > realtime_micros();
  }
  // By the boot clock, when the lease of `holder` and its margin end. Who holds it is asked after it, since a
  // slow machine may have taken so long that it is the next one's by now.
  long long kept_until_ns(Database& database, const std::string& key, pid_t holder) {
    constexpr std::chrono::nanoseconds drift = 20ms;
    const std::lock_guard lock(mutex_);
    if (!database.has_holder(key)) return 0;
    const long long expires = database.expires_micros(key);
    if (database.column(key, "holder_pid") != std::to_string(holder)) return 0;
    const std::chrono::nanoseconds more = machine_delay() - drift;
    const long long now = boot_nanos();
    return now + (expires - realtime_micros()) * 1000 + more.count();
  }

  const Story& story_;
  const Fate fate_;
  std::optional<Database> shared_;
  std::mutex mutex_;
  std::atomic<int> keys_ = 0, with_job_ = 0, held_too_long_ = 0;
};

const std::vector<Tracee> k_everyone{Tracee::dblock, Tracee::worker, Tracee::guardian};

TEST_CASE("kill -9 of dblock at every step of a run", "[mariadb][sweep][safety]") {
  DBLOCK_NEEDS(why_no_trace());
  Fire(k_plain, Fate::kill_dblock).rage(k_everyone);
}

TEST_CASE("kill -9 of the guardian at every step of a run", "[mariadb][sweep][safety]") {
  DBLOCK_NEEDS(why_no_trace());
  Fire(k_plain, Fate::kill_guardian).rage(k_everyone);
}

TEST_CASE("kill -9 of dblock and guardian at every step of a run", "[mariadb][sweep][safety]") {
  DBLOCK_NEEDS(why_no_trace());
  Fire(k_plain, Fate::kill_both).rage(k_everyone);
}

TEST_CASE("dblock frozen at every step of a run, and back when the lock is another's",
          "[mariadb][sweep][safety]") {
  DBLOCK_NEEDS(why_no_trace());
  Fire(k_plain, Fate::freeze_dblock).rage(k_everyone, k_frozen_at_once);
}

TEST_CASE("the guardian stopped at every step of a run", "[mariadb][sweep][safety]") {
  DBLOCK_NEEDS(why_no_trace());
  Fire(k_plain, Fate::stop_guardian).rage(k_everyone);
}

TEST_CASE("dblock and guardian frozen at every step of a run, and back when the lock is another's",
          "[mariadb][sweep][safety]") {
  DBLOCK_NEEDS(why_no_trace());
  Fire(k_plain, Fate::freeze_both).rage(k_everyone, k_frozen_at_once);
}

TEST_CASE("kill -9 of dblock or guardian at every step of a job's grace and its end",
          "[mariadb][sweep][safety]") {
  DBLOCK_NEEDS(why_no_trace());
  for (const Fate fate : {Fate::kill_dblock, Fate::kill_guardian, Fate::stop_guardian})
    Fire(k_grace, fate).rage({Tracee::dblock, Tracee::guardian});
}

TEST_CASE("dblock frozen at every step of a job's grace and its end", "[mariadb][sweep][safety]") {
  DBLOCK_NEEDS(why_no_trace());
  Fire(k_grace, Fate::freeze_dblock).rage({Tracee::dblock, Tracee::guardian});
}

TEST_CASE("kill -9 of dblock or guardian at every step of a lost lease's stop", "[mariadb][sweep][safety]") {
  DBLOCK_NEEDS(why_no_trace());
  for (const Fate fate : {Fate::kill_dblock, Fate::kill_guardian})
    Fire(k_lost, fate).rage({Tracee::dblock, Tracee::guardian});
}

}  // namespace
}  // namespace dblock::test
