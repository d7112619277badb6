// The life of a lease under a clock that jumps to whatever is waited for: grant, renewals, loss, release; its
// request is there, for those who sleep behind it, until the release has ended.
#include "lease/session.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "lease_fakes.hpp"
#include "support/catch.hpp"

namespace dblock::lease {
namespace {

using namespace std::chrono_literals;
using Calls = std::vector<std::string>;

LeaseRequest session_request() {
  return {*Key::parse("k"), {}, OwnerId{"me"}, Kind::acquire, {60s, 3s, {}}, {}};
}

void await(const Session& session) {
  SystemClock().wait_until(BootClock::now() + 20s, session.done());
  REQUIRE(session.done().raised());
}

// A lease taken and given back again, also from a nested run; what was called, in order.
Calls calls_of_a_lease(const test::FakeStore::Release& answer, ReleaseResult expected) {
  auto owned = std::make_unique<test::FakeStore>();
  test::FakeStore& store = *owned;
  test::FakeClock clock;
  test::FakeWakeUp wake_up(clock, store.calls);
  store.wake_up_used = &wake_up;
  store.acquires = {test::grants(clock)};
  store.releases = {answer};
  const LeaseRequest request = session_request();
  Session job(std::move(owned), clock, request, {}, *make_timing({60s, {}, {}, {}}), {});
  job.start_acquire();
  await(job);
  REQUIRE(job.grant());
  CHECK(wake_up.own == "me");
  const LeaseRef ref{request.key, request.owner, Token{8}};
  const RunEnd end{RunOutcome::failed, 3};
  auto result = job.release(ref, Actor::holder, end, {.patience = 100ms});
  const bool was_nested = result == ReleaseResult::nested;
  if (was_nested) {
    CHECK(wake_up.own == "me");
    job.start_release_after_nested(ref, end, 100ms);
    await(job);
    result = job.release_result();
  }
  CHECK(result == expected);
  CHECK(job.lost().has_value() == (expected == ReleaseResult::not_ours && !was_nested));
  CHECK(wake_up.own.empty());
  return store.calls;
}

}  // namespace

// Not for the thread sanitizer: it does not see that polling done() orders the fakes' use by two threads.
TEST_CASE("who sleeps behind a lease is woken after its release, and not before") {
  const auto released = [] { return Result<ReleaseOutcome>(Released{}); };
  CHECK(calls_of_a_lease(released, ReleaseResult::released) ==
        Calls{"announce", "acquire", "release", "leave"});
}

TEST_CASE("who sleeps behind a lease that cannot be released is woken after the last try") {
  const auto fails = [] { return Result<ReleaseOutcome>(fail(Errc::unreachable, "away")); };
  const Calls calls = calls_of_a_lease(fails, ReleaseResult::unknown);
  CHECK(std::ranges::count(calls, "release") > 1);
  CHECK(std::ranges::count(calls, "leave") == 1);
  CHECK(calls.back() == "leave");
}

TEST_CASE(
    "after a lost reply to a release the row tells whether it was done, lost before, or cannot be known",
    "[safety]") {
  const auto judged_after_lost_reply = [](NotOursWhy why, std::uint64_t token,
                                          std::optional<RunOutcome> outcome, int code, Micros age) {
    auto tries = std::make_shared<int>(0);
    return [=]() -> Result<ReleaseOutcome> {
      if (++*tries == 1) return fail(Errc::indeterminate, "unheard");
      LockStatus row;
      row.token = Token{token};
      row.server_time.since_epoch = 100h;
      if (outcome) row.last = PastRun{{}, ServerTime{100h - age}, outcome, code};
      return NotOurs{why, row};
    };
  };
  const auto result_is = [](const test::FakeStore::Release& answer, ReleaseResult expected) {
    return std::ranges::count(calls_of_a_lease(answer, expected), "release") == 2;
  };
  using enum ReleaseResult;
  CHECK(result_is(judged_after_lost_reply(NotOursWhy::free, 8, RunOutcome::failed, 3, 0s), released));
  CHECK(result_is(judged_after_lost_reply(NotOursWhy::free, 8, RunOutcome::abandoned, 3, 0s), not_ours));
  CHECK(result_is(judged_after_lost_reply(NotOursWhy::other_holder, 9, RunOutcome::failed, 3, 0s), released));
  CHECK(result_is(judged_after_lost_reply(NotOursWhy::other_holder, 9, RunOutcome::abandoned, 3, 0s),
                  not_ours));
  CHECK(result_is(judged_after_lost_reply(NotOursWhy::other_holder, 9, RunOutcome::failed, 3, 1h), unknown));
  CHECK(result_is(judged_after_lost_reply(NotOursWhy::other_holder, 10, RunOutcome::succeeded, 0, 0s),
                  unknown));
  CHECK(result_is(judged_after_lost_reply(NotOursWhy::absent, 8, std::nullopt, 0, 0s), unknown));
  CHECK(result_is(judged_after_lost_reply(NotOursWhy::expired, 8, std::nullopt, 0, 0s), not_ours));
}

TEST_CASE("a lease that a nested run holds too is released after its end, and left alone without an answer",
          "[safety]") {
  const bool answers = GENERATE(true, false);
  int tries = 0;
  const auto release = [&]() -> Result<ReleaseOutcome> {
    if (++tries < 4) return NotOurs{NotOursWhy::nested, LockStatus{}};
    if (!answers) return fail(Errc::unreachable, "away");
    return Released{};
  };
  const auto calls = calls_of_a_lease(release, answers ? ReleaseResult::released : ReleaseResult::unknown);
  CHECK(std::ranges::count(calls, "release") >= 4);
  CHECK(calls.back() == "leave");
}

TEST_CASE("a lease that ran out while its holder waited for a nested run was not lost by the job") {
  int tries = 0;
  const auto release = [&]() -> Result<ReleaseOutcome> {
    const auto why = ++tries < 3 ? NotOursWhy::nested : NotOursWhy::other_holder;
    return NotOurs{why, LockStatus{}};
  };
  CHECK(calls_of_a_lease(release, ReleaseResult::not_ours).back() == "leave");
}

TEST_CASE("a release that was done twice is told by the row from a lease that another has ended",
          "[safety]") {
  const auto free_after = [](std::uint64_t token, RunOutcome outcome, int code) {
    return [=] {
      LockStatus row;
      row.token = Token{token};
      row.last = PastRun{{}, {}, outcome, code};
      return Result<ReleaseOutcome>(NotOurs{NotOursWhy::free, row});
    };
  };
  CHECK_FALSE(calls_of_a_lease(free_after(8, RunOutcome::failed, 3), ReleaseResult::released).empty());
  CHECK_FALSE(calls_of_a_lease(free_after(9, RunOutcome::failed, 3), ReleaseResult::not_ours).empty());
  CHECK_FALSE(calls_of_a_lease(free_after(8, RunOutcome::abandoned, 3), ReleaseResult::not_ours).empty());
  CHECK_FALSE(calls_of_a_lease(free_after(8, RunOutcome::failed, 4), ReleaseResult::not_ours).empty());
}

TEST_CASE("a lease tells of each renewal, of trouble once, of its end, and of nothing after that",
          "[safety]") {
  auto owned = std::make_unique<test::FakeStore>();
  test::FakeStore& store = *owned;
  test::FakeClock clock;
  const BootTime begun = clock.now();
  const Timing timing = *make_timing({60s, 10s, {}, {}});
  store.acquires = {test::grants(clock)};
  const test::FakeStore::Renew works = [&]() -> Result<RenewOutcome> {
    return Renewed{clock.now(), 60s, {}};
  };
  const test::FakeStore::Renew fails = [] { return Result<RenewOutcome>(fail(Errc::unreachable, "away")); };
  const test::FakeStore::Renew gone = [] { return Result<RenewOutcome>(NotOurs{NotOursWhy::revoked, {}}); };
  store.renews = {works, fails, fails, works, gone};
  Calls told;
  std::vector<Nanos> deadlines;
  SessionEvents events;
  events.acquiring.on_send = [&] { told.emplace_back("sent"); };
  events.on_acquire_ended = [&] { told.emplace_back("acquired"); };
  events.on_renewed = [&](BootTime deadline) { deadlines.push_back(deadline - begun); };
  events.on_trouble = [&](const Error&, bool first) { told.emplace_back(first ? "trouble" : "more"); };
  events.on_recovered = [&](int failures) { told.push_back("after " + std::to_string(failures)); };
  events.on_lost = [&](const NotOurs&) { told.emplace_back("lost"); };
  Session session(std::move(owned), clock, session_request(), {}, timing, events);
  session.start_acquire();
  await(session);
  const Lease lease = std::get<Lease>(*session.grant());
  session.start_heartbeat(lease);
  await(session);
  CHECK(told == Calls{"sent", "acquired", "trouble", "more", "after 2", "lost"});
  REQUIRE(deadlines.size() == 2);
  CHECK(deadlines[0] == 70s);
  CHECK(deadlines[1] > 80s);  // the third try of the second renewal
  CHECK(deadlines[1] < 81s);
  CHECK(session.trouble().empty());
  REQUIRE(session.lost());
  CHECK(session.lost()->why == NotOursWhy::revoked);
  store.releases = {[] { return Result<ReleaseOutcome>(NotOurs{NotOursWhy::other_holder, {}}); }};
  CHECK(session.release(ref_to(lease), Actor::holder, {RunOutcome::lost, 76}, {.patience = 1s}) ==
        ReleaseResult::not_ours);
}

TEST_CASE("what the job need not wait for is done with the heartbeat, before its first renewal") {
  auto owned = std::make_unique<test::FakeStore>();
  test::FakeStore& store = *owned;
  test::FakeClock clock;
  store.acquires = {test::grants(clock)};
  int settled_at_renewal = 0;
  store.renews = {[&]() -> Result<RenewOutcome> {
    settled_at_renewal = store.settled;
    return NotOurs{NotOursWhy::revoked, {}};
  }};
  Session session(std::move(owned), clock, session_request(), {}, *make_timing({60s, {}, {}, {}}), {});
  session.start_acquire();
  await(session);
  CHECK(store.settled == 0);
  session.start_heartbeat(std::get<Lease>(*session.grant()));
  await(session);
  CHECK(settled_at_renewal == 1);
  CHECK(store.settled == 1);
}

TEST_CASE("a wait is counted from the first refusal to the grant, and a grant from the try that took it") {
  auto owned = std::make_unique<test::FakeStore>();
  test::FakeClock clock;
  LockStatus held;
  held.key = "k";
  held.owner = "other";
  held.state = State::held;
  held.server_time = ServerTime{1000s};
  held.expires_at = ServerTime{1030s};
  owned->acquires = {[&](const LeaseRequest&) -> Result<Answer> { return Held{held}; },
                     [&](const LeaseRequest& request) {
                       auto granted = test::grants(clock)(request);
                       clock.tick(200ms);  // the reply takes a while
                       return granted;
                     }};
  owned->peeks = {[]() -> Result<std::optional<LockStatus>> { return LockStatus{}; }};
  Session session(std::move(owned), clock, session_request(), WaitPolicy{10s},
                  *make_timing({60s, {}, {}, {}}), {});
  const BootTime begun = clock.now();
  session.start_acquire();
  await(session);
  REQUIRE(std::holds_alternative<Lease>(*session.grant()));
  CHECK(session.waited() == std::chrono::duration_cast<std::chrono::milliseconds>(clock.now() - begun));
  CHECK(session.waited() > 200ms);
  CHECK(session.grant_took() == 200ms);
}

TEST_CASE("a nested grant that comes together with a signal is given back by its own owner id", "[safety]") {
  auto owned = std::make_unique<test::FakeStore>();
  test::FakeStore& store = *owned;
  LeaseRequest request = session_request();
  request.outer = OwnerId{"outer"};
  test::FakeClock clock;
  store.nests = {[&clock](const LeaseRequest& wanted) {
    return Lease{wanted.key, {}, OwnerId{"outer/inner"}, Token{8}, wanted.terms, clock.now(), false};
  }};
  store.releases = {[] { return Result<ReleaseOutcome>(Released{}); }};
  Session job(std::move(owned), clock, request, {}, *make_timing({60s, {}, {}, {}}), {});
  job.start_acquire();
  await(job);
  CHECK(job.cancel_acquire());
  CHECK(store.calls == Calls{"nest", "release"});
  CHECK(store.released.owner.text == "outer/inner");
}

TEST_CASE("where a lost reply is fresh, only a release that worked proves that nothing is granted later",
          "[safety]") {
  struct Answers {
    std::optional<LockStatus> read_back;  // nullopt: the database is away
    NotOursWhy refused;
    bool released;
    Nanos later;
    bool nothing_left;
  };
  const auto answers =
      GENERATE(Answers{{}, NotOursWhy::free, false, 0s, false}, Answers{{}, NotOursWhy::free, true, 0s, true},
               Answers{LockStatus{}, NotOursWhy::free, false, 0s, false},
               Answers{LockStatus{}, NotOursWhy::free, false, 10s, true});
  auto owned = std::make_unique<test::FakeStore>();
  test::FakeClock clock;
  std::atomic<bool> is_trying = false, is_cancelled = false;
  owned->acquires = {[&](const LeaseRequest&) -> Result<Answer> {
    is_trying = true;
    while (!is_cancelled) std::this_thread::yield();
    return fail(Errc::indeterminate, "unheard");
  }};
  owned->peeks = {[&]() -> Result<std::optional<LockStatus>> {
    if (!answers.read_back) return fail(Errc::unreachable, "away");
    clock.tick(answers.later);
    return *answers.read_back;
  }};
  owned->releases = {[&]() -> Result<ReleaseOutcome> {
    if (answers.released) return Released{};
    return NotOurs{answers.refused, LockStatus{}};
  }};
  SessionEvents events;
  events.on_acquire_ended = [&] { is_cancelled = true; };
  Session job(std::move(owned), clock, session_request(), WaitPolicy{10s}, *make_timing({60s, {}, {}, {}}),
              events);
  job.start_acquire();
  while (!is_trying) std::this_thread::yield();
  CHECK(job.cancel_acquire() == answers.nothing_left);
}

}  // namespace dblock::lease
