#include <algorithm>
#include <span>

#include "lease/acquire.hpp"
#include "lease/backoff.hpp"
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

TEST_CASE("a waiter that polls asks soon at first, with growing pauses, and at least once a second") {
  Bench b;
  b.store.acquires = {Bench::refuses()};
  b.store.peeks = {Bench::shows(row_of("other", 30s))};
  std::vector<Nanos> waits;
  BootTime last = b.clock.now();
  b.clock.on_wait = [&] { waits.push_back(b.clock.now() - std::exchange(last, b.clock.now())); };
  REQUIRE(acquire(b.store, b.clock, b.request, WaitPolicy{20s}, {}, b.cancel));
  REQUIRE(waits.size() > 20);
  CHECK(waits.front() <= 50ms);
  CHECK(*std::ranges::max_element(waits) <= 1s);
  for (const Nanos late : std::span(waits).subspan(10, 10)) CHECK(late >= 500ms);
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

TEST_CASE("counted tries take no position at the turnstile") {
  Bench b;
  test::FakeTurnstile turnstile(b.clock, b.store);
  b.store.turnstile_used = &turnstile;
  b.store.acquires = {Bench::refuses(), b.grants()};
  b.store.peeks = {Bench::shows(row_of("", 0s))};
  const auto outcome = acquire(b.store, b.clock, b.request, {std::nullopt, Retry{2, 2s, 1.5}}, {}, b.cancel);
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Lease>(*outcome));
  CHECK(b.store.calls == std::vector<std::string>{"acquire", "peek", "acquire"});
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

TEST_CASE("the first waiter does not ask often for a lock that is cooling down") {
  Bench b;
  test::FakeTurnstile turnstile(b.clock, b.store);
  turnstile.on_enter = Turn::ours;
  b.store.turnstile_used = &turnstile;
  auto cooling = row_of("", 0s);
  cooling.state = State::cooldown;
  cooling.hold_until = ServerTime{1000s + 1h};
  b.store.acquires = {[&](const LeaseRequest&) -> Result<Answer> { return Held{cooling}; }};
  b.store.peeks = {Bench::shows(cooling)};
  REQUIRE(b.go(60s));
  CHECK(std::ranges::count(b.store.calls, "peek") < 140);
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

TEST_CASE("a waiter at the turnstile goes home when it sees that the job is done for this period") {
  Bench b;
  test::FakeTurnstile turnstile(b.clock, b.store);
  b.store.turnstile_used = &turnstile;
  b.request.promises.once_per = OncePer{100s};
  b.store.peeks = {Bench::shows(row_of("other", 30s)), Bench::shows(done_row("other", 5s))};
  const auto outcome = b.go(std::nullopt);
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Done>(*outcome));
  CHECK_FALSE(turnstile.has_position);
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
  CHECK(std::ranges::count(b.store.calls, "peek") >= 5);
  CHECK(std::ranges::count(b.store.calls, "peek") <= 40);
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

// --- The turnstile. -----------------------------------------------------------------------------------

namespace {

struct TurnstileBench : Bench {
  test::FakeTurnstile turnstile{clock, store};

  TurnstileBench() { store.turnstile_used = &turnstile; }
  [[nodiscard]] auto count(const char* call) const { return std::ranges::count(store.calls, call); }
};

LockStatus free_row(std::uint64_t last_token) {
  LockStatus status;
  status.key = "k";
  status.state = State::free;
  status.token = Token{last_token};
  status.server_time = ServerTime{1000s};
  return status;
}

test::FakeTurnstile::Await turn(Turn turn) {
  return [turn](BootTime) { return turn; };
}

}  // namespace

TEST_CASE("a waiter behind others does not try the lock until its turn, then tries at once") {
  TurnstileBench b;
  b.store.acquires = {b.grants()};
  b.store.peeks = {Bench::shows(row_of("other", 30s))};
  b.turnstile.awaits = {turn(Turn::not_yet), turn(Turn::not_yet), turn(Turn::ours)};
  const auto outcome = b.go(std::nullopt);
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Lease>(*outcome));
  CHECK(b.store.calls ==
        std::vector<std::string>{"enter", "peek", "await", "peek", "await", "peek", "await", "acquire"});
}

TEST_CASE("a waiter behind others looks at the row at least once a second, and names the holder each time") {
  TurnstileBench b;
  b.store.peeks = {Bench::shows(row_of("other", 30s))};
  std::vector<std::string> named;
  const AcquireObserver observer{
      .on_conflict = [&](const LockStatus& status) { named.push_back(status.owner); },
      .on_trouble = {},
      .on_send = {}};
  const auto outcome = acquire(b.store, b.clock, b.request, WaitPolicy{10s}, observer, b.cancel);
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Held>(*outcome));
  for (const Nanos length : b.turnstile.lengths) CHECK(length <= 1s);
  CHECK(b.turnstile.lengths.size() <= 20);
  CHECK(named.size() == static_cast<std::size_t>(b.count("peek")));
  CHECK(b.count("acquire") == 0);
}

