// The embedded store's clocks: leases by (boot id, boot clock), what people see by the wall clock.

#include "contract/sqlite_store.hpp"
#include "contract/stepped_database.hpp"
#include "contract/store_fixture.hpp"
#include "support/catch.hpp"

namespace dblock::contract {
namespace {

LeaseRequest asks(std::string owner) {
  return {key("k"), {}, {std::move(owner)}, Kind::run, {60s, 3s, 10s}, {"host", 1, "user", "job", ""}};
}

// A boot clock some time away from the real one: what another process reads later, or a broken test would.
class ShiftedClock final : public Clock {
 public:
  explicit ShiftedClock(Nanos by) : by_(by) {}
  void shift(Nanos by) { by_ = by; }
  [[nodiscard]] BootTime now() const override { return BootClock::now() + by_; }
  bool wait_until(BootTime when, const WakeEvent& wake) override {
    return real_.wait_until(when - by_, wake);
  }

 private:
  Nanos by_;
  SystemClock real_;
};

LeaseRequest shares(std::string owner, Sharing sharing = {Mode::shared, 1}) {
  auto request = asks(std::move(owner));
  request.sharing = sharing;
  return request;
}

bool refused(LockBook& store, const LeaseRequest& request) {
  auto outcome = store.try_acquire(request);
  if (!outcome) FAIL(outcome.error().message);
  return std::holds_alternative<Held>(*outcome);
}

LockStatus row(LockBook& store) {
  auto seen = row_of(store, key("k"));
  if (!seen) FAIL(seen.error().message);
  REQUIRE(seen->has_value());
  return **seen;
}

// A step of the wall clock by `step` after the grant looks, on the row, as if the grant had been made on
// another time line; the boot clock says the same as before.
void step_wall_clock(const SqliteUnderTest& t, Micros step) {
  const std::string by = std::to_string(step.count());
  t.sql("UPDATE dblock_lock SET boot_offset_us=boot_offset_us-(" + by + "),create_time=create_time-(" + by +
        "),update_time=update_time-(" + by + "),expire_time=expire_time-(" + by +
        "),arrived_at=arrived_at-(" + by + ")");
  t.sql("UPDATE dblock_waiter SET arrival=arrival-(" + by + "),seen_until=seen_until-(" + by + ")");
}

}  // namespace

TEST_CASE("sqlite: a lease runs out by the boot clock, at its end plus the margin", "[safety]") {
  SqliteUnderTest t;
  auto store = t.open();
  grant(*store, asks("owner-1"));
  ShiftedClock before(62s), after(64s);
  CHECK(refused(*t.open_with(before), asks("owner-2")));
  grant(*t.open_with(after), asks("owner-3"));
}

// There is no statement that comes late: each reads the clock when it has the store to itself. A clock that
// is behind stands for it here.
TEST_CASE("sqlite: a renewal finds the store locked from a grant's look to its end, and is refused then",
          "[safety]") {
  SqliteUnderTest t;
  const Sharing one_slot{Mode::slot, 1};
  const auto before = GENERATE_COPY(asks("gone"), shares("gone"), shares("gone", one_slot));
  const auto after = GENERATE_COPY(asks("next"), shares("next"), shares("next", one_slot));
  auto next = after;
  if (before.plain() && after.plain()) next.further_keys.push_back(key("l"));
  CAPTURE(to_string(before.sharing.mode), to_string(next.sharing.mode));
  const auto gone = grant(*t.open(), before);
  t.age("k", 2min, false);
  ShiftedClock behind(-90s);
  const auto late = t.open_with(behind, 0s);  // waits for nobody
  const auto in_time = late->renew(ref_to(gone), Actor::holder, {});
  REQUIRE(in_time);
  REQUIRE(std::holds_alternative<Renewed>(*in_time));  // while no grant has come between
  bool tried = false;
  const auto store = open_stepped(t, once_before(k_steps_of_a_grant, [&] {
                                    tried = true;
                                    const auto renewal = late->renew(ref_to(gone), Actor::holder, {});
                                    CHECK((!renewal && renewal.error().code == Errc::unreachable));
                                  }));
  grant(*store, next);
  CHECK(tried);
  const auto renewal = late->renew(ref_to(gone), Actor::holder, {});
  REQUIRE(renewal);
  CHECK(std::holds_alternative<NotOurs>(*renewal));
}

// No boot clock does that; it shows that the statement which frees a lease asks again.
TEST_CASE("sqlite: a grant is undone when its predecessor's margin proves not to be over after all",
          "[safety]") {
  SqliteUnderTest t;
  const auto before = GENERATE_COPY(asks("living"), shares("living"));
  auto next = before.plain() ? shares("next") : asks("next");
  const auto living = grant(*t.open(), before);
  ShiftedClock clock(64s);
  const auto store = open_stepped(store::open_database(store::SqliteSettings{t.path()}, {}, clock),
                                  once_before({Verb::abandon}, [&] { clock.shift(62s); }));
  const auto undone = store->try_acquire(next);
  REQUIRE_FALSE(undone);
  CHECK(undone.error().code == Errc::unreachable);
  clock.shift(0s);
  const auto renewal = store->renew(ref_to(living), Actor::holder, {});
  REQUIRE(renewal);
  CHECK(std::holds_alternative<Renewed>(*renewal));
  CHECK(refused(*store, next));
}

TEST_CASE("sqlite: steps of the wall clock neither end a lease nor make it longer", "[safety]") {
  const Micros step = GENERATE(as<Micros>{}, Micros{24h}, Micros{-24h}, Micros{5s}, Micros{-5s});
  CAPTURE(step.count());
  SqliteUnderTest t;
  auto store = t.open();
  const Lease lease = grant(*store, asks("owner-1"));
  step_wall_clock(t, step);
  CHECK(refused(*store, asks("owner-2")));
  auto renewed = store->renew({lease.key, lease.owner, lease.token}, Actor::holder, std::nullopt);
  REQUIRE(renewed);
  CHECK(std::holds_alternative<Renewed>(*renewed));
  ShiftedClock just_held(62s), over(64s);
  CHECK(refused(*t.open_with(just_held), asks("owner-2")));
  grant(*t.open_with(over), asks("owner-2"));
}

TEST_CASE(
    "sqlite: after a step of the wall clock people still see how long a lock is held and for how long yet") {
  const Micros step = GENERATE(as<Micros>{}, Micros{24h}, Micros{-24h});
  SqliteUnderTest t;
  auto store = t.open();
  grant(*store, asks("owner-1"));
  step_wall_clock(t, step);
  const LockStatus seen = row(*store);
  CHECK(seen.state == State::held);
  const auto now = std::chrono::duration_cast<Micros>(std::chrono::system_clock::now().time_since_epoch());
  CHECK(std::chrono::abs(seen.server_time.since_epoch - now) < 1h);  // of a day
  CHECK(seen.server_time.since_epoch - seen.acquired_at->since_epoch < 1h);
  CHECK(seen.expires_at->since_epoch - seen.acquired_at->since_epoch == 60s);
  const auto listing = store->list({});
  REQUIRE(listing);
  REQUIRE(listing->locks.size() == 1);
  CHECK(listing->locks.front().state == State::held);
}

TEST_CASE(
    "sqlite: the record of a run during which the wall clock was stepped goes by the clock as it is now") {
  const Micros step = GENERATE(as<Micros>{}, Micros{24h}, Micros{-24h});
  SqliteUnderTest t;
  auto store = t.open();
  const Lease lease = grant(*store, asks("owner-1"));
  step_wall_clock(t, step);
  const auto released =
      store->release({lease.key, lease.owner, lease.token}, Actor::holder, {RunOutcome::succeeded, 0});
  REQUIRE(released);
  REQUIRE(std::holds_alternative<Released>(*released));
  const LockStatus seen = row(*store);
  const auto now = std::chrono::duration_cast<Micros>(std::chrono::system_clock::now().time_since_epoch());
  for (const auto& run : {seen.last, seen.last_success}) {
    REQUIRE(run);
    CHECK(std::chrono::abs(run->acquired_at->since_epoch - now) < 1h);  // of a day
    CHECK(std::chrono::abs(run->released_at->since_epoch - now) < 1h);
  }
}

TEST_CASE("sqlite: a lease of another boot is free at once, without its margin, and recorded as abandoned",
          "[safety]") {
  SqliteUnderTest t;
  auto store = t.open();
  const Lease old = grant(*store, asks("owner-1"));
  t.reboot("k");
  const LockStatus seen = row(*store);
  CHECK(seen.state == State::expired);
  CHECK(seen.grantable_at() <= seen.server_time);
  const auto held = store->list({});
  REQUIRE(held);
  CHECK(held->locks.empty());
  const Lease next = grant(*store, asks("owner-2"));
  CHECK(next.token > old.token);
  CHECK(row(*store).last->outcome == RunOutcome::abandoned);
}

TEST_CASE("sqlite: a lease of another boot cannot be renewed, and a script cannot give it back", "[safety]") {
  SqliteUnderTest t;
  auto store = t.open();
  auto request = asks("owner-1");
  request.kind = Kind::acquire;
  const Lease old = grant(*store, request);
  t.reboot("k");
  auto renewed = store->renew({old.key, old.owner, old.token}, Actor::script, std::nullopt);
  REQUIRE(renewed);
  REQUIRE(std::holds_alternative<NotOurs>(*renewed));
  CHECK(std::get<NotOurs>(*renewed).why == NotOursWhy::expired);
  auto released = store->release({old.key, old.owner, old.token}, Actor::script, {});
  REQUIRE(released);
  REQUIRE(std::holds_alternative<NotOurs>(*released));
  CHECK(std::get<NotOurs>(*released).why == NotOursWhy::expired);
}

TEST_CASE("sqlite: reaping frees a lease of another boot", "[safety]") {
  SqliteUnderTest t;
  auto store = t.open();
  grant(*store, asks("owner-1"));
  t.reboot("k");
  auto report = store->reap({false, 24h});
  REQUIRE(report);
  REQUIRE(report->abandoned.size() == 1);
  CHECK(report->abandoned.front().owner == "owner-1");
  CHECK(row(*store).state == State::free);
}

TEST_CASE("sqlite: hold_until outlives the boot and goes by the wall clock") {
  SqliteUnderTest t;
  auto store = t.open();
  grant(*store, asks("owner-1"));
  t.set_promise("k", StoreUnderTest::Promise::hold_until, 1h);
  t.reboot("k");
  CHECK(refused(*store, asks("owner-2")));
  t.set_promise("k", StoreUnderTest::Promise::hold_until, -1s);
  grant(*store, asks("owner-2"));
}

TEST_CASE("sqlite: a wall clock that is set back makes a minimal hold at most twice as long") {
  SqliteUnderTest t;
  auto store = t.open();
  auto request = asks("owner-1");
  request.promises.min_hold = 1h;
  const Lease first = grant(*store, request);
  REQUIRE(store->release({first.key, first.owner, first.token}, Actor::holder, {}));
  t.age("k", -(1h - 5s), false);
  CHECK(refused(*store, asks("owner-2")));
  CHECK(row(*store).state == State::cooldown);
  t.age("k", -10s, false);
  CHECK(row(*store).state == State::free);
  grant(*store, asks("owner-2"));
}

TEST_CASE("sqlite: a success of an earlier boot still counts for its period") {
  SqliteUnderTest t;
  auto store = t.open();
  const Lease first = grant(*store, asks("owner-1"));
  REQUIRE(store->release({first.key, first.owner, first.token}, Actor::holder, {RunOutcome::succeeded, 0}));
  t.reboot("k");
  auto request = asks("owner-2");
  request.promises.once_per = OncePer{10h};
  auto outcome = store->try_acquire(request);
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Done>(*outcome));
  t.age("k", 9h, false);
  grant(*store, request);
}

