#include "campaign/faults.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <limits>
#include <utility>

#include "support/proc_tree.hpp"

namespace dblock::campaign {
namespace {

using namespace std::chrono_literals;

constexpr Nanos k_millisecond = 1'000'000;
constexpr Nanos k_for_ever = std::numeric_limits<Nanos>::max();

// Of dblock and its guardian only one is hit: whoever is left stops the job in time, and with nobody left a
// lock can promise nothing. Both may be killed, since the kernel then stops the job. As often as they are
// named.
constexpr std::array k_wheel{"kill dblock", "kill dblock", "kill both",     "kill both",
                             "kill both",   "kill job",    "kill guardian", "stop dblock",
                             "stop dblock", "stop dblock", "stop guardian", "stop job"};

constexpr int k_sure_orphans = 3;

pid_t only(const std::vector<pid_t>& processes) {
  return processes.empty() ? 0 : processes.front();
}

}  // namespace

Faults::Faults(World& world, Stage& stage) : world_(world), stage_(stage), random_(world.options.seed) {}

void Faults::step() {
  const Nanos time = now();
  for (std::size_t i = 0; i < under_way_.size();) {
    if (under_way_[i].until > time) {
      ++i;
      continue;
    }
    const auto over = std::move(under_way_[i].trouble.over);
    under_way_.erase(under_way_.begin() + static_cast<long>(i));
    over();
  }
  if (time >= next_hit_) {
    next_hit_ = time + static_cast<Nanos>(30 + random_() % 250) * k_millisecond;
    world_.targets.pick(random_, [this](Target& target) { hit(target); });
  }
  if (time >= next_trouble_) {
    next_trouble_ = time + static_cast<Nanos>(300 + random_() % 2500) * k_millisecond;
    if (auto trouble = stage_.trouble(random_)) begin(std::move(*trouble));
  }
}

void Faults::heal() {
  for (auto& one : std::exchange(under_way_, {})) one.trouble.over();
  stage_.heal();
}

void Faults::begin(Trouble trouble) {
  tell(trouble.what, 0);
  under_way_.push_back({now() + trouble.length.count() * k_millisecond, std::move(trouble)});
}

void Faults::tell(const std::string& what, int op) {
  ++done_[what];
  world_.history.add({.kind = "fault", .t = now(), .op = op, .what = what});
}

void Faults::dark(int op, Nanos from, Nanos until) const {
  if (op != 0) world_.history.add({.kind = "dark", .t = from, .until = until, .op = op});
}

// Most of what is under way are applications, and runs that wait. Without this most faults would be theirs,
// and few would strike a job at work.
bool Faults::passed_over(const Target& target, std::uint64_t draw) const {
  if (target.kind == Target::Kind::application) return draw % 2 == 0;
  return target.kind == Target::Kind::run && draw % 4 != 0 && !is_at_work(target);
}

bool Faults::is_at_work(const Target& target) const {
  return std::filesystem::exists(LifeFile::path(world_.options.directory, target.op));
}

// A command of a script and an application have no guardian, and nothing that runs on without them.
void Faults::hit(Target& target) {
  const auto draw = random_(), length = random_();
  if (target.hit || target.op == 0) return;
  if (passed_over(target, draw >> 32)) {
    next_hit_ = now() + 10 * k_millisecond;
    return;
  }
  if (target.kind == Target::Kind::run) return hit_run(target, draw, length);
  const bool application = target.kind == Target::Kind::application;
  const bool killed = draw % (application ? 3 : 2) == 0;
  const std::string what =
      std::string(killed ? "kill " : "stop ") + (application ? "application" : "a script's command");
  if (!wanted(world_.options, what)) return;
  if (killed) return kill(target, what, {target.pid});
  stop(target, what, target.pid, application ? some_freeze(length) : milliseconds(100 + length % 3000));
}

milliseconds Faults::some_freeze(std::uint64_t length) const {
  const double share = static_cast<double>(length % 1000) / 1000;  // short ones more often than long ones
  const auto most = static_cast<double>(world_.options.ttl.count() * 3);
  return milliseconds(100 + static_cast<int>(share * share * most));
}

void Faults::hit_run(Target& target, std::uint64_t draw, std::uint64_t length) {
  std::vector<std::string> acts;
  std::ranges::copy_if(k_wheel, std::back_inserter(acts),
                       [this](const char* act) { return wanted(world_.options, act); });
  if (acts.empty()) return;
  const pid_t guardian = only(test::children_of(target.pid));
  const pid_t job = guardian == 0 ? 0 : only(test::children_of(guardian));
  // The first jobs at work that are struck lose their dblock, so that every campaign has some.
  const bool orphans =
      job != 0 && orphaned_ < k_sure_orphans && is_at_work(target) && acts.front() == k_wheel.front();
  if (orphans) ++orphaned_;
  const std::string what = orphans ? acts.front() : acts[draw % acts.size()];
  const milliseconds time = some_freeze(length);
  if (what == "kill dblock") kill(target, what, {target.pid});
  if (what == "kill both" && target.sure_to_die && guardian != 0) kill(target, what, {target.pid, guardian});
  if (what == "kill job" && job != 0) kill(target, what, {job});
  if (what == "kill guardian" && guardian != 0) kill(target, what, {guardian});
  if (what == "stop dblock") stop(target, what, target.pid, time);
  if (what == "stop guardian" && guardian != 0) stop(target, what, guardian, time);
  if (what == "stop job" && job != 0) stop(target, what, job, 100ms);
}

void Faults::kill(Target& target, const std::string& what, const std::vector<pid_t>& whom) {
  target.hit = true;
  for (const pid_t pid : whom) ::kill(pid, SIGKILL);
  if (whom.front() == target.pid && target.kind == Target::Kind::run) dark(target.op, now(), k_for_ever);
  tell(what, target.op);
}

void Faults::stop(Target& target, const std::string& what, pid_t whom, milliseconds length) {
  target.hit = true;
  ::kill(whom, SIGSTOP);
  tell(what, target.op);
  // Nobody but dblock renews, or the application itself.
  const int in_the_dark = whom == target.pid ? target.op : 0;
  under_way_.push_back(
      {now() + length.count() * k_millisecond, {what, length, [this, whom, in_the_dark, from = now()] {
                                                  dark(in_the_dark, from, now());
                                                  ::kill(whom, SIGCONT);
                                                }}});
}

}  // namespace dblock::campaign
