#include <algorithm>
#include <iterator>
#include <span>

#include "lease/acquire.hpp"
#include "lease/backoff.hpp"
#include "lease/line.hpp"
#include "lease/timing.hpp"
#include "lease_fakes.hpp"
#include "support/catch.hpp"

namespace dblock::lease {
namespace {

using namespace std::chrono_literals;
using test::FakeClock;
using test::FakeStore;

constexpr Micros k_ttl = 60s;

LeaseRequest make_request() {
  return {*Key::parse("k"), {}, OwnerId{"me"}, Kind::run, Terms{k_ttl, 3s, 10s}, Holder{}};
}

LockStatus row_of(const std::string& owner, Micros left) {
  LockStatus status;
  status.key = "k";
  status.owner = owner;
  status.state = State::held;
  status.token = Token{7};
  status.server_time = ServerTime{1000s};
  status.expires_at = ServerTime{1000s + left};
  return status;
}

struct Bench {
  FakeClock clock;
  FakeStore store;
  WakeEvent cancel;
  LeaseRequest request = make_request();

  Result<AcquireOutcome> go(std::optional<Micros> limit) {
    return acquire(store, clock, request, WaitPolicy{limit}, {}, cancel);
  }
  FakeStore::Acquire grants() { return test::grants(clock); }
  static FakeStore::Acquire refuses() {
    return [](const LeaseRequest&) -> Result<Answer> { return Held{row_of("other", 30s)}; };
  }
  static FakeStore::Acquire loses_reply() {
    return [](const LeaseRequest&) -> Result<Answer> { return fail(Errc::indeterminate, "reply lost"); };
  }
  static FakeStore::Peek shows(std::optional<LockStatus> status) {
    return [status]() -> Result<std::optional<LockStatus>> { return status; };
  }
  static FakeStore::Peek unreachable() {
    return []() -> Result<std::optional<LockStatus>> { return fail(Errc::unreachable, "gone"); };
  }
};

using Calls = std::vector<std::string>;

// Of a store that has a wake-up, as all but the fake have.
struct LineBench : Bench {
  test::FakeWakeUp wake_up{clock, store.calls};
  BootTime begun = clock.now();
  std::vector<Nanos> pauses;  // each wait of the clock: asleep or not

  LineBench() {
    store.wake_up_used = &wake_up;
    wake_up.looks_after.interval = 4s;  // the line is read at each look
    store.acquires = {refuses(), grants()};
    store.peeks = {shows(row_of("other", 30s))};
    clock.on_wait = [this, last = begun]() mutable {
      pauses.push_back(clock.now() - std::exchange(last, clock.now()));
    };
  }
  [[nodiscard]] auto count(const char* call) const { return std::ranges::count(store.calls, call); }
  [[nodiscard]] Nanos took() const { return clock.now() - begun; }
  // The other request is there no more after this time.
  test::FakeWakeUp::Script wakes_after(Nanos time) {
    return [this, time] {
      clock.tick(time);
      return Slept::to_its_end;
    };
  }
};

FakeStore::Acquire refuses_by(const LockStatus& row) {
  return [row](const LeaseRequest&) -> Result<Answer> { return Held{row}; };
}

// The line of the lock: the request itself, and others.
FakeStore::SeeLine line_with(std::vector<Place> others) {
  return [others = std::move(others)](const LeaseRequest& request) -> Result<std::vector<Place>> {
    auto places = others;
    std::ranges::move(test::own_places(request), std::back_inserter(places));
    sort_line(places);
    return places;
  };
}

// Without sleep, behind so many others: at first, and at last, where none of them leaves.
Nanos longest_first_look_interval(long long rank) {
  return rank == 0 ? 200ms : std::min<Nanos>(rank * 200ms, 7500ms);
}
Nanos longest_in_still_line(long long rank) {
  return rank == 0 ? 200ms : std::min<Nanos>(rank * (4 + rank) * 200ms, 60s);
}

// So many requests that came before: "before 1" first.
FakeStore::SeeLine line_behind(std::size_t count) {
  std::vector<Place> others;
  for (std::size_t i = 1; i <= count; ++i)
    others.push_back(test::place_of("before " + std::to_string(i), 900s + std::chrono::milliseconds(i)));
  return line_with(others);
}

test::FakeWakeUp::Script sleep_that_is(Slept end) {
  return [end] { return end; };
}

// Freed `ago`, and granted to nobody since.
LockStatus free_row(Micros ago) {
  LockStatus status;
  status.key = "k";
  status.server_time = ServerTime{1000s};
  status.refused_until = ServerTime{1000s - ago};
  return status;
}

LockStatus held_by_readers() {
  LockStatus status = row_of("reader", 30s);
  status.sharing.mode = Mode::shared;
  status.slot = 1;
  return status;
}

}  // namespace

TEST_CASE("counted tries come after exactly the pauses that were asked for") {
  Bench b;
  b.store.acquires = {Bench::refuses()};
  b.store.peeks = {Bench::shows(row_of("other", 1s))};
  std::vector<Nanos> waits;
  BootTime last = b.clock.now();
  b.clock.on_wait = [&] { waits.push_back(b.clock.now() - std::exchange(last, b.clock.now())); };
  const auto outcome = acquire(b.store, b.clock, b.request, {std::nullopt, Retry{5, 2s, 1.5}}, {}, b.cancel);
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Held>(*outcome));
  CHECK(waits == std::vector<Nanos>{2s, 3s, 4500ms, 6750ms});
  CHECK(b.store.calls == std::vector<std::string>{"acquire", "peek", "peek", "peek", "peek"});
}

TEST_CASE("a wait is told of where one begins, not where the lock is granted or given up at once") {
  const auto waits_of = [](const FakeStore::Acquire& answer, std::optional<Micros> limit,
                           bool hopeless = false) {
    Bench b;
    b.store.acquires = {answer};
    b.store.peeks = {Bench::shows(row_of("other", 1s))};
    std::vector<std::string> waits;
    AcquireObserver observer;
    observer.on_wait = [&](const LockStatus& status) { waits.push_back(status.owner); };
    observer.hopeless = [&](const LockStatus&) { return hopeless; };
    CHECK(acquire(b.store, b.clock, b.request, WaitPolicy{limit}, observer, b.cancel));
    return waits;
  };
  Bench b;
  CHECK(waits_of(b.grants(), 10s).empty());
  CHECK(waits_of(Bench::refuses(), 0s).empty());
  CHECK(waits_of(Bench::refuses(), 10s, true).empty());
  CHECK(waits_of(Bench::refuses(), 10s).front() == "other");
}

TEST_CASE("counted tries end with a grant, and one try is one") {
  Bench b;
  b.store.acquires = {Bench::refuses(), b.grants()};
  b.store.peeks = {Bench::shows(row_of("", 0s))};
  auto outcome = acquire(b.store, b.clock, b.request, {std::nullopt, Retry{1, 2s, 1.5}}, {}, b.cancel);
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Held>(*outcome));
  b.store.acquires = {Bench::refuses(), b.grants()};
  const BootTime begun = b.clock.now();
  outcome = acquire(b.store, b.clock, b.request, {std::nullopt, Retry{2, 2s, 1.5}}, {}, b.cancel);
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Lease>(*outcome));
  CHECK(b.clock.now() - begun == 2s);
}

TEST_CASE("a database that does not answer uses up a try") {
  Bench b;
  b.store.connects = {fail(Errc::unreachable, "refused")};
  const BootTime begun = b.clock.now();
  const auto outcome = acquire(b.store, b.clock, b.request, {std::nullopt, Retry{4, 1s, 2.0}}, {}, b.cancel);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == Errc::unreachable);
  CHECK(b.clock.now() - begun == 7s);
  CHECK(b.store.calls.size() == 4);
}