TEST_CASE("the position at the turnstile is asked for while somebody reads it") {
  TurnstileBench b;
  b.store.acquires = {b.grants()};
  b.store.peeks = {Bench::shows(row_of("other", 30s))};
  b.turnstile.awaits = {turn(Turn::not_yet), turn(Turn::not_yet), turn(Turn::ours)};
  int reads = 0;
  const AcquireObserver observer{
      .on_conflict = {}, .on_trouble = {}, .wants_position = [&] { return ++reads == 2; }, .on_send = {}};
  REQUIRE(acquire(b.store, b.clock, b.request, WaitPolicy{std::nullopt}, observer, b.cancel));
  CHECK(b.store.calls == std::vector<std::string>{"enter", "peek", "await", "peek with position", "await",
                                                  "peek", "await", "acquire"});
}

TEST_CASE("a waiter behind others looks again when the lease it saw ends") {
  TurnstileBench b;
  b.store.peeks = {Bench::shows(row_of("other", 300ms))};
  REQUIRE(b.go(2s));
  REQUIRE_FALSE(b.turnstile.lengths.empty());
  CHECK(b.turnstile.lengths.front() == 300ms);
}

TEST_CASE("a lock that stays free for two looks is taken whoever leads, and the position is kept") {
  TurnstileBench b;
  b.store.acquires = {b.grants()};
  b.store.peeks = {Bench::shows(row_of("other", 300ms)), Bench::shows(free_row(5))};
  const BootTime begun = b.clock.now();
  const auto outcome = b.go(std::nullopt);
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Lease>(*outcome));
  CHECK(b.store.calls ==
        std::vector<std::string>{"enter", "peek", "await", "peek", "await", "peek", "acquire"});
  CHECK(b.clock.now() - begun >= 800ms);
  CHECK(b.clock.now() - begun <= 1300ms);
  CHECK(b.turnstile.has_position);
}

TEST_CASE("a row that does not exist counts as free") {
  TurnstileBench b;
  b.store.acquires = {b.grants()};
  b.store.peeks = {Bench::shows(std::nullopt)};
  REQUIRE(b.go(std::nullopt));
  CHECK(b.store.calls == std::vector<std::string>{"enter", "peek", "await", "peek", "acquire"});
}

TEST_CASE("a lock that others take and give back between looks is not taken out of turn") {
  TurnstileBench b;
  b.store.acquires = {b.grants()};
  b.store.peeks = {Bench::shows(free_row(5)), Bench::shows(free_row(6)),
                   Bench::shows(free_row(7)), Bench::shows(row_of("other", 30s)),
                   Bench::shows(free_row(7)), Bench::shows(row_of("other", 30s))};
  b.turnstile.awaits = {{}, {}, {}, {}, {}, turn(Turn::ours)};
  REQUIRE(b.go(std::nullopt));
  CHECK(b.count("await") == 6);
  CHECK(b.store.calls.back() == "acquire");
  CHECK(b.store.calls[b.store.calls.size() - 2] == "await");
}

TEST_CASE("past a turnstile that is not believed the waiter polls as if there were none") {
  TurnstileBench b;
  b.store.acquires = {Bench::refuses(), b.grants()};
  b.store.peeks = {Bench::shows(free_row(5)), Bench::shows(free_row(5)), Bench::shows(row_of("other", 30s)),
                   Bench::shows(free_row(6))};
  REQUIRE(b.go(std::nullopt));
  CHECK(b.count("await") == 1);
  CHECK(b.count("enter") == 1);
  CHECK(b.count("acquire") == 2);
}

TEST_CASE("first at the turnstile but refused: polls five to ten times a second and keeps the position") {
  TurnstileBench b;
  b.turnstile.on_enter = Turn::ours;
  b.store.acquires = {Bench::refuses(), b.grants()};
  b.store.peeks = std::deque<FakeStore::Peek>(20, Bench::shows(row_of("other", 30s)));
  b.store.peeks.push_back(Bench::shows(free_row(5)));
  bool left = false;
  b.clock.on_wait = [&] { left = left || !b.turnstile.has_position; };
  const BootTime begun = b.clock.now();
  REQUIRE(b.go(std::nullopt));
  CHECK(b.clock.now() - begun >= 21 * 100ms);
  CHECK(b.clock.now() - begun <= 21 * 200ms);
  CHECK_FALSE(left);
  CHECK(b.turnstile.has_position);
  CHECK(b.count("await") == 0);
}

