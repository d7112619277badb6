#include "process/guardian/stop_plan.hpp"
#include "support/catch.hpp"
#include "unit/long_stop.hpp"

namespace dblock::process {

namespace {

using namespace std::chrono_literals;
using Reason = Stop::Reason;

StopPlan long_plan() {
  return StopPlan(long_to_stop_spec());
}

}  // namespace

TEST_CASE("without a deadline or a request nothing is ever due", "[safety]") {
  const StopPlan plan(4s, 1s);
  CHECK_FALSE(plan.fence_due(BootTime{1000h}));
  CHECK_FALSE(plan.kill_due(BootTime{1000h}));
  CHECK_FALSE(plan.next_change());
}

TEST_CASE("a deadline makes the signal due a grace and the slack before it, the kill the slack before it",
          "[safety]") {
  StopPlan plan(4s, 1s);
  plan.set_deadline(BootTime{100s});
  CHECK(plan.next_change() == BootTime{95s});
  CHECK_FALSE(plan.fence_due(BootTime{95s} - 1ns));
  CHECK(plan.fence_due(BootTime{95s}));
  CHECK_FALSE(plan.kill_due(BootTime{99s} - 1ns));
  CHECK(plan.kill_due(BootTime{99s}));
}

TEST_CASE("a renewal moves the plan", "[safety]") {
  StopPlan plan(4s, 1s);
  plan.set_deadline(BootTime{100s});
  plan.set_deadline(BootTime{200s});
  CHECK_FALSE(plan.fence_due(BootTime{100s}));
  CHECK(plan.next_change() == BootTime{195s});
}

TEST_CASE("a requested stop gets its grace, but never beyond the deadline's kill", "[safety]") {
  StopPlan plan(4s, 1s);
  plan.set_deadline(BootTime{100s});
  plan.begin_stop(BootTime{50s}, Reason::lost);
  CHECK(plan.stopping());
  CHECK(plan.kill_at() == BootTime{54s});
  StopPlan late(4s, 1s);
  late.set_deadline(BootTime{100s});
  late.begin_stop(BootTime{97s}, Reason::lost);
  CHECK(late.kill_at() == BootTime{99s});
}

TEST_CASE("a stop under way is not prolonged by a second request or a late renewal", "[safety]") {
  StopPlan plan(4s, 1s);
  plan.set_deadline(BootTime{100s});
  plan.begin_stop(BootTime{50s}, Reason::lost);
  plan.begin_stop(BootTime{53s}, Reason::lost);
  plan.set_deadline(BootTime{500s});
  CHECK(plan.kill_at() == BootTime{54s});
}

TEST_CASE("a job that dblock is asked to stop has the stop grace while the lease is renewed", "[safety]") {
  for (const Reason why : {Reason::signal, Reason::parent, Reason::max_runtime}) {
    StopPlan plan = long_plan();
    plan.set_deadline(BootTime{100s});
    plan.begin_stop(BootTime{50s}, why);
    CHECK(plan.kill_at() == BootTime{99s});
    for (int renewed = 200; renewed <= 1000; renewed += 100)
      plan.set_deadline(BootTime{std::chrono::seconds(renewed)});
    CHECK(plan.kill_at() == BootTime{650s});
    CHECK_FALSE(plan.fence_kill_due(BootTime{650s}));
  }
}

TEST_CASE("whatever is left of the stop grace, the job is killed the slack before the deadline", "[safety]") {
  StopPlan plan = long_plan();
  plan.set_deadline(BootTime{100s});
  plan.begin_stop(BootTime{50s}, Reason::signal);
  CHECK_FALSE(plan.kill_due(BootTime{99s} - 1ns));
  CHECK(plan.kill_due(BootTime{99s}));
  CHECK(plan.fence_kill_due(BootTime{99s}));
}

TEST_CASE("a lease that is lost during the stop grace leaves the kill grace", "[safety]") {
  StopPlan plan = long_plan();
  plan.set_deadline(BootTime{1000s});
  plan.begin_stop(BootTime{50s}, Reason::signal);
  plan.begin_stop(BootTime{80s}, Reason::lost);
  CHECK(plan.kill_at() == BootTime{84s});
  StopPlan ending = long_plan();
  ending.begin_stop(BootTime{50s}, Reason::signal);
  ending.begin_stop(BootTime{649s}, Reason::lost);
  CHECK(ending.kill_at() == BootTime{650s});
}

TEST_CASE("a run that is replaced has the stop grace, but not beyond its last lease", "[safety]") {
  StopPlan plan = long_plan();
  plan.set_deadline(BootTime{100s});
  plan.begin_stop(BootTime{50s}, Reason::revoked);
  CHECK(plan.kill_at() == BootTime{99s});
}

}  // namespace dblock::process