TEST_CASE("a wait limits counted tries as a whole") {
  Bench b;
  b.store.acquires = {Bench::refuses()};
  b.store.peeks = {Bench::shows(row_of("other", 30s))};
  const BootTime begun = b.clock.now();
  const auto outcome = acquire(b.store, b.clock, b.request, {Micros{5s}, Retry{100, 2s, 1.0}}, {}, b.cancel);
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Held>(*outcome));
  CHECK(b.clock.now() - begun == 5s);
  CHECK(b.store.calls.size() == 4);  // at 0, 2, 4 and 5 s
}

TEST_CASE("counted tries take no place in line, and sleep behind nobody") {
  LineBench b;
  b.store.peeks = {Bench::shows(row_of("", 0s))};
  const auto outcome = acquire(b.store, b.clock, b.request, {std::nullopt, Retry{2, 1s, 1.5}}, {}, b.cancel);
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Lease>(*outcome));
  CHECK(b.store.calls == Calls{"announce", "acquire", "peek", "acquire"});
}

TEST_CASE("between counted tries that are more than a second apart there is no connection") {
  LineBench b;
  b.store.peeks = {Bench::shows(row_of("other", 30s))};
  const WaitPolicy policy{std::nullopt, Retry{3, 1s, 1.5}};
  REQUIRE(acquire(b.store, b.clock, b.request, policy, {}, b.cancel));
  CHECK(b.store.calls ==
        Calls{"announce", "acquire", "peek", "leave", "disconnect", "announce", "peek", "leave"});
}

TEST_CASE("a statement that got lost on its way is not counted as a try") {
  Bench b;
  b.store.acquires = {Bench::loses_reply(), b.grants()};
  b.store.peeks = {Bench::shows(std::nullopt)};
  const auto outcome = acquire(b.store, b.clock, b.request, {std::nullopt, Retry{1, 1h, 1.0}}, {}, b.cancel);
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Lease>(*outcome));
}

TEST_CASE("the pauses between counted tries grow without overflowing") {
  CHECK(pause_after(1, 1s, 1.5) == 1s);
  CHECK(pause_after(3, 1s, 1.5) == 2250ms);
  CHECK(pause_after(1'000'000'000, 1s, 1e300) == Micros(std::chrono::days(36'500)));
  CHECK(pause_after(1'000'000'000, 1s, 1.0) == 1s);
}

namespace {

LockStatus done_row(const std::string& owner, Micros ago) {
  LockStatus status = row_of(owner, 30s);
  status.last_success =
      PastRun{ServerTime{status.server_time.since_epoch - ago}, status.server_time, RunOutcome::succeeded, 0};
  return status;
}

}  // namespace

TEST_CASE("a success counts for nine tenths of the period, and a tenth into the future") {
  const OncePer once_per{100s};
  CHECK(done_row("", 0s).done_within(once_per));
  CHECK(done_row("", 90s - 1us).done_within(once_per));
  CHECK_FALSE(done_row("", 90s).done_within(once_per));
  CHECK(done_row("", -10s).done_within(once_per));
  CHECK_FALSE(done_row("", -10s - 1us).done_within(once_per));
  CHECK_FALSE(row_of("", 0s).done_within(once_per));
}

TEST_CASE("a waiter for a cooldown looks soon at first, with growing pauses, and once a second in the end") {
  LineBench b;
  auto cooling = row_of("", 0s);
  cooling.state = State::cooldown;
  cooling.hold_until = ServerTime{1000s + 1h};
  b.store.acquires = {[&](const LeaseRequest&) -> Result<Answer> { return Held{cooling}; }};
  b.store.peeks = {Bench::shows(cooling)};
  REQUIRE(b.go(60s));
  REQUIRE(b.pauses.size() > 60);
  CHECK(b.pauses.front() <= 50ms);
  CHECK(*std::ranges::max_element(b.pauses) <= 1s);
  for (const Nanos late : std::span(b.pauses).subspan(10, 50)) CHECK(late >= 500ms);
  CHECK(b.count("disconnect") == 0);
  CHECK(b.count("sleep") == 0);  // nobody's end would help
}

TEST_CASE("a waiter goes home when it sees that the job is done for this period") {
  Bench b;
  b.request.promises.once_per = OncePer{100s};
  b.store.acquires = {Bench::refuses()};
  b.store.peeks = {Bench::shows(row_of("other", 30s)), Bench::shows(done_row("", 5s))};
  const auto outcome = b.go(std::nullopt);
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Done>(*outcome));
  CHECK(std::ranges::count(b.store.calls, "acquire") == 1);
}

TEST_CASE("a sleeper goes home when it sees that the job is done for this period") {
  LineBench b;
  b.request.promises.once_per = OncePer{100s};
  b.store.peeks = {Bench::shows(row_of("other", 30s)), Bench::shows(done_row("other", 5s))};
  const auto outcome = b.go(std::nullopt);
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Done>(*outcome));
  CHECK(b.store.calls.back() == "leave");
}

TEST_CASE("a waiter whose turn has come is told by the store that the job is done") {
  Bench b;
  b.request.promises.once_per = OncePer{100s};
  b.store.acquires = {[](const LeaseRequest&) -> Result<Answer> { return Done{done_row("", 5s)}; }};
  const auto outcome = b.go(std::nullopt);
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Done>(*outcome));
}

TEST_CASE("after a lost reply a success of another is told, but never in place of our own grant",
          "[safety]") {
  Bench b;
  b.request.promises.once_per = OncePer{100s};
  b.store.acquires = {Bench::loses_reply()};
  b.store.peeks = {Bench::shows(done_row("other", 5s))};
  auto outcome = b.go(Micros{0});
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Done>(*outcome));
  b.store.peeks = {Bench::shows(done_row("me", 5s))};
  b.store.renews = {[&]() -> Result<RenewOutcome> { return Renewed{b.clock.now(), k_ttl, {}}; }};
  outcome = b.go(Micros{0});
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Lease>(*outcome));
}

TEST_CASE("a held lock is tried once when no wait was asked for") {
  Bench b;
  b.store.acquires = {Bench::refuses()};
  const auto outcome = b.go(Micros{0});
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Held>(*outcome));
  CHECK(b.store.calls == std::vector<std::string>{"acquire"});
}

TEST_CASE("a waiter looks before it tries again, and tries at the very end of its wait") {
  Bench b;
  b.store.acquires = {Bench::refuses()};
  b.store.peeks = {Bench::shows(row_of("other", 30s))};
  const BootTime begun = b.clock.now();
  const auto outcome = b.go(5s);
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Held>(*outcome));
  CHECK(b.clock.now() - begun == 5s);
  CHECK(std::ranges::count(b.store.calls, "acquire") == 1);
  CHECK(std::ranges::count(b.store.calls, "peek") >= 25);
  CHECK(std::ranges::count(b.store.calls, "peek") <= 50);
}

TEST_CASE("a waiter takes the lock when the row looks free") {
  Bench b;
  b.store.acquires = {Bench::refuses(), b.grants()};
  b.store.peeks = {Bench::shows(row_of("other", 30s)), Bench::shows(row_of("", 0s))};
  const auto outcome = b.go(std::nullopt);
  REQUIRE(outcome);
  CHECK(std::get<Lease>(*outcome).token == Token{8});
}

TEST_CASE("a cancelled wait ends at once and is not in doubt", "[safety]") {
  Bench b;
  b.store.acquires = {Bench::refuses()};
  b.clock.on_wait = [&] { b.cancel.raise(); };
  const auto outcome = b.go(std::nullopt);
  REQUIRE(outcome);
  REQUIRE(std::holds_alternative<Cancelled>(*outcome));
  CHECK_FALSE(std::get<Cancelled>(*outcome).undecided);
}

