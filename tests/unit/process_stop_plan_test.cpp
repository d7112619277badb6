#include "process/guardian/stop_plan.hpp"
#include "support/catch.hpp"

namespace dblock::process {

using namespace std::chrono_literals;

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
  plan.begin_stop(BootTime{50s});
  CHECK(plan.stopping());
  CHECK(plan.kill_at() == BootTime{54s});
  StopPlan late(4s, 1s);
  late.set_deadline(BootTime{100s});
  late.begin_stop(BootTime{97s});
  CHECK(late.kill_at() == BootTime{99s});
}

TEST_CASE("a stop under way is not prolonged by a second request or a late renewal", "[safety]") {
  StopPlan plan(4s, 1s);
  plan.set_deadline(BootTime{100s});
  plan.begin_stop(BootTime{50s});
  plan.begin_stop(BootTime{53s});
  plan.set_deadline(BootTime{500s});
  CHECK(plan.kill_at() == BootTime{54s});
}

}  // namespace dblock::process