// The wall clock may have been years ahead when the row was forgotten, and be right again now.
TEST_CASE("sqlite: a forgotten key's tokens go on above the forgotten ones whatever the wall clock does",
          "[safety]") {
  SqliteUnderTest t;
  auto store = t.open();
  const Lease first = grant(*store, asks("owner-1"));
  auto released = store->release({first.key, first.owner, first.token}, Actor::holder, {});
  REQUIRE(released);
  // As a wall clock 20 days ahead has left it, and one 60 days ahead would find it.
  const auto ahead = [](Micros by) { return std::to_string(by.count()); };
  t.sql("UPDATE dblock_lock SET token=token+" + ahead(20 * 24h));
  const auto token = t.value("SELECT token FROM dblock_lock");
  t.sql("UPDATE dblock_lock SET update_time=update_time-" + ahead(60 * 24h) + ",token=token-" +
        ahead(60 * 24h));
  const auto aged = t.value("SELECT token FROM dblock_lock");
  auto report = store->reap({false, 24h});
  REQUIRE(report);
  CHECK(report->forgotten == 1);
  CHECK(t.value("SELECT token_floor FROM dblock_state") == aged);
  t.sql("UPDATE dblock_state SET token_floor=" + token);
  const Lease next = grant(*store, asks("owner-2"));
  CHECK(next.token.value == std::stoull(token) + 1);
}