TEST_CASE("after a lost reply a row with our owner id is a grant, but only once a renewal proved it",
          "[safety]") {
  Bench b;
  b.store.acquires = {Bench::loses_reply()};
  b.store.peeks = {Bench::unreachable(), Bench::shows(row_of("me", 50s))};
  BootTime renewed_at{};
  b.store.renews = {[&]() -> Result<RenewOutcome> {
    renewed_at = b.clock.now();
    return Renewed{renewed_at, k_ttl, {}};
  }};
  const auto outcome = b.go(Micros{0});
  REQUIRE(outcome);
  const auto& lease = std::get<Lease>(*outcome);
  CHECK(lease.token == Token{7});
  CHECK(lease.sent_at == renewed_at);
  CHECK_FALSE(lease.needs_renewal_proof);
  CHECK(b.store.calls == std::vector<std::string>{"acquire", "peek", "peek", "renew"});
}

TEST_CASE("a grant found by reading that cannot be renewed starts nothing", "[safety]") {
  Bench b;
  b.store.acquires = {Bench::loses_reply()};
  b.store.peeks = {Bench::shows(row_of("me", 50s))};
  b.store.renews = {[]() -> Result<RenewOutcome> { return NotOurs{NotOursWhy::expired, row_of("me", 0s)}; }};
  const auto outcome = b.go(Micros{0});
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Held>(*outcome));
}

TEST_CASE("a statement that got lost on its way is repeated even where one try is allowed") {
  Bench b;
  b.store.acquires = {Bench::loses_reply(), b.grants()};
  b.store.peeks = {Bench::shows(std::nullopt)};
  const auto outcome = b.go(Micros{0});
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Lease>(*outcome));
}

TEST_CASE("lost statements are not repeated for ever") {
  Bench b;
  b.store.acquires = {Bench::loses_reply()};
  b.store.peeks = {Bench::shows(std::nullopt)};
  const auto outcome = b.go(Micros{0});
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == Errc::unreachable);
  CHECK(std::ranges::count(b.store.calls, "acquire") == 4);
}

TEST_CASE("an outcome that stays unknown for a whole TTL is reported as such and starts nothing",
          "[safety]") {
  Bench b;
  b.store.acquires = {Bench::loses_reply()};
  b.store.peeks = {Bench::unreachable()};
  const BootTime begun = b.clock.now();
  const auto outcome = b.go(Micros{0});
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == Errc::unreachable);
  CHECK(b.clock.now() - begun >= k_ttl);
  CHECK(b.clock.now() - begun < k_ttl + 2s);
}

TEST_CASE("a cancelled read-back says that a try is undecided", "[safety]") {
  Bench b;
  b.store.acquires = {Bench::loses_reply()};
  b.store.peeks = {Bench::unreachable()};
  b.clock.on_wait = [&] { b.cancel.raise(); };
  const auto outcome = b.go(std::nullopt);
  REQUIRE(outcome);
  REQUIRE(std::holds_alternative<Cancelled>(*outcome));
  CHECK(std::get<Cancelled>(*outcome).undecided);
}

TEST_CASE("a process held up for its whole TTL after the grant does not rely on it", "[safety]") {
  Bench b;
  b.store.acquires = {[&](const LeaseRequest& r) -> Result<Answer> {
    const BootTime sent = b.clock.now();
    b.clock.tick(k_ttl);
    return Granted{{r.key, {}, r.owner, Token{8}, r.terms, sent, false}};
  }};
  const auto outcome = b.go(Micros{0});
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == Errc::lost);
}

TEST_CASE("connection errors are retried within the wait and no longer") {
  Bench b;
  b.store.connects = {fail(Errc::unreachable, "refused")};
  const BootTime begun = b.clock.now();
  const auto outcome = b.go(4s);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == Errc::unreachable);
  CHECK(b.clock.now() - begun == 4s);
  CHECK(b.store.calls.size() >= 4);
}

TEST_CASE("errors that no waiting mends end the wait at once") {
  for (const Errc code : {Errc::denied, Errc::schema, Errc::config}) {
    Bench b;
    b.store.connects = {fail(code, "no")};
    const auto outcome = b.go(std::nullopt);
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == code);
    CHECK(b.store.calls.size() == 1);
  }
}

// --- The line. ----------------------------------------------------------------------------------------

TEST_CASE(
    "a refused request takes a place, sleeps behind the holder, tries when that has ended, and keeps both") {
  LineBench b;
  b.wake_up.sleeps = {b.wakes_after(5s)};
  const auto outcome = b.go(std::nullopt);
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Lease>(*outcome));
  CHECK(b.store.calls == Calls{"announce", "acquire", "stand", "see", "sleep", "acquire"});
  CHECK(b.wake_up.slept[0].behind == "other");
  CHECK(b.wake_up.slept[0].before == 0);
  CHECK(b.wake_up.own == "me");
}

TEST_CASE("behind others a request sleeps behind the one before it, and tries when that one has ended") {
  LineBench b;
  b.wake_up.sleeps = {b.wakes_after(5s)};
  b.store.lines = {line_behind(2)};
  REQUIRE(b.go(std::nullopt));
  CHECK(b.store.calls == Calls{"announce", "acquire", "stand", "see", "sleep", "acquire"});
  CHECK(b.wake_up.slept[0].behind == "before 2");
  CHECK(b.wake_up.slept[0].before == 2);
}

TEST_CASE("far back a request that wakes looks again, and sleeps behind one that is nearer") {
  LineBench b;
  b.wake_up.sleeps = {b.wakes_after(5s)};
  b.store.lines = {line_behind(100), line_behind(16)};
  REQUIRE(b.go(std::nullopt));
  CHECK(b.store.calls ==
        Calls{"announce", "acquire", "stand", "see", "sleep", "peek", "see", "sleep", "acquire"});
  CHECK(b.wake_up.slept.at(0).behind == "before 75");
  CHECK(b.wake_up.slept.at(0).before == 100);
  CHECK(b.wake_up.slept.at(1).behind == "before 16");
  CHECK(b.wake_up.slept.at(1).before == 16);
}

TEST_CASE("no chain of sleepers is long: far back a request sleeps behind one further ahead") {
  const auto behind = [](std::size_t count) {
    LineBench b;
    b.store.lines = {line_behind(count)};
    CHECK(b.go(1ms));
    return b.wake_up.slept.at(0).behind;
  };
  CHECK(behind(16) == "before 16");
  CHECK(behind(17) == "before 1");
  CHECK(behind(100) == "before 75");
}

TEST_CASE(
    "behind a request that waits for another lock too, a sleeper looks as often as this one may be free") {
  const auto first_sleep = [](std::size_t count, std::size_t elsewhere) {
    LineBench b;
    b.wake_up.looks_after.interval = 60s;
    std::vector<Place> others;
    for (std::size_t i = 1; i <= count; ++i) {
      others.push_back(test::place_of(std::to_string(i), 900s + std::chrono::milliseconds(i)));
      others.back().waits_elsewhere = i == elsewhere;
    }
    b.store.lines = {line_with(others)};
    CHECK(b.go(1h));
    return b.wake_up.slept.at(0).at_most;
  };
  CHECK(first_sleep(1, 0) >= 30s);
  CHECK(first_sleep(1, 1) <= 3s);
  CHECK(first_sleep(1, 1) >= 1500ms);
  CHECK(first_sleep(4, 4) <= 12s);
  CHECK(first_sleep(4, 4) >= 6s);
  // Another sleeps behind it.
  CHECK(first_sleep(4, 1) >= 30s);
}

TEST_CASE("a sleeper looks as often once the request ahead has got another lock, and sleeps on with it") {
  LineBench b;
  b.wake_up.looks_after.interval = 60s;
  b.wake_up.is_busy_asleep = true;
  b.wake_up.sleeps = {{}, {}, b.wakes_after(100ms)};
  Place of_pool = test::place_of("of a pool", 900s);
  of_pool.waits_elsewhere = true;
  b.store.lines = {line_with({of_pool}), line_with({})};
  REQUIRE(b.go(1h));
  REQUIRE(b.wake_up.slept.size() == 3);
  for (const auto& sleep : b.wake_up.slept) CHECK(sleep.at_most <= 3s);
}