TEST_CASE(
    "a run that tries once takes a position, waits for no turn, and gives the position up when refused") {
  TurnstileBench b;
  b.store.acquires = {Bench::refuses()};
  const auto refused = b.go(Micros{0});
  REQUIRE(refused);
  CHECK(std::holds_alternative<Held>(*refused));
  CHECK(b.store.calls == std::vector<std::string>{"enter", "acquire"});
  CHECK_FALSE(b.turnstile.has_position);

  b.store.acquires = {b.grants()};
  const auto granted = b.go(Micros{0});
  REQUIRE(granted);
  CHECK(std::holds_alternative<Lease>(*granted));
  CHECK(b.turnstile.has_position);
}

TEST_CASE("without a working turnstile the waiter polls as where there is none") {
  const auto calls_with = [](std::optional<Turn> on_enter, std::deque<test::FakeTurnstile::Await> awaits) {
    TurnstileBench b;
    if (on_enter) b.turnstile.on_enter = *on_enter;
    if (!on_enter) b.store.turnstile_used = nullptr;
    b.turnstile.awaits = std::move(awaits);
    b.store.acquires = {Bench::refuses()};
    b.store.peeks = {Bench::shows(row_of("other", 30s))};
    REQUIRE(b.go(5s));
    CHECK_FALSE(b.turnstile.has_position);
    return b.store.calls;
  };
  const auto plain = calls_with(std::nullopt, {});
  auto no_line = calls_with(Turn::none, {});
  CHECK(no_line.front() == "enter");
  no_line.erase(no_line.begin());
  CHECK(no_line == plain);
  auto broken_line = calls_with(Turn::not_yet, {turn(Turn::none)});
  CHECK(std::vector(broken_line.begin(), broken_line.begin() + 3) ==
        std::vector<std::string>{"enter", "peek", "await"});
  broken_line.erase(broken_line.begin(), broken_line.begin() + 3);
  CHECK(broken_line == plain);
}

TEST_CASE("a wait at the turnstile ends at its limit, tells the holder and gives the position up") {
  TurnstileBench b;
  b.store.peeks = {Bench::shows(row_of("other", 30s))};
  const BootTime begun = b.clock.now();
  const auto outcome = b.go(2500ms);
  REQUIRE(outcome);
  REQUIRE(std::holds_alternative<Held>(*outcome));
  CHECK(std::get<Held>(*outcome).status.owner == "other");
  CHECK(b.clock.now() - begun == 2500ms);
  CHECK(b.store.calls.back() == "peek");
  CHECK_FALSE(b.turnstile.has_position);
}

TEST_CASE("a lock that is free at the very end of a wait at the turnstile is tried") {
  TurnstileBench b;
  b.store.acquires = {b.grants()};
  b.store.peeks = {Bench::shows(row_of("other", 30s)), Bench::shows(free_row(5))};
  const auto outcome = b.go(400ms);
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Lease>(*outcome));
  CHECK(b.store.calls == std::vector<std::string>{"enter", "peek", "await", "peek", "acquire"});
}

TEST_CASE("a cancelled wait at the turnstile ends at once and gives the position up") {
  TurnstileBench b;
  b.store.peeks = {Bench::shows(row_of("other", 30s))};
  b.turnstile.awaits = {turn(Turn::cancelled)};
  const BootTime begun = b.clock.now();
  const auto outcome = b.go(std::nullopt);
  REQUIRE(outcome);
  REQUIRE(std::holds_alternative<Cancelled>(*outcome));
  CHECK_FALSE(std::get<Cancelled>(*outcome).undecided);
  CHECK(b.clock.now() == begun);
  CHECK(b.count("await") == 1);
  CHECK_FALSE(b.turnstile.has_position);
}

