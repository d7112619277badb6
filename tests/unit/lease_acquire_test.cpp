#include <catch2/catch.hpp>

#include "lease/acquire.hpp"
#include "lease_fakes.hpp"

namespace dblock::lease {
namespace {

using namespace std::chrono_literals;
using test::FakeClock;
using test::FakeStore;

constexpr Micros k_ttl = 60s;

AcquireRequest make_request() {
  return {*Key::parse("k"), OwnerId{"me"}, Kind::run, Terms{k_ttl, 3s, 10s}, Holder{}};
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
  AcquireRequest request = make_request();

  Result<GrantOutcome> go(std::optional<Micros> limit) {
    return acquire(store, clock, request, WaitPolicy{limit}, {}, cancel);
  }
  FakeStore::Acquire grants() {
    return [this](const AcquireRequest& r) -> Result<AcquireOutcome> {
      return Lease{r.key, r.owner, Token{8}, r.terms, clock.now(), false};
    };
  }
  static FakeStore::Acquire refuses() {
    return [](const AcquireRequest&) -> Result<AcquireOutcome> { return Conflict{row_of("other", 30s)}; };
  }
  static FakeStore::Acquire loses_reply() {
    return [](const AcquireRequest&) -> Result<AcquireOutcome> {
      return fail(Errc::indeterminate, "reply lost");
    };
  }
  static FakeStore::Peek shows(std::optional<LockStatus> status) {
    return [status]() -> Result<std::optional<LockStatus>> { return status; };
  }
  static FakeStore::Peek unreachable() {
    return []() -> Result<std::optional<LockStatus>> { return fail(Errc::unreachable, "gone"); };
  }
};

}  // namespace

TEST_CASE("a held lock is tried once when no wait was asked for") {
  Bench b;
  b.store.acquires = {Bench::refuses()};
  const auto outcome = b.go(Micros{0});
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Conflict>(*outcome));
  CHECK(b.store.calls == std::vector<std::string>{"acquire"});
}

TEST_CASE("a waiter looks before it tries again, and tries at the very end of its wait") {
  Bench b;
  b.store.acquires = {Bench::refuses()};
  b.store.peeks = {Bench::shows(row_of("other", 30s))};
  const BootTime begun = b.clock.now();
  const auto outcome = b.go(5s);
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Conflict>(*outcome));
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

TEST_CASE("a cancelled wait ends at once and is not in doubt") {
  Bench b;
  b.store.acquires = {Bench::refuses()};
  b.clock.on_wait = [&] { b.cancel.raise(); };
  const auto outcome = b.go(std::nullopt);
  REQUIRE(outcome);
  REQUIRE(std::holds_alternative<Cancelled>(*outcome));
  CHECK_FALSE(std::get<Cancelled>(*outcome).undecided);
}

TEST_CASE("after a lost reply a row with our owner id is a grant, but only once a renewal proved it") {
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

TEST_CASE("a grant found by reading that cannot be renewed starts nothing") {
  Bench b;
  b.store.acquires = {Bench::loses_reply()};
  b.store.peeks = {Bench::shows(row_of("me", 50s))};
  b.store.renews = {[]() -> Result<RenewOutcome> { return NotOurs{NotOursWhy::expired, row_of("me", 0s)}; }};
  const auto outcome = b.go(Micros{0});
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Conflict>(*outcome));
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

TEST_CASE("an outcome that stays unknown for a whole TTL is reported as such and starts nothing") {
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

TEST_CASE("a cancelled read-back says that a try is undecided") {
  Bench b;
  b.store.acquires = {Bench::loses_reply()};
  b.store.peeks = {Bench::unreachable()};
  b.clock.on_wait = [&] { b.cancel.raise(); };
  const auto outcome = b.go(std::nullopt);
  REQUIRE(outcome);
  REQUIRE(std::holds_alternative<Cancelled>(*outcome));
  CHECK(std::get<Cancelled>(*outcome).undecided);
}

TEST_CASE("a process held up for its whole TTL after the grant does not rely on it") {
  Bench b;
  b.store.acquires = {[&](const AcquireRequest& r) -> Result<AcquireOutcome> {
    const BootTime sent = b.clock.now();
    b.clock.tick(k_ttl);
    return Lease{r.key, r.owner, Token{8}, r.terms, sent, false};
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

}  // namespace dblock::lease