TEST_CASE("a sleeper looks at the lock and the line now and then, and names the holder and its own place") {
  LineBench b;
  b.wake_up.is_busy_asleep = GENERATE(true, false);
  b.wake_up.sleeps = {{}, {}, b.wakes_after(100ms)};
  b.store.lines = {line_with({test::place_of("first", 900s), test::place_of("later", 1100s)}), line_with({})};
  std::vector<std::string> named;
  AcquireObserver observer;
  observer.on_conflict = [&](const LockStatus& row) {
    REQUIRE(row.position);
    named.push_back(row.owner + " " + std::to_string(row.position->number) + "/" +
                    std::to_string(row.position->of));
  };
  REQUIRE(acquire(b.store, b.clock, b.request, WaitPolicy{std::nullopt}, observer, b.cancel));
  CHECK(named == Calls{"other 2/3", "other 1/1", "other 1/1"});
  CHECK(b.store.calls == Calls{"announce", "acquire", "stand", "see", "sleep", "peek", "see", "sleep", "peek",
                               "see", "sleep", "acquire"});
  for (const auto& sleep : b.wake_up.slept) {
    CHECK(sleep.at_most >= 2s);
    CHECK(sleep.at_most <= 4s);
  }
}

TEST_CASE("a sleeper looks again when the lease it saw ends: where looks cost something, the first in line") {
  const auto first_sleep = [](bool at_expiry, std::size_t before) {
    LineBench b;
    b.wake_up.looks_after = {40s, at_expiry};
    b.store.acquires = {refuses_by(row_of("other", 300ms))};
    b.store.peeks = {Bench::shows(row_of("other", 300ms))};
    b.store.lines = {line_behind(before)};
    CHECK(b.go(1min));
    return b.wake_up.slept.at(0).at_most;
  };
  CHECK(first_sleep(true, 0) == 300ms);
  CHECK(first_sleep(true, 1) == 450ms);  // one after the other
  CHECK(first_sleep(false, 0) == 300ms);
  CHECK(first_sleep(false, 1) >= 20s);
}

TEST_CASE("a free lock is left to those who stand before for three seconds, and a moment for each of them") {
  LineBench b;
  b.wake_up.looks_after = {10s, false};
  b.store.lines = {line_behind(2)};
  b.store.peeks = {Bench::shows(free_row(1s)), Bench::shows(free_row(3299ms)),
                   Bench::shows(free_row(3300ms))};
  REQUIRE(b.go(std::nullopt));
  CHECK(b.store.calls == Calls{"announce", "acquire", "stand", "see", "sleep", "peek", "see", "sleep", "peek",
                               "see", "sleep", "peek", "see", "acquire"});
  CHECK(b.wake_up.slept[1].at_most == 2300ms);  // and not the usual five to ten seconds
  CHECK(b.wake_up.slept[2].at_most == 1ms);
}

TEST_CASE("a request that others came before looks again at once when they have left the line meanwhile") {
  LineBench b;
  auto waited_for = free_row(0s);
  waited_for.waited_for = true;
  b.store.acquires = {refuses_by(waited_for), refuses_by(waited_for), b.grants()};
  b.store.peeks = {Bench::shows(free_row(0s)), Bench::shows(free_row(0s))};
  REQUIRE(b.go(std::nullopt));
  // But not for ever: after a second refusal it rests.
  CHECK(b.store.calls ==
        Calls{"announce", "acquire", "stand", "see", "peek", "acquire", "stay awake", "peek", "acquire"});
  CHECK(b.took() > 0s);
}

TEST_CASE("a lock that is free at the very end of a wait is tried, whoever stands before") {
  LineBench b;
  b.store.lines = {line_behind(2)};
  b.store.peeks = {Bench::shows(free_row(0s))};
  const auto outcome = b.go(400ms);
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Lease>(*outcome));
  CHECK(b.store.calls == Calls{"announce", "acquire", "stand", "see", "sleep", "peek", "see", "acquire"});
  CHECK(b.took() == 400ms);
}

TEST_CASE("the first in line tries a lock that looks free, and one without a row") {
  for (const auto& row : {std::optional(free_row(0s)), std::optional<LockStatus>()}) {
    LineBench b;
    b.store.peeks = {Bench::shows(row)};
    REQUIRE(b.go(std::nullopt));
    CHECK(b.count("peek") == 1);
    CHECK(b.count("acquire") == 2);
  }
}

TEST_CASE("a waiter that finds its own lease in the row asks for it at once, and proves it", "[safety]") {
  LineBench b;
  b.store.lines = {line_behind(1)};
  b.store.peeks = {Bench::shows(row_of("me", 50s))};
  b.store.acquires = {Bench::refuses(), [&](const LeaseRequest& request) -> Result<Answer> {
                        return found(request, row_of("me", 50s), b.clock.now());
                      }};
  b.store.renews = {[&]() -> Result<RenewOutcome> { return Renewed{b.clock.now(), k_ttl, {}}; }};
  const auto outcome = b.go(std::nullopt);
  REQUIRE(outcome);
  CHECK(std::get<Lease>(*outcome).token == Token{7});
  CHECK(b.count("peek") == 1);
  CHECK(Calls(b.store.calls.end() - 2, b.store.calls.end()) == Calls{"acquire", "renew"});
}

namespace {

// When places were taken and renewed.
std::vector<Nanos> renewals(LineBench& b, Micros wait) {
  std::vector<Nanos> times;
  b.store.on_stand = [&] { times.push_back(b.took()); };
  REQUIRE(b.go(wait));
  return times;
}

}  // namespace

TEST_CASE("a sleeper's place counts for 150 seconds and is renewed every 60, with the arrival it has") {
  LineBench b;
  const auto times = renewals(b, 200s);
  REQUIRE(times.size() == 4);
  CHECK(times[0] == 0s);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(b.store.stands[i].length == 150s);
    CHECK(b.store.stands[i].arrival == (i == 0 ? std::nullopt : std::optional(FakeStore::k_arrival)));
    if (i == 0) continue;
    CHECK(times[i] - times[i - 1] >= 60s);
    CHECK(times[i] - times[i - 1] <= 64s);
  }
}

TEST_CASE("the place of a waiter that looks often counts for three seconds and is renewed every second") {
  const auto setup = GENERATE(0, 1, 2);
  CAPTURE(setup);
  LineBench b;
  b.store.acquires = {Bench::refuses()};
  if (setup == 0) b.request.line = Line::newest;
  if (setup == 1) b.request.replaces = true;
  if (setup == 2) {  // nobody can tell from a reader's row that a writer that does not come holds up others
    b.store.acquires = {refuses_by(held_by_readers())};
    b.store.peeks = {Bench::shows(held_by_readers())};
  }
  const auto times = renewals(b, 10s);
  CHECK(times.size() >= 9);
  CHECK(b.count("sleep") == 0);
  for (const auto& stand : b.store.stands) CHECK(stand.length == 3s);
  for (std::size_t i = 1; i < times.size(); ++i) {
    CHECK(times[i] - times[i - 1] >= 1s);
    CHECK(times[i] - times[i - 1] <= 1200ms);
  }
  for (const Nanos pause : std::span(b.pauses).first(b.pauses.size() - 1)) {
    CHECK(pause >= 100ms);
    CHECK(pause <= 200ms);
  }
}

TEST_CASE("whoever finds the lock free is told of a place, unless the row tells for long enough already") {
  const auto marks = [](std::optional<Micros> known_for) {
    LineBench b;
    auto row = row_of("other", 30s);
    if (known_for) row.line_until = ServerTime{1000s + *known_for};
    b.store.acquires = {refuses_by(row)};
    CHECK(b.go(1ms));
    return b.store.stands.at(0).marks;
  };
  CHECK(marks(std::nullopt));
  CHECK(marks(30s));
  CHECK_FALSE(marks(150s));
}

