// The place in line in the life of a lease: kept from the grant until the release has ended.
#include "app/job_lease.hpp"

#include <algorithm>
#include <memory>

#include "lease_fakes.hpp"
#include "support/catch.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;
using Calls = std::vector<std::string>;

lease::AcquireRequest make_request() {
  return {*lease::Key::parse("k"), {}, lease::OwnerId{"me"}, lease::Kind::acquire, {60s, 3s, {}}, {}};
}

Result<lease::AcquireOutcome> grant(const lease::AcquireRequest& request) {
  return lease::Lease{request.key,      {},   request.owner, lease::Token{8}, request.terms,
                      BootClock::now(), false};
}

// A lease taken and given back again; what was called, in order.
Calls calls_of_a_lease(const test::FakeStore::Release& answer, ReleaseResult expected) {
  auto owned = std::make_unique<test::FakeStore>();
  test::FakeStore& store = *owned;
  test::FakeClock clock;
  test::FakeTurnstile line(clock, store);
  line.on_enter = lease::Turn::ours;
  line.on_leave = [&store] { store.calls.emplace_back("leave"); };
  store.line = &line;
  store.acquires = {grant};
  store.releases = {answer};
  const lease::AcquireRequest request = make_request();
  JobLease job(std::move(owned), request, {}, *lease::make_timing({60s, {}, {}, {}}), nullptr);
  job.start_acquire();
  SystemClock().wait_until(BootClock::now() + 20s, job.done());
  REQUIRE(job.grant());
  CHECK(line.has_place);
  CHECK(job.release({request.key, request.owner, lease::Token{8}}, {lease::Outcome::failed, 3}, 100ms) ==
        expected);
  CHECK_FALSE(line.has_place);
  return store.calls;
}

}  // namespace

// Not for the thread sanitizer: it does not see that polling done() orders the fakes' use by two threads.
TEST_CASE("a lease keeps its place in line until it has been released") {
  const auto released = [] { return Result<lease::ReleaseOutcome>(lease::Released{}); };
  CHECK(calls_of_a_lease(released, ReleaseResult::released) == Calls{"enter", "acquire", "release", "leave"});
}

TEST_CASE("a lease that cannot be released gives its place up after the last try") {
  const auto fails = [] { return Result<lease::ReleaseOutcome>(fail(Errc::unreachable, "away")); };
  const Calls calls = calls_of_a_lease(fails, ReleaseResult::unknown);
  CHECK(std::ranges::count(calls, "release") > 1);
  CHECK(std::ranges::count(calls, "leave") == 1);
  CHECK(calls.back() == "leave");
}

TEST_CASE("a release that was done twice is told by the row from a lease that another has ended") {
  const auto free_after = [](std::uint64_t token, lease::Outcome outcome, int code) {
    return [=] {
      lease::LockStatus row;
      row.token = lease::Token{token};
      row.last = lease::PastRun{{}, {}, outcome, code};
      return Result<lease::ReleaseOutcome>(lease::NotOurs{lease::NotOursWhy::free, row});
    };
  };
  using lease::Outcome;
  CHECK_FALSE(calls_of_a_lease(free_after(8, Outcome::failed, 3), ReleaseResult::released).empty());
  CHECK_FALSE(calls_of_a_lease(free_after(9, Outcome::failed, 3), ReleaseResult::not_ours).empty());
  CHECK_FALSE(calls_of_a_lease(free_after(8, Outcome::abandoned, 3), ReleaseResult::not_ours).empty());
  CHECK_FALSE(calls_of_a_lease(free_after(8, Outcome::failed, 4), ReleaseResult::not_ours).empty());
}

}  // namespace dblock::app