TEST_CASE("every end without a lease gives the position up") {
  for (const Errc code : {Errc::denied, Errc::schema, Errc::internal}) {
    TurnstileBench b;
    b.turnstile.on_enter = Turn::ours;
    b.store.acquires = {[code](const LeaseRequest&) -> Result<Answer> { return fail(code, "no"); }};
    REQUIRE_FALSE(b.go(std::nullopt));
    CHECK_FALSE(b.turnstile.has_position);
  }
  TurnstileBench undecided;
  undecided.turnstile.on_enter = Turn::ours;
  undecided.store.acquires = {Bench::loses_reply()};
  undecided.store.peeks = {Bench::unreachable()};
  undecided.clock.on_wait = [&] { undecided.cancel.raise(); };
  REQUIRE(undecided.go(std::nullopt));
  CHECK_FALSE(undecided.turnstile.has_position);
}

TEST_CASE("the turnstile is entered once the store is connected, and once only") {
  TurnstileBench b;
  b.turnstile.on_enter = Turn::ours;
  b.store.connects = {fail(Errc::unreachable, "away"), Result<void>{}};
  b.store.acquires = {Bench::refuses()};
  b.store.peeks = {Bench::shows(row_of("other", 30s))};
  REQUIRE(b.go(3s));
  CHECK(b.store.calls[0] == "connect failed");
  CHECK(b.store.calls[1] == "enter");
  CHECK(b.count("enter") == 1);
}

TEST_CASE("a database that goes away does not cost the position at the turnstile") {
  TurnstileBench b;
  b.store.acquires = {b.grants()};
  b.store.peeks = {Bench::shows(row_of("other", 30s)), Bench::unreachable(),
                   Bench::shows(row_of("other", 30s))};
  b.turnstile.awaits = {turn(Turn::not_yet), turn(Turn::ours)};
  REQUIRE(b.go(std::nullopt));
  CHECK(b.count("enter") == 1);
  CHECK(b.store.calls.back() == "acquire");
}

TEST_CASE("the turnstile is told who will come before the store connects, as long as nobody has entered it") {
  TurnstileBench b;
  b.turnstile.on_enter = Turn::ours;
  b.store.connects = {fail(Errc::unreachable, "away"), Result<void>{}};
  b.store.acquires = {b.grants()};
  REQUIRE(b.go(3s));
  CHECK(b.turnstile.calls_before_approach == std::vector<std::string>{"connect failed"});
}

TEST_CASE("a turn that was lost with its connection is waited for again") {
  TurnstileBench b;
  b.turnstile.on_enter = Turn::ours;
  b.store.acquires = {Bench::refuses(), b.grants()};
  b.store.peeks = {Bench::shows(row_of("other", 30s))};
  b.clock.on_wait = [&] {
    b.turnstile.turn_lost = true;
    b.turnstile.on_enter = Turn::not_yet;
    b.clock.on_wait = nullptr;
  };
  b.turnstile.awaits = {turn(Turn::ours)};
  b.store.peeks.push_back(Bench::shows(free_row(7)));
  REQUIRE(b.go(std::nullopt));
  CHECK(b.count("enter") == 2);
  CHECK(b.count("await") == 1);
}

TEST_CASE(
    "a turn whose connection breaks under a try is used once more before the turnstile is entered again") {
  TurnstileBench b;
  b.turnstile.on_enter = Turn::ours;
  b.store.acquires = {[&](const LeaseRequest&) -> Result<Answer> {
                        b.turnstile.turn_lost = true;
                        // As at a server that takes the old connection for alive.
                        b.turnstile.on_enter = Turn::not_yet;
                        return fail(Errc::indeterminate, "reply lost");
                      },
                      b.grants()};
  b.store.peeks = {Bench::shows(free_row(7))};
  b.turnstile.awaits = {turn(Turn::ours)};
  REQUIRE(b.go(std::nullopt));
  CHECK(b.store.calls == std::vector<std::string>{"enter", "acquire", "peek", "enter", "peek", "acquire"});
}

TEST_CASE("where looks cost something a waiter looks seldom, but soon again after a free lock") {
  TurnstileBench b;
  b.turnstile.looks_after = {40s, false};
  b.store.acquires = {b.grants()};
  b.store.peeks = {Bench::shows(row_of("other", 2s)), Bench::shows(row_of("other", 2s)),
                   Bench::shows(free_row(7)), Bench::shows(free_row(7))};
  REQUIRE(b.go(std::nullopt));
  REQUIRE(b.turnstile.lengths.size() == 3);
  for (const int look : {0, 1}) {
    CHECK(b.turnstile.lengths[static_cast<std::size_t>(look)] >= 20s);
    CHECK(b.turnstile.lengths[static_cast<std::size_t>(look)] <= 40s);
  }
  CHECK(b.turnstile.lengths[2] == 3s);
}

}  // namespace dblock::lease