TEST_CASE("a row that does not tell of a place any more is told again at the next look") {
  LineBench b;
  auto unmarked = row_of("other", 30s);
  unmarked.line_until = ServerTime{1000s};
  b.store.peeks = {Bench::shows(row_of("other", 30s)), Bench::shows(unmarked),
                   Bench::shows(row_of("other", 30s))};
  REQUIRE(b.go(20s));
  REQUIRE(b.store.stands.size() == 2);
  CHECK(b.store.stands[1].marks);
  CHECK(b.store.stands[1].arrival == FakeStore::k_arrival);
}

TEST_CASE("a place that somebody has removed comes back where it was") {
  LineBench b;
  const auto gone = [](const LeaseRequest&) -> Result<std::vector<Place>> { return std::vector<Place>(); };
  b.store.lines = {line_with({}), gone, line_with({})};
  REQUIRE(b.go(10s));
  REQUIRE(b.store.stands.size() == 2);
  CHECK(b.store.stands[1].arrival == FakeStore::k_arrival);
  const Calls second_look{"peek", "see", "stand"};
  CHECK(std::ranges::search(b.store.calls, second_look).begin() != b.store.calls.end());
}

TEST_CASE("a renewal of a place that failed is repeated at the next look") {
  LineBench b;
  b.store.failing_stand = 1;
  REQUIRE(b.go(100s));
  REQUIRE(b.store.stands.size() == 3);
  const Calls again{"stand", "sleep", "peek", "see", "stand"};
  CHECK(std::ranges::search(b.store.calls, again).begin() != b.store.calls.end());
}

TEST_CASE("of several locks' places a single one that somebody has removed comes back") {
  LineBench b;
  b.request.further_keys = {*Key::parse("l")};
  b.store.lines = {line_with({}),
                   [](const LeaseRequest& request) -> Result<std::vector<Place>> {
                     auto places = test::own_places(request);
                     places.pop_back();
                     return places;
                   },
                   line_with({})};
  REQUIRE(b.go(10s));
  CHECK(b.store.stands.size() == 2);
}

TEST_CASE(
    "of readers that wait together one looks often, and the others the more rarely, the later they came") {
  for (const bool sleeps : {false, true}) {
    for (const int rank : {0, 1, 5, 100}) {
      CAPTURE(sleeps, rank);
      LineBench b;
      b.request.sharing.mode = Mode::shared;
      b.wake_up.looks_after.interval = 10min;
      b.wake_up.sleeps = {sleep_that_is(sleeps ? Slept::not_yet : Slept::no_seat)};
      b.store.acquires = {Bench::refuses()};
      std::vector<Place> readers;
      for (int i = 1; i <= rank; ++i) {
        readers.push_back(test::place_of("reader " + std::to_string(i), 900s + std::chrono::milliseconds(i)));
        readers.back().sharing.mode = Mode::shared;
      }
      b.store.lines = {line_with(readers)};
      REQUIRE(b.go(rank * 10s + 60s));
      REQUIRE_FALSE(b.wake_up.slept.empty());
      CHECK(b.wake_up.slept.front().before == static_cast<std::size_t>(rank));
      REQUIRE(b.pauses.size() > 1);
      if (sleeps) {  // the lease ends after 30 seconds, unless it is renewed
        CHECK(b.pauses.front() == 30s + std::min<Nanos>(1500ms, rank * 150ms));
        continue;
      }
      const Nanos longest = longest_first_look_interval(rank);
      CHECK(b.pauses.front() >= longest / 2);
      CHECK(b.pauses.front() <= longest);
    }
  }
}

TEST_CASE("a request whose place may be there, though the reply says that it failed, gives it up") {
  LineBench b;
  b.store.arrivals = {fail(Errc::unreachable, "the mark was not written")};
  b.clock.on_wait = [&] { b.cancel.raise(); };
  const auto outcome = b.go(1min);
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Cancelled>(*outcome));
  CHECK(b.store.calls == Calls{"announce", "acquire", "stand", "leave line", "leave"});
}

TEST_CASE("a waiter without a seat looks the more seldom, the more requests stand before it") {
  for (const int before : {0, 1, 5, 100}) {
    CAPTURE(before);
    LineBench b;
    b.wake_up.sleeps = {sleep_that_is(Slept::no_seat)};
    b.store.acquires = {Bench::refuses()};
    b.store.lines = {line_behind(static_cast<std::size_t>(before))};
    REQUIRE(b.go(before * 15s + 15s));
    const auto whole = std::span(b.pauses).first(b.pauses.size() - 1);  // the last ends with the wait
    REQUIRE(whole.size() > 5);
    Nanos longest = longest_first_look_interval(before);
    for (const Nanos& pause : whole) {
      CHECK(pause >= longest / 2);
      CHECK(pause <= longest);
      longest = std::min(longest_in_still_line(before), before == 0 ? longest : pause * 4);
    }
    CHECK(whole.back() >= longest_in_still_line(before) / 2);
  }
}

TEST_CASE("a waiter without a seat looks sooner when the line moves on, and soon finds out that it does") {
  LineBench b;
  b.wake_up.sleeps = {sleep_that_is(Slept::no_seat)};
  b.store.acquires = {Bench::refuses()};
  b.store.lines = {line_behind(100), line_behind(20), line_behind(20)};
  REQUIRE(b.go(3min));
  REQUIRE(b.pauses.size() > 3);
  CHECK(b.pauses[0] >= 3s);
  CHECK(b.pauses[0] <= 8s);
  // In that time eighty of a hundred have gone: the other twenty go in a quarter of it.
  CHECK(b.pauses[1] >= b.pauses[0] / 16 - 1ms);
  CHECK(b.pauses[1] <= b.pauses[0] / 8);
  CHECK(b.pauses[2] >= 2s);
}

// Who stands before takes the lock at its next look, and the lease may be short.
TEST_CASE(
    "a waiter without a seat looks as soon as at first while the lock is free, also where the line stood") {
  for (const int before : {1, 5}) {
    CAPTURE(before);
    LineBench b;
    b.wake_up.sleeps = {sleep_that_is(Slept::no_seat)};
    b.store.acquires = {Bench::refuses()};
    const auto held = Bench::shows(row_of("other", 30s));
    b.store.peeks = {held, held, Bench::shows(free_row(0us))};
    b.store.lines = {line_behind(static_cast<std::size_t>(before))};
    REQUIRE(b.go(before * 5s));
    REQUIRE(b.pauses.size() > 5);
    const Nanos longest = longest_first_look_interval(before);
    CHECK(b.pauses[2] > longest);
    for (const Nanos& pause : std::span(b.pauses).subspan(3)) CHECK(pause <= longest);
  }
}

TEST_CASE("a waiter without a seat keeps its place, and no connection while it rests for long") {
  LineBench b;
  b.wake_up.sleeps = {sleep_that_is(Slept::no_seat)};
  b.store.acquires = {Bench::refuses()};
  b.store.lines = {line_behind(20)};
  REQUIRE(b.go(40s));
  const auto rests = static_cast<std::ptrdiff_t>(b.pauses.size());
  CHECK(b.count("disconnect") == rests);
  CHECK(b.count("announce") == rests + 1);
  CHECK(b.count("stay awake") == 0);
  CHECK(b.count("stand") == 1);
  CHECK(b.count("leave line") == 1);  // at the end

  LineBench close_by;
  close_by.wake_up.sleeps = b.wake_up.sleeps;
  close_by.store.acquires = b.store.acquires;
  close_by.store.lines = {line_behind(1)};
  REQUIRE(close_by.go(20s));
  CHECK(close_by.count("disconnect") == 0);
  CHECK(close_by.count("announce") == 1);
  CHECK(close_by.count("stay awake") == static_cast<std::ptrdiff_t>(close_by.pauses.size()));
}

