// The supervisor takes over a process's signals and children, so each case runs in a child of its own.
#include <functional>
#include <thread>

#include "child.hpp"
#include "process/supervisor.hpp"
#include "support/catch.hpp"

namespace dblock::process {
namespace {

using namespace std::chrono_literals;

JobSpec shell(const std::string& script) {
  JobSpec spec;
  spec.executable = "/bin/sh";
  spec.argv = {"sh", "-c", script};
  spec.kill_grace = 1s;
  spec.slack = 500ms;
  return spec;
}

JobEnd supervise(const JobSpec& spec, BootTime deadline) {
  const auto supervisor = Supervisor::start(spec, false, {});
  if (!supervisor) return {};
  (*supervisor)->set_deadline(deadline);
  JobEnd end = (*supervisor)->run_job({"DBLOCK_TOKEN=7"}, std::nullopt);
  (*supervisor)->dismiss_guardian();
  return end;
}

}  // namespace

TEST_CASE("a job that ends in time keeps its status and sees its environment", "[tsan]") {
  CHECK(in_child([] {
    const JobEnd end = supervise(shell("exit $DBLOCK_TOKEN"), BootClock::now() + 60s);
    return end.status == ExitStatus{false, 7} && end.stop.reason == Stop::Reason::none && end.tree_dead;
  }));
}

// I4: the deadline is looked at again between the grant and the exec.
TEST_CASE("a job whose deadline leaves no room for a stop is not started", "[tsan][safety]") {
  CHECK(in_child([] {
    const JobEnd end = supervise(shell("exit 0"), BootClock::now() + 1400ms);
    return !end.status && end.stop.reason == Stop::Reason::self_fence && end.tree_dead;
  }));
}

TEST_CASE("a job that outstays its deadline is dead before it", "[tsan][safety]") {
  CHECK(in_child([] {
    JobSpec spec = shell("trap '' TERM; sleep 60");
    spec.kill_grace = 300ms;
    spec.slack = 5s;  // what a busy machine may add
    const BootTime deadline = BootClock::now() + 7s;
    const JobEnd end = supervise(spec, deadline);
    return end.status == ExitStatus{true, SIGKILL} && end.stop.killed &&
           end.stop.reason == Stop::Reason::self_fence && end.tree_dead && BootClock::now() < deadline;
  }));
}

TEST_CASE("a revocation from another thread stops the job", "[tsan][safety]") {
  CHECK(in_child([] {
    const auto supervisor = Supervisor::start(shell("sleep 60"), false, {});
    if (!supervisor) return false;
    (*supervisor)->set_deadline(BootClock::now() + 60s);
    std::jthread other([&] { (*supervisor)->stop_lost(Stop::Reason::lost); });
    const JobEnd end = (*supervisor)->run_job({}, std::nullopt);
    (*supervisor)->dismiss_guardian();
    return end.stop.reason == Stop::Reason::lost && end.tree_dead;
  }));
}

}  // namespace dblock::process
