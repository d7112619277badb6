#include <atomic>
#include <thread>

#include "lease/heartbeat.hpp"
#include "lease_fakes.hpp"
#include "support/catch.hpp"

namespace dblock::lease {
namespace {

using namespace std::chrono_literals;
using test::FakeClock;
using test::FakeStore;

Timing make() {
  return *make_timing({.ttl = 60s, .heartbeat = 10s, .kill_grace = 4s, .margin = 3s});
}

struct HeartbeatBench {
  FakeClock clock;
  FakeStore store;
  WakeEvent stop;
  HeartbeatInbox inbox{stop};
  Timing timing = make();
  Lease lease{*Key::parse("k"), {}, OwnerId{"me"}, Token{1}, timing.terms(), clock.now(), false};
  std::vector<BootTime> renewed;
  std::vector<NotOursWhy> lost;
  int troubles = 0;
  int recovered_after = 0;

  BootTime go() {
    const HeartbeatObserver observer{
        .on_renewed = [this](BootTime at) { renewed.push_back(at); },
        .on_lost = [this](const NotOurs& why) { lost.push_back(why.why); },
        .on_trouble = [this](const Error&) { ++troubles; },
        .on_recovered = [this](int failures) { recovered_after = failures; },
    };
    return run_heartbeat(store, clock, lease, timing, observer, inbox);
  }
  FakeStore::Renew works() {
    return [this]() -> Result<RenewOutcome> {
      const BootTime sent = clock.now();
      clock.tick(200ms);  // the reply takes a while, which must not count
      return Renewed{sent, timing.ttl, {}};
    };
  }
  static FakeStore::Renew fails() {
    return []() -> Result<RenewOutcome> { return fail(Errc::indeterminate, "reply lost"); };
  }
  // Of the waits for renewals. The first wait of all is that for the end of a short run.
  void stop_after(int waits) {
    clock.on_wait = [this, waits, seen = 0]() mutable {
      if (++seen > waits + 1) stop.raise();
    };
  }
};

}  // namespace

TEST_CASE("renewals come one interval after the last was sent, not after its reply", "[tsan]") {
  HeartbeatBench b;
  b.store.renews = {b.works()};
  b.stop_after(3);
  const BootTime begun = b.clock.now();
  const BootTime proved = b.go();
  REQUIRE(b.renewed.size() == 3);
  CHECK(b.renewed[0] == begun + 10s);
  CHECK(b.renewed[1] == begun + 20s);
  CHECK(b.renewed[2] == begun + 30s);
  CHECK(proved == b.renewed[2]);
}

TEST_CASE("news of the job go out at once, again after a failure, and once only", "[tsan]") {
  HeartbeatBench b;
  const BootTime begun = b.clock.now();
  const JobNews ended{begun};
  b.store.renews = {[&] {
                      b.inbox.tell(ended);
                      return b.works()();
                    },
                    HeartbeatBench::fails(), b.works()};
  b.stop_after(4);
  b.go();
  REQUIRE(b.renewed.size() == 4);
  CHECK(b.renewed[0] == begun + 10s);
  CHECK(b.renewed[1] < begun + 11s);
  CHECK(b.renewed[2] == b.renewed[1] + 10s);
  CHECK(b.store.told == std::vector{ended, ended});
}

TEST_CASE("the store may end its session after a second, and after each renewal that worked") {
  HeartbeatBench b;
  std::vector<int> rested;
  b.store.renews = {[&, works = b.works()] {
    rested.push_back(b.store.rested);
    return rested.size() == 2 ? HeartbeatBench::fails()() : works();
  }};
  b.stop_after(4);
  b.clock.on_wait = [&, and_then = b.clock.on_wait, begun = b.clock.now(), seen = 0]() mutable {
    if (++seen == 1) CHECK(b.clock.now() == begun + 1s);
    and_then();
  };
  b.go();
  CHECK(rested == std::vector{1, 2, 2, 3});
}

TEST_CASE("the store is not asked to end its session before a renewal that is due within a second") {
  HeartbeatBench b;
  b.lease.sent_at -= 9s;  // as a keeper begins, or a run whose start took long
  b.store.renews = {[&, works = b.works()] {
    CHECK(b.store.rested == 0);
    return works();
  }};
  b.stop_after(0);
  b.go();
  CHECK(b.renewed.size() == 1);
  CHECK(b.store.rested == 1);
}

TEST_CASE("the store of a short run is not asked to end its session") {
  HeartbeatBench b;
  b.stop_after(-1);
  b.go();
  CHECK(b.store.rested == 0);
}

TEST_CASE("a failed renewal is repeated soon and its recovery reported", "[tsan]") {
  HeartbeatBench b;
  b.store.renews = {HeartbeatBench::fails(), HeartbeatBench::fails(), HeartbeatBench::fails(), b.works()};
  b.stop_after(4);
  const BootTime begun = b.clock.now();
  b.go();
  CHECK(b.troubles == 3);
  CHECK(b.recovered_after == 3);
  REQUIRE(b.renewed.size() == 1);
  CHECK(b.renewed[0] - begun < 11s);
}

TEST_CASE("failures never count as renewals, however long they last", "[tsan][safety]") {
  HeartbeatBench b;
  b.store.renews = {HeartbeatBench::fails()};
  b.stop_after(200);
  const BootTime begun = b.clock.now();
  CHECK(b.go() == begun);
  CHECK(b.renewed.empty());
  CHECK(b.lost.empty());
}

TEST_CASE("a definite loss is reported once and ends the heartbeat", "[tsan][safety]") {
  HeartbeatBench b;
  b.store.renews = {b.works(), []() -> Result<RenewOutcome> { return NotOurs{NotOursWhy::revoked, {}}; }};
  b.go();
  CHECK(b.lost == std::vector{NotOursWhy::revoked});
  CHECK(b.store.calls.size() == 2);
}

TEST_CASE("a call broken off by a stop is no trouble", "[tsan]") {
  HeartbeatBench b;
  b.store.renews = {[&]() -> Result<RenewOutcome> {
    b.stop.raise();
    return fail(Errc::indeterminate, "interrupted");
  }};
  b.go();
  CHECK(b.troubles == 0);
}

TEST_CASE("the heartbeat ends promptly when another thread stops it", "[tsan]") {
  SystemClock clock;
  FakeStore store;
  WakeEvent stop;
  HeartbeatInbox inbox{stop};
  const Timing timing = *make_timing({.ttl = 1s});
  const Lease lease{*Key::parse("k"), {}, OwnerId{"me"}, Token{1}, timing.terms(), clock.now(), false};
  std::atomic<int> renewals = 0;
  store.renews = {[&]() -> Result<RenewOutcome> { return Renewed{clock.now(), timing.ttl, {}}; }};
  const HeartbeatObserver observer{
      .on_renewed = [&](BootTime) { ++renewals; }, .on_lost = {}, .on_trouble = {}, .on_recovered = {}};
  std::thread thread([&] { run_heartbeat(store, clock, lease, timing, observer, inbox); });
  while (renewals.load() < 2) std::this_thread::yield();
  const BootTime asked = clock.now();
  inbox.stop();
  thread.join();
  CHECK(clock.now() - asked < 1s);
}

}  // namespace dblock::lease