// Each look has a session of its own, which is set up first; every second one renews the place.
TEST_CASE(
    "far back in a line that stands still a waiter sends three statements a minute, and keeps its place") {
  LineBench b;
  b.wake_up.sleeps = {sleep_that_is(Slept::no_seat)};
  b.store.acquires = {Bench::refuses()};
  b.store.lines = {line_behind(100)};
  const auto times = renewals(b, 1h);
  CHECK(b.count("announce") + b.count("peek") + b.count("stand") <= 180);
  CHECK(b.count("peek") >= 60);
  for (std::size_t i = 1; i < times.size(); ++i) CHECK(times[i] - times[i - 1] <= 120s);
}

TEST_CASE("where the store is short of connections, the first in line too keeps none between its looks") {
  LineBench b;
  b.wake_up.is_crowded = true;
  b.wake_up.sleeps = {sleep_that_is(Slept::no_seat)};
  b.store.acquires = {Bench::refuses()};
  REQUIRE(b.go(5s));
  CHECK(b.pauses.size() >= 25);
  CHECK(b.count("disconnect") == static_cast<std::ptrdiff_t>(b.pauses.size()));
}

TEST_CASE("where the store is short of connections, who never sleeps keeps none between its looks either") {
  LineBench b;
  b.wake_up.is_crowded = GENERATE(true, false);
  b.request.any = {*Key::parse("l")};
  b.store.acquires = {Bench::refuses()};
  REQUIRE(b.go(5s));
  CHECK(b.pauses.size() >= 25);
  CHECK(b.count("sleep") == 0);
  CHECK(b.count("disconnect") == (b.wake_up.is_crowded ? static_cast<std::ptrdiff_t>(b.pauses.size()) : 0));
}

TEST_CASE("whether the store is short of connections asks only who would keep one for a moment") {
  const auto times_asked = [](std::size_t before, test::FakeWakeUp::Script sleep) {
    LineBench b;
    b.wake_up.sleeps = {std::move(sleep)};
    b.store.acquires = {Bench::refuses()};
    b.store.lines = {line_behind(before)};
    REQUIRE(b.go(20s));
    return b.wake_up.asked_if_crowded;
  };
  CHECK(times_asked(1, sleep_that_is(Slept::no_seat)) > 0);
  CHECK(times_asked(20, sleep_that_is(Slept::no_seat)) == 0);
  CHECK(times_asked(1, sleep_that_is(Slept::not_yet)) == 0);

  LineBench once;
  REQUIRE(once.go(0s));
  CHECK(once.wake_up.asked_if_crowded == 0);
}

TEST_CASE("after a sleep behind a request that is still there, another one is tried five seconds later") {
  const Micros slept_for = GENERATE(0s, 2s);
  LineBench b;
  b.wake_up.sleeps = {b.wakes_after(slept_for)};
  b.store.acquires = {Bench::refuses()};
  REQUIRE(b.go(12s + 3 * slept_for));
  REQUIRE(b.wake_up.slept.size() == 3);
  for (const std::size_t sleep : {1U, 2U}) {
    const Nanos between = b.wake_up.slept[sleep].began - b.wake_up.slept[sleep - 1].began;
    CHECK(between >= slept_for + 5s);
    CHECK(between <= slept_for + 5200ms);
  }
  CHECK(b.count("acquire") == 4);  // each end was believed once
  CHECK(b.count("peek") > 50);
}

TEST_CASE(
    "the first waiter without a seat asks for one every five seconds, and believes in no end meanwhile") {
  LineBench b;
  b.wake_up.sleeps = {sleep_that_is(Slept::no_seat)};
  REQUIRE(b.go(12s));
  REQUIRE(b.wake_up.slept.size() == 3);
  for (const std::size_t sleep : {1U, 2U}) {
    const Nanos between = b.wake_up.slept[sleep].began - b.wake_up.slept[sleep - 1].began;
    CHECK(between >= 5s);
    CHECK(between <= 5200ms);
  }
  CHECK(b.count("acquire") == 1);
}

// Behind the same request: where the line moves, the next look asks.
TEST_CASE(
    "further back a waiter asks once a minute for a seat, or tries again soon where its session broke") {
  const Slept how = GENERATE(Slept::no_seat, Slept::not_at_all);
  const Micros rarely = how == Slept::no_seat ? 60s : 5s;
  LineBench b;
  b.store.lines = {line_behind(3)};
  b.wake_up.sleeps = {sleep_that_is(how)};
  REQUIRE(b.go(rarely + 30s));
  REQUIRE(b.wake_up.slept.size() >= 2);
  const Nanos between = b.wake_up.slept[1].began - b.wake_up.slept[0].began;
  CHECK(between >= rarely);
  CHECK(between <= rarely + longest_in_still_line(3));
}

// Such a request has no session: on a crowded server most have none. A sleep and a try cost six statements.
TEST_CASE("further back a waiter soon tries only once a minute to sleep behind a request that is not there") {
  LineBench b;
  b.wake_up.sleeps = {b.wakes_after(0s)};
  b.store.acquires = {Bench::refuses()};
  b.store.lines = {line_behind(5)};
  REQUIRE(b.go(10min));
  const auto& slept = b.wake_up.slept;
  REQUIRE(slept.size() >= 10);
  CHECK(slept.size() <= 14);
  CHECK(slept[1].began - slept[0].began <= 5s + longest_in_still_line(5));
  CHECK(slept[5].began - slept[4].began >= 60s);
  CHECK(b.count("acquire") == static_cast<std::ptrdiff_t>(slept.size()) + 1);
  CHECK(b.count("peek") > 60);
}

// Its session was killed, and it comes back.
TEST_CASE("further back a waiter soon sleeps again behind a request that was there for a while") {
  LineBench b;
  b.wake_up.sleeps = {b.wakes_after(10s)};
  b.store.acquires = {Bench::refuses()};
  b.store.lines = {line_behind(2)};
  REQUIRE(b.go(2min));
  CHECK(b.wake_up.slept.size() >= 120 / (10 + 5 + 3));
}

TEST_CASE("a waiter that could not sleep behind a request tries again at once when the line has moved on") {
  const Slept how = GENERATE(Slept::no_seat, Slept::to_its_end);
  LineBench b;
  b.wake_up.sleeps = {sleep_that_is(how), b.wakes_after(1s)};
  b.store.acquires = {Bench::refuses(), refuses_by(row_of("before 1", 30s))};
  b.store.peeks = {Bench::shows(row_of("before 1", 30s))};
  b.store.lines = {line_behind(1), line_behind(1), line_with({})};
  REQUIRE(b.go(10s));
  REQUIRE(b.wake_up.slept.size() >= 2);
  CHECK(b.wake_up.slept[1].behind == "before 1");
  CHECK(b.wake_up.slept[1].began - b.wake_up.slept[0].began <= 2s);
}

TEST_CASE("the first in line looks at the lock often, and reads the line once a second") {
  LineBench b;
  b.wake_up.sleeps = {sleep_that_is(Slept::no_seat)};
  REQUIRE(b.go(10s));
  CHECK(b.count("peek") >= 50);
  CHECK(b.count("see") >= 8);
  CHECK(b.count("see") <= 11);
}

TEST_CASE("after a sleep behind one request that has ended, the next sleep is behind another at once") {
  LineBench b;
  b.wake_up.sleeps = {b.wakes_after(0s), b.wakes_after(5s)};
  b.store.acquires = {Bench::refuses(), refuses_by(row_of("third", 30s)), b.grants()};
  REQUIRE(b.go(std::nullopt));
  REQUIRE(b.wake_up.slept.size() == 2);
  CHECK(b.wake_up.slept[1].behind == "third");
  CHECK(b.wake_up.slept[1].began == b.begun);
}

