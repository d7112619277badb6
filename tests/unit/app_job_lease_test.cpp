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

// A lease taken and given back again, also from a nested run; what was called, in order.
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
  const lease::LeaseRef ref{request.key, request.owner, lease::Token{8}};
  const lease::RunEnd end{lease::Outcome::failed, 3};
  auto result = job.release(ref, lease::Actor::holder, end, 100ms);
  const bool was_nested = result == ReleaseResult::nested;
  if (was_nested) {
    CHECK(line.has_place);
    job.start_release_after_nested(ref, end, 100ms);
    SystemClock().wait_until(BootClock::now() + 20s, job.done());
    result = job.release_result();
  }
  CHECK(result == expected);
  CHECK(job.lost().has_value() == (expected == ReleaseResult::not_ours && !was_nested));
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

TEST_CASE(
    "after a lost reply to a release the row tells whether it was done, lost before, or cannot be known") {
  using lease::NotOursWhy;
  using lease::Outcome;
  const auto unheard_then = [](NotOursWhy why, std::uint64_t token, std::optional<Outcome> outcome, int code,
                               Micros age) {
    auto tries = std::make_shared<int>(0);
    return [=]() -> Result<lease::ReleaseOutcome> {
      if (++*tries == 1) return fail(Errc::indeterminate, "unheard");
      lease::LockStatus row;
      row.token = lease::Token{token};
      row.server_time.since_epoch = 100h;
      if (outcome) row.last = lease::PastRun{{}, lease::ServerTime{100h - age}, outcome, code};
      return lease::NotOurs{why, row};
    };
  };
  const auto result_is = [](const test::FakeStore::Release& answer, ReleaseResult expected) {
    return std::ranges::count(calls_of_a_lease(answer, expected), "release") == 2;
  };
  using enum ReleaseResult;
  CHECK(result_is(unheard_then(NotOursWhy::free, 8, Outcome::failed, 3, 0s), released));
  CHECK(result_is(unheard_then(NotOursWhy::free, 8, Outcome::abandoned, 3, 0s), not_ours));
  CHECK(result_is(unheard_then(NotOursWhy::other_holder, 9, Outcome::failed, 3, 0s), released));
  CHECK(result_is(unheard_then(NotOursWhy::other_holder, 9, Outcome::abandoned, 3, 0s), not_ours));
  CHECK(result_is(unheard_then(NotOursWhy::other_holder, 9, Outcome::failed, 3, 1h), unknown));
  CHECK(result_is(unheard_then(NotOursWhy::other_holder, 10, Outcome::succeeded, 0, 0s), unknown));
  CHECK(result_is(unheard_then(NotOursWhy::absent, 8, std::nullopt, 0, 0s), unknown));
  CHECK(result_is(unheard_then(NotOursWhy::expired, 8, std::nullopt, 0, 0s), not_ours));
}

TEST_CASE("a lease that a nested run holds too is released after its end, and left alone without an answer") {
  const bool answers = GENERATE(true, false);
  int tries = 0;
  const auto release = [&]() -> Result<lease::ReleaseOutcome> {
    if (++tries < 4) return lease::NotOurs{lease::NotOursWhy::nested, lease::LockStatus{}};
    if (!answers) return fail(Errc::unreachable, "away");
    return lease::Released{};
  };
  const auto calls = calls_of_a_lease(release, answers ? ReleaseResult::released : ReleaseResult::unknown);
  CHECK(std::ranges::count(calls, "release") >= 4);
  CHECK(calls.back() == "leave");
}

TEST_CASE("a lease that ran out while its holder waited for a nested run was not lost by the job") {
  int tries = 0;
  const auto release = [&]() -> Result<lease::ReleaseOutcome> {
    const auto why = ++tries < 3 ? lease::NotOursWhy::nested : lease::NotOursWhy::other_holder;
    return lease::NotOurs{why, lease::LockStatus{}};
  };
  CHECK(calls_of_a_lease(release, ReleaseResult::not_ours).back() == "leave");
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

TEST_CASE("a nested grant that comes together with a signal is given back by its own owner id") {
  auto owned = std::make_unique<test::FakeStore>();
  test::FakeStore& store = *owned;
  lease::AcquireRequest request = make_request();
  request.outer = lease::OwnerId{"outer"};
  store.nests = {[](const lease::AcquireRequest& wanted) {
    return lease::Lease{wanted.key,       {},   lease::OwnerId{"outer/inner"}, lease::Token{8}, wanted.terms,
                        BootClock::now(), false};
  }};
  store.releases = {[] { return Result<lease::ReleaseOutcome>(lease::Released{}); }};
  JobLease job(std::move(owned), request, {}, *lease::make_timing({60s, {}, {}, {}}), nullptr);
  job.start_acquire();
  SystemClock().wait_until(BootClock::now() + 20s, job.done());
  CHECK(job.cancel_acquire());
  CHECK(store.calls == Calls{"nest", "release"});
  CHECK(store.released.owner.text == "outer/inner");
}

}  // namespace dblock::app