TEST_CASE("sqlite: a key is added above the forgotten tokens for readers, slots and several keys too",
          "[safety]") {
  SqliteUnderTest t;
  auto store = t.open();
  REQUIRE(store->connect());
  const auto floor =
      std::chrono::duration_cast<Micros>(std::chrono::system_clock::now().time_since_epoch()) + 20 * 24h;
  t.sql("UPDATE dblock_state SET token_floor=" + std::to_string(floor.count()));
  const std::string who = GENERATE(as<std::string>{}, "readers", "slots", "several keys");
  CAPTURE(who);
  auto request = shares("owner");
  if (who == "slots") request.sharing = {Mode::slot, 2};
  if (who == "several keys") {
    request.sharing = {};
    request.further_keys = {key("l")};
  }
  CHECK(grant(*store, request).token.value == static_cast<std::uint64_t>(floor.count()) + 1);
}

TEST_CASE("sqlite: holds of another boot are over at once, for writers, slots and reaping", "[safety]") {
  SqliteUnderTest t;
  auto store = t.open();
  const Sharing sharing = GENERATE(Sharing{Mode::shared, 1}, Sharing{Mode::slot, 1});
  const Lease old = grant(*store, shares("owner-1", sharing));
  t.reboot("k");
  auto renewed = store->renew(ref_to(old), Actor::holder, std::nullopt);
  REQUIRE(renewed);
  CHECK(std::holds_alternative<NotOurs>(*renewed));
  SECTION("by a writer") {
    CHECK(grant(*store, asks("owner-2")).token > old.token);
  }
  SECTION("by another of its kind") {
    CHECK(grant(*store, shares("owner-2", sharing)).token > old.token);
  }
  SECTION("by reaping") {
    auto report = store->reap({false, 24h});
    REQUIRE(report);
    REQUIRE(report->abandoned.size() == 1);
    CHECK(report->abandoned.front().owner == "owner-1");
    CHECK(row(*store).state == State::free);
  }
}