TEST_CASE("a writer that waits for readers sleeps behind a request that is before it") {
  LineBench b;
  b.store.acquires = {refuses_by(held_by_readers()), b.grants()};
  b.store.lines = {line_behind(1)};
  b.wake_up.sleeps = {b.wakes_after(5s)};
  REQUIRE(b.go(std::nullopt));
  CHECK(b.store.calls == Calls{"announce", "acquire", "stand", "see", "stand", "see", "sleep", "acquire"});
  CHECK(b.wake_up.slept[0].behind == "before 1");
}

TEST_CASE("a request that any of several ends would help does not sleep behind one of them") {
  const bool pool = GENERATE(true, false);
  CAPTURE(pool);
  LineBench b;
  auto row = row_of("other", 30s);
  if (pool) b.request.any = {*Key::parse("l")};
  if (!pool) {
    b.request.sharing = {Mode::slot, 2};
    row.sharing = b.request.sharing;
    row.slot = 1;
  }
  b.store.acquires = {refuses_by(row)};
  b.store.peeks = {Bench::shows(row)};
  REQUIRE(b.go(5s));
  CHECK(b.count("sleep") == 0);
  CHECK(b.count("peek") >= 25);
  CHECK(b.count("stand") == 1);
}

TEST_CASE("nobody sleeps behind a holder whose lease is over: who is first looks when its margin ends") {
  LineBench b;
  auto late = row_of("other", -1s);
  late.state = State::expired;
  late.margin = 1120ms;
  b.store.acquires = {refuses_by(late)};
  b.store.peeks = {Bench::shows(late)};
  REQUIRE(b.go(5s));
  CHECK(b.count("sleep") == 0);
  CHECK(*std::ranges::max_element(b.pauses) == 120ms);
}

TEST_CASE("a run that tries once takes no place in line") {
  LineBench b;
  const auto refused = b.go(Micros{0});
  REQUIRE(refused);
  CHECK(std::holds_alternative<Held>(*refused));
  CHECK(b.store.calls == Calls{"announce", "acquire", "leave"});

  const auto granted = b.go(Micros{0});
  REQUIRE(granted);
  CHECK(std::holds_alternative<Lease>(*granted));
  CHECK(b.count("stand") == 0);
  CHECK(b.wake_up.own == "me");
}

TEST_CASE("a wait in line ends at its limit, tells the holder and gives the place up") {
  LineBench b;
  const auto outcome = b.go(2500ms);
  REQUIRE(outcome);
  REQUIRE(std::holds_alternative<Held>(*outcome));
  CHECK(std::get<Held>(*outcome).status.owner == "other");
  CHECK_FALSE(std::get<Held>(*outcome).left_line_to);
  CHECK(b.took() == 2500ms);
  CHECK(Calls(b.store.calls.end() - 2, b.store.calls.end()) == Calls{"leave line", "leave"});
}

TEST_CASE("a cancelled sleep ends at once and gives the place up") {
  LineBench b;
  b.wake_up.sleeps = {sleep_that_is(Slept::cancelled)};
  const auto outcome = b.go(std::nullopt);
  REQUIRE(outcome);
  REQUIRE(std::holds_alternative<Cancelled>(*outcome));
  CHECK_FALSE(std::get<Cancelled>(*outcome).undecided);
  CHECK(b.took() == 0s);
  CHECK(b.store.calls == Calls{"announce", "acquire", "stand", "see", "sleep", "leave line", "leave"});
}

TEST_CASE("every end without a lease gives the place up, if there is one, and wakes who sleeps behind") {
  for (const Errc code : {Errc::denied, Errc::schema, Errc::internal}) {
    LineBench b;
    b.store.acquires = {[code](const LeaseRequest&) -> Result<Answer> { return fail(code, "no"); }};
    REQUIRE_FALSE(b.go(std::nullopt));
    CHECK(b.store.calls == Calls{"announce", "acquire", "leave"});

    LineBench later;
    later.store.peeks = {[code]() -> Result<std::optional<LockStatus>> { return fail(code, "no"); }};
    REQUIRE_FALSE(later.go(std::nullopt));
    CHECK(later.store.calls ==
          Calls{"announce", "acquire", "stand", "see", "sleep", "peek", "leave line", "leave"});
  }
  LineBench undecided;
  undecided.store.acquires = {Bench::loses_reply()};
  undecided.store.peeks = {Bench::unreachable()};
  undecided.clock.on_wait = [&] { undecided.cancel.raise(); };
  REQUIRE(undecided.go(std::nullopt));
  CHECK(undecided.store.calls == Calls{"announce", "acquire", "peek", "leave"});
}

TEST_CASE("a wait that turns out to be hopeless gives the place up") {
  LineBench b;
  AcquireObserver observer;
  observer.hopeless = [&](const LockStatus&) { return b.count("peek") > 0; };
  const auto outcome = acquire(b.store, b.clock, b.request, WaitPolicy{std::nullopt}, observer, b.cancel);
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Held>(*outcome));
  CHECK(b.store.calls ==
        Calls{"announce", "acquire", "stand", "see", "sleep", "peek", "see", "leave line", "leave"});
}

TEST_CASE("a request is there before the store connects") {
  LineBench b;
  b.store.connects = {fail(Errc::unreachable, "away"), Result<void>{}};
  b.store.acquires = {b.grants()};
  REQUIRE(b.go(3s));
  CHECK(b.store.calls == Calls{"announce", "connect failed", "acquire"});
}

TEST_CASE("a database that has no room for a look does not end a sleep") {
  LineBench b;
  b.wake_up.sleeps = {{}, {}, {}, b.wakes_after(1s)};
  b.store.peeks = {Bench::unreachable(), Bench::shows(row_of("other", 30s))};
  b.store.lines = {
      line_with({}),
      [](const LeaseRequest&) -> Result<std::vector<Place>> { return fail(Errc::unreachable, "gone"); },
      line_with({})};
  int troubles = 0;
  AcquireObserver observer;
  observer.on_trouble = [&](const Error&) { ++troubles; };
  REQUIRE(acquire(b.store, b.clock, b.request, WaitPolicy{std::nullopt}, observer, b.cancel));
  CHECK(b.store.calls == Calls{"announce", "acquire", "stand", "see", "sleep", "peek", "sleep", "peek", "see",
                               "sleep", "peek", "see", "sleep", "acquire"});
  CHECK(troubles == 0);
}

TEST_CASE("a database that has no room for the last look is told at the end of the wait") {
  LineBench b;
  b.store.peeks = {Bench::unreachable()};
  const auto outcome = b.go(5s);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == Errc::unreachable);
  CHECK(b.took() == 5s);
  CHECK(b.count("peek") >= 2);
}

TEST_CASE("a database that goes away does not cost the place in line") {
  LineBench b;
  b.wake_up.sleeps = {sleep_that_is(Slept::no_seat)};
  b.store.lines = {line_behind(1)};
  b.store.peeks = {Bench::shows(row_of("other", 30s)), Bench::unreachable(),
                   Bench::shows(row_of("other", 30s)), Bench::shows(free_row(4s))};
  REQUIRE(b.go(std::nullopt));
  CHECK(b.count("stand") == 1);
  CHECK(b.count("acquire") == 2);
  CHECK(b.store.calls.back() == "acquire");
}

// --- --line and --replace. ----------------------------------------------------------------------------

namespace {

std::string left_line_to(const Result<AcquireOutcome>& outcome) {
  REQUIRE(outcome);
  REQUIRE(std::holds_alternative<Held>(*outcome));
  const auto& other = std::get<Held>(*outcome).left_line_to;
  return other ? other->text : "nobody";
}

LockStatus arrived(Micros at) {
  LockStatus row = row_of("other", 30s);
  row.arrived_at = ServerTime{at};
  return row;
}

}  // namespace

TEST_CASE("line one: a request that finds a waiting one leaves at once, and not for one that comes later") {
  LineBench b;
  b.request.line = Line::one;
  b.store.lines = {line_behind(2)};
  CHECK(left_line_to(b.go(std::nullopt)) == "before 1");
  CHECK(b.store.calls == Calls{"announce", "acquire", "stand", "see", "leave line", "leave"});

  LineBench stays;
  stays.request.line = Line::one;
  stays.store.acquires = {Bench::refuses()};
  stays.store.lines = {line_with({test::place_of("later", 1100s)})};
  CHECK(left_line_to(stays.go(5s)) == "nobody");
  CHECK(stays.took() == 5s);
}

