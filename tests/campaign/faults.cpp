#include "campaign/faults.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <limits>
#include <utility>

#include "support/proc_tree.hpp"

namespace dblock::campaign {
namespace {

using namespace std::chrono_literals;

constexpr Nanos k_millisecond = 1'000'000;
constexpr Nanos k_for_ever = std::numeric_limits<Nanos>::max();

// Of dblock and its guardian only one is hit: whoever is left stops the job in time, and with nobody left a
// lock can promise nothing. Both may be killed, since the kernel then stops the job.
enum class Act { kill_dblock, kill_both, kill_job, kill_guardian, stop_dblock, stop_guardian, stop_job };
constexpr std::array k_wheel{Act::kill_dblock, Act::kill_dblock, Act::kill_both,     Act::kill_both,
                             Act::kill_both,   Act::kill_job,    Act::kill_guardian, Act::stop_dblock,
                             Act::stop_dblock, Act::stop_dblock, Act::stop_guardian, Act::stop_job};

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
    if (world_.options.faults == "all" || world_.options.faults == "processes")
      world_.targets.pick(random_, [this](Target& target) { hit(target); });
  }
  if (time >= next_trouble_ && world_.options.faults != "processes" && world_.options.faults != "none") {
    next_trouble_ = time + static_cast<Nanos>(300 + random_() % 2500) * k_millisecond;
    if (auto trouble = stage_.trouble(random_)) begin(std::move(*trouble));
  }
}

void Faults::heal() {
  for (auto& one : std::exchange(under_way_, {})) one.trouble.over();
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

void Faults::hit(Target& target) {
  if (target.hit) return;
  if (target.run) return hit_run(target);
  // A command of a script has no guardian, and nothing that runs on without it.
  if (random_() % 2 == 0) {
    kill(target, "kill a script's command", {target.dblock});
  } else {
    stop(target, "stop a script's command", target.dblock, milliseconds(100 + random_() % 3000), false);
  }
}

void Faults::hit_run(Target& target) {
  const auto draw = random_(), length = random_();
  const pid_t guardian = only(test::children_of(target.dblock));
  const pid_t job = guardian == 0 ? 0 : only(test::children_of(guardian));
  const double share = static_cast<double>(length % 1000) / 1000;  // short ones more often than long ones
  const auto most = static_cast<double>(world_.options.ttl.count() * 3);
  const milliseconds time(100 + static_cast<int>(share * share * most));
  switch (k_wheel[draw % k_wheel.size()]) {
    case Act::kill_dblock:
      return kill(target, "kill dblock", {target.dblock});
    case Act::kill_both:
      if (target.sure_to_die && guardian != 0) kill(target, "kill both", {target.dblock, guardian});
      return;
    case Act::kill_job:
      if (job != 0) kill(target, "kill job", {job});
      return;
    case Act::kill_guardian:
      if (guardian != 0) kill(target, "kill guardian", {guardian});
      return;
    case Act::stop_dblock:
      return stop(target, "stop dblock", target.dblock, time, true);
    case Act::stop_guardian:
      if (guardian != 0) stop(target, "stop guardian", guardian, time, false);
      return;
    case Act::stop_job:
      if (job != 0) stop(target, "stop job", job, 100ms, false);
      return;
  }
}

void Faults::kill(Target& target, const std::string& what, const std::vector<pid_t>& whom) {
  target.hit = true;
  for (const pid_t pid : whom) ::kill(pid, SIGKILL);
  if (whom.front() == target.dblock && target.run) dark(target.op, now(), k_for_ever);
  tell(what, target.op);
}

void Faults::stop(Target& target, const std::string& what, pid_t whom, milliseconds length, bool renews) {
  target.hit = true;
  ::kill(whom, SIGSTOP);
  tell(what, target.op);
  under_way_.push_back({now() + length.count() * k_millisecond,
                        {what, length, [this, whom, renews, op = target.op, from = now()] {
                           if (renews) dark(op, from, now());
                           ::kill(whom, SIGCONT);
                         }}});
}

}  // namespace dblock::campaign