// The waiter notices within its interval of renewals, by the boot clock.
TEST_CASE("sqlite: a step of the wall clock ends no hold, and a place only until its waiter renews it",
          "[safety]") {
  SqliteUnderTest t;
  auto store = t.open();
  const Micros step = GENERATE(Micros{-24h}, Micros{24h});
  CAPTURE(step.count());
  const Lease lease = grant(*store, shares("reader-1"));
  auto writer = asks("writer");
  CHECK(refused(*store, writer));
  const auto waits = t.open();
  const auto stand = [&] {
    const auto arrival = waits->stand_in_line(writer, 75s, true);
    REQUIRE(arrival);
    writer.arrival = *arrival;
  };
  stand();
  CHECK(refused(*store, shares("reader-2")));
  step_wall_clock(t, step);
  CHECK(refused(*store, asks("writer-2")));
  CHECK(waits->see_line(writer)->empty());
  grant(*store, shares("reader-2"));
  stand();
  CHECK(waits->see_line(writer)->size() == 1);
  CHECK(refused(*store, shares("reader-3")));
  auto renewed = store->renew(ref_to(lease), Actor::holder, std::nullopt);
  REQUIRE(renewed);
  CHECK(std::holds_alternative<Renewed>(*renewed));
}

TEST_CASE("sqlite: a lock that was held in an earlier boot goes to whoever asks, whoever waited for it") {
  SqliteUnderTest t;
  auto store = t.open();
  const auto before = GENERATE_COPY(asks("owner-1"), shares("owner-1"));
  const auto next = GENERATE_COPY(asks("owner-2"), shares("owner-2"));
  CAPTURE(to_string(before.sharing.mode), to_string(next.sharing.mode));
  grant(*store, before);
  REQUIRE(t.open()->stand_in_line(asks("dead"), 75s, true));
  t.age("k", 3s, false);  // a reboot takes longer; the lease has not ended
  t.reboot("k");
  grant(*store, next);
}

}  // namespace dblock::contract