TEST_CASE("line newest: a waiting request leaves when another begins to wait, and not for one before it") {
  LineBench b;
  b.request.line = Line::newest;
  b.store.lines = {line_behind(2),
                   line_with({test::place_of("later", 1100s), test::place_of("last", 1200s)})};
  CHECK(left_line_to(b.go(std::nullopt)) == "last");
  CHECK(b.store.calls ==
        Calls{"announce", "acquire", "stand", "see", "stay awake", "peek", "see", "leave line", "leave"});

  LineBench stays;
  stays.request.line = Line::newest;
  stays.store.acquires = {Bench::refuses()};
  stays.store.lines = {line_behind(2)};
  CHECK(left_line_to(stays.go(5s)) == "nobody");
}

TEST_CASE(
    "line newest: a waiting request leaves for a holder whose request came after it, and for no other") {
  const auto leaves_for = [](const LockStatus& holder, Line line = Line::newest) {
    LineBench b;
    b.request.line = line;
    b.store.acquires = {Bench::refuses()};
    b.store.peeks = {Bench::shows(row_of("other", 30s)), Bench::shows(holder)};
    return left_line_to(b.go(5s));
  };
  CHECK(leaves_for(arrived(1000s + 1us)) == "other");
  CHECK(leaves_for(arrived(1000s)) == "nobody");
  CHECK(leaves_for(arrived(999s)) == "nobody");
  CHECK(leaves_for(arrived(1001s), Line::one) == "nobody");
}

namespace {

// The holder's lease ends 30 s after the beginning. It shows as revoked by whoever looks after the first try.
// `next` has the lock from then on.
struct ReplacingBench : LineBench {
  std::optional<LockStatus> next;     // none: nobody
  std::optional<ServerTime> arrival;  // of the last revocation

  ReplacingBench() {
    request.replaces = true;
    store.acquires = {refuses_by(replaceable()), [this](const LeaseRequest& wanted) -> Result<Answer> {
                        if (next) return Held{*next};
                        return grants()(wanted);
                      }};
    store.peeks = {[this]() -> Result<std::optional<LockStatus>> {
      if (took() < 30s) return revoked();
      return next ? next : free_row(0s);
    }};
    answers(Revoked{});
  }
  static LockStatus replaceable() {
    LockStatus row = arrived(900s);
    row.replaceable = true;
    return row;
  }
  [[nodiscard]] LockStatus revoked() const {
    LockStatus row = replaceable();
    row.server_time.since_epoch += std::chrono::floor<Micros>(took());
    row.revoked_at = row.server_time;
    return row;
  }
  void answers(const Result<ForceOutcome>& answer) {
    store.revokes = {[this, answer](std::optional<ServerTime> at) {
      arrival = at;
      return answer;
    }};
  }
  bool takes_the_lock_after_the_lease() {
    const auto outcome = go(Micros{0});
    return outcome && std::holds_alternative<Lease>(*outcome) && took() == 30s;
  }
};

}  // namespace

TEST_CASE("replace: a replaceable holder is revoked by arrival, and its end is waited for past the limit") {
  ReplacingBench b;
  CHECK(b.takes_the_lock_after_the_lease());
  CHECK(b.arrival == FakeStore::k_arrival);
  CHECK(Calls(b.store.calls.begin(), b.store.calls.begin() + 5) ==
        Calls{"announce", "acquire", "stand", "see", "revoke"});

  ReplacingBench another_was_faster;
  another_was_faster.next = row_of("third", 30s);
  CHECK(left_line_to(another_was_faster.go(Micros{0})) == "nobody");
  CHECK(another_was_faster.took() == 31s);
}

TEST_CASE("replace: where the reply to the revocation is lost, the end of the lease is waited for as well") {
  ReplacingBench b;
  b.answers(fail(Errc::indeterminate, "unheard"));
  CHECK(b.takes_the_lock_after_the_lease());
}

TEST_CASE("replace: a holder that another has revoked is waited for, and not revoked again") {
  ReplacingBench b;
  b.store.acquires.front() = refuses_by(b.revoked());
  CHECK(b.takes_the_lock_after_the_lease());
  CHECK(b.count("revoke") == 0);
}

TEST_CASE("replace: a holder that cannot be revoked is not waited for") {
  for (const auto& answer : {Result<ForceOutcome>(ForceRefused{ForceRefused::Why::came_later, {}}),
                             Result<ForceOutcome>(ForceRefused{ForceRefused::Why::not_held, {}}),
                             Result<ForceOutcome>(fail(Errc::unreachable, "away"))}) {
    ReplacingBench b;
    b.answers(answer);
    CHECK(left_line_to(b.go(Micros{0})) == "nobody");
    CHECK(b.took() == 0s);
    CHECK(b.store.calls == Calls{"announce", "acquire", "stand", "see", "revoke", "leave line", "leave"});
  }
}

TEST_CASE("replace: nobody is revoked who did not agree, whose lease is over, or whose lock is paused") {
  auto own = ReplacingBench::replaceable();
  own.replaceable = false;
  auto over = ReplacingBench::replaceable();
  over.state = State::expired;
  auto paused = ReplacingBench::replaceable();
  paused.pause = Pause{{"k", false}, ServerTime{2000s}, {}, {}, {}};
  for (const auto& row : {own, over, paused}) {
    ReplacingBench b;
    b.store.acquires = {refuses_by(row)};
    b.store.peeks = {Bench::shows(row)};
    CHECK(left_line_to(b.go(2s)) == "nobody");
    CHECK(b.count("revoke") == 0);
    CHECK(b.took() == 2s);
  }
}

TEST_CASE("a request that begins to sleep has a place that counts until its next look") {
  const bool another_writer_is_before = GENERATE(true, false);
  CAPTURE(another_writer_is_before);
  LineBench b;
  b.wake_up.looks_after = {30s, false};  // as on a server
  b.store.acquires = {refuses_by(held_by_readers())};
  if (another_writer_is_before) {
    b.store.lines = {line_behind(1)};
    b.store.peeks = {Bench::shows(held_by_readers())};
  } else {  // a writer that came before all has the lock next
    b.store.peeks = {Bench::shows(held_by_readers()), Bench::shows(row_of("writer", 30s))};
  }
  REQUIRE(b.go(40s));
  REQUIRE_FALSE(b.wake_up.slept.empty());
  CHECK(b.wake_up.slept[0].at_most > 3s);
  const auto sleep = std::ranges::find(b.store.calls, "sleep");
  const auto stood = static_cast<std::size_t>(std::count(b.store.calls.begin(), sleep, "stand"));
  CHECK(b.store.stands.at(stood - 1).length == 150s);
}

TEST_CASE("replace: one refusal brings one revocation") {
  ReplacingBench b;
  CHECK(b.takes_the_lock_after_the_lease());
  CHECK(b.count("revoke") == 1);
}

TEST_CASE("replace: a request that leaves for a waiting one revokes nobody") {
  ReplacingBench b;
  b.request.line = Line::one;
  b.store.lines = {line_behind(1)};
  CHECK(left_line_to(b.go(std::nullopt)) == "before 1");
  CHECK(b.count("revoke") == 0);
}

TEST_CASE("of several locks each is marked, whatever the row of the one that refuses tells") {
  LineBench b;
  b.request.any = {*Key::parse("l")};
  auto row = row_of("other", 30s);
  row.line_until = ServerTime{2000s};
  b.store.acquires = {refuses_by(row)};
  REQUIRE(b.go(1ms));
  CHECK(b.store.stands.at(0).marks);
}

}  // namespace dblock::lease
