#include <algorithm>
#include <atomic>
#include <thread>

#include "contract/store_fixture.hpp"
#include "support/config.hpp"

namespace dblock::contract {

std::string row_values(const RowState& row, const TimeAsSql& time) {
  const bool is_held = !row.owner.empty();
  const Micros began = is_held ? row.expires.value() - 1min : row.freed;
  std::string values = "'" + row.key + "'," + std::to_string(row.slot) + ",'" +
                       std::string(to_string(row.sharing.mode)) + "'," + std::to_string(row.sharing.slots) +
                       (is_held ? ",'" + row.owner + "',1" : ",NULL,0");
  for (const auto& at : {std::optional(began), std::optional(began), row.expires, row.revoked, row.hold_until,
                         row.succeeded, row.succeeded})
    values += "," + time(at);
  return values + (row.was_granted ? ",1000," : ",0,") + std::to_string(row.margin.count()) +
         ",1,'run',60000000,'host',4711,'user','job',''," +
         (row.hold_length ? std::to_string(row.hold_length->count()) : "NULL");
}

namespace {

// Everything that says who holds the row until when.
void check_untouched(const LockStatus& before, const LockStatus& after) {
  CHECK(after.owner == before.owner);
  CHECK(after.token == before.token);
  CHECK(after.expires_at == before.expires_at);
  CHECK(after.renewed_at == before.renewed_at);
}

}  // namespace

STORE_CASE("a run's kind, holder and heartbeat are in the row", "[all-of-dblock]") {
  Fixture t;
  t.grant(asks("k", "owner-1"));
  const LockStatus row = t.row("k");
  CHECK(row.kind == Kind::run);
  CHECK(row.holder.host == "host");
  CHECK(row.holder.pid == 4711);
  CHECK(row.holder.user == "user");
  CHECK(row.holder.command == "job");
  CHECK(row.heartbeat == Micros{10s});
}

STORE_CASE("a lock that nobody ever held is granted with its terms in the row") {
  Fixture t;
  const BootTime before = BootClock::now();
  const Lease lease = t.grant(asks("k", "owner-1"));
  CHECK(lease.owner.text == "owner-1");
  CHECK(lease.sent_at >= before);
  CHECK(lease.sent_at <= BootClock::now());
  CHECK_FALSE(lease.needs_renewal_proof);
  const LockStatus row = t.row("k");
  CHECK(row.state == State::held);
  CHECK(row.owner == "owner-1");
  CHECK(row.token == lease.token);
  CHECK(row.count == 1);
  CHECK(row.holder.note == "note");
  REQUIRE(row.acquired_at);
  REQUIRE(row.expires_at);
  CHECK(row.expires_at->since_epoch == row.acquired_at->since_epoch + 60s);
  CHECK(row.renewed_at == row.acquired_at);
  CHECK(row.server_time >= *row.acquired_at);
  CHECK(row.ttl == 60s);
  CHECK(row.margin == 10s);
  CHECK_FALSE(row.last);
  CHECK_FALSE(row.last_success);
}

STORE_CASE("a held lock is refused and the refusal names the holder", "[safety]") {
  Fixture t;
  const Lease lease = t.grant(asks("k", "owner-1"));
  const LockStatus before = t.row("k");
  const Held refusal = t.conflict(asks("k", "owner-2"));
  CHECK(refusal.status.owner == "owner-1");
  CHECK(refusal.status.token == lease.token);
  CHECK(refusal.status.holder.host == before.holder.host);
  CHECK(refusal.status.grantable_at().since_epoch == before.expires_at->since_epoch + 10s);
  check_untouched(before, t.row("k"));
}

STORE_CASE("a look at a key without a row finds nothing and creates nothing", "[all-of-dblock]") {
  Fixture t;
  auto seen = row_of(*t.store, key("k"));
  REQUIRE(seen);
  CHECK_FALSE(seen->has_value());
  CHECK(t.listed({{}, {}, false}).empty());
}

STORE_CASE("of many who try at once exactly one is granted", "[safety]") {
  Fixture t;
  constexpr int k_racers = 8;
  constexpr int k_rounds = 12;
  std::vector<std::unique_ptr<LockBook>> stores;
  for (int i = 0; i < k_racers; ++i) {
    stores.push_back(t.under_test->open());
    REQUIRE(stores.back()->connect());
  }
  for (int round = 0; round < k_rounds; ++round) {
    // Odd rounds race for a row that is there and free, even ones for one that has yet to be created.
    const std::string name = "race-" + std::to_string(round / 2);
    std::atomic<int> ready{0}, granted{0}, errors{0};
    std::vector<std::jthread> threads;
    for (int i = 0; i < k_racers; ++i) {
      threads.emplace_back([&, i] {
        ++ready;
        while (ready < k_racers) std::this_thread::yield();
        const auto request = asks(name, "owner-" + std::to_string(round) + "-" + std::to_string(i));
        const auto outcome = stores[static_cast<std::size_t>(i)]->try_acquire(request);
        if (!outcome) {
          ++errors;
        } else if (std::holds_alternative<Granted>(*outcome)) {
          ++granted;
        }
      });
    }
    threads.clear();
    CHECK(granted == 1);
    CHECK(errors == 0);
    const LockStatus row = t.row(name);
    CHECK(released(t.release({key(name), {row.owner}, row.token})));
  }
}

STORE_CASE("an expired lease is taken over at expire_time plus margin and not a moment earlier", "[safety]") {
  Fixture t;
  t.grant(asks("k", "owner-1", Kind::acquire, 1h, 1h));
  t.under_test->age("k", 90min, false);
  CHECK(t.conflict(asks("k", "owner-2")).status.state == State::expired);
  t.under_test->age("k", 30min - 100ms, false);
  const ServerTime allowed = t.row("k").grantable_at();
  while (!std::holds_alternative<Granted>(t.acquire(asks("k", "owner-2")))) std::this_thread::sleep_for(2ms);
  const LockStatus row = t.row("k");
  CHECK(row.owner == "owner-2");
  CHECK(row.acquired_at->since_epoch + t.under_test->clock_jitter() >= allowed.since_epoch);
  CHECK(row.acquired_at->since_epoch < allowed.since_epoch + test::patience());  // of two hours
}

STORE_CASE("a takeover records its predecessor as abandoned") {
  Fixture t;
  t.grant(asks("k", "owner-1", Kind::run, 10s, 1s));
  t.under_test->age("k", 12s, false);
  const LockStatus before = t.row("k");
  CHECK(before.state == State::expired);
  t.grant(asks("k", "owner-2"));
  const LockStatus row = t.row("k");
  REQUIRE(row.last);
  CHECK(row.last->outcome == RunOutcome::abandoned);
  CHECK(row.last->acquired_at == before.acquired_at);
  CHECK_FALSE(row.last->released_at);
  CHECK_FALSE(row.last->exit_code);
  CHECK_FALSE(row.last_success);
}

STORE_CASE("tokens increase across release, expiry, reaping and deletion of the row", "[safety]") {
  Fixture t;
  std::vector<Token> tokens;
  const auto take = [&](const std::string& owner) {
    tokens.push_back(t.grant(asks("k", owner, Kind::acquire, 10s, 1s)).token);
  };
  take("released");
  CHECK(released(t.release({key("k"), {"released"}, tokens.back()})));
  take("expired");
  t.under_test->age("k", 12s, false);
  take("reaped");
  t.under_test->age("k", 12s, false);
  CHECK(t.reap(false).abandoned.size() == 1);
  take("deleted");
  t.under_test->delete_row("k");
  take("last");
  for (std::size_t i = 1; i < tokens.size(); ++i) CHECK(tokens[i] > tokens[i - 1]);
}

// Commits lost in a failover may have carried tokens that this row has never seen; the clock has passed them.
STORE_CASE("every grant's token is no smaller than the server's clock, not just than the row's last token",
           "[safety]") {
  Fixture t;
  CHECK(released(t.release(ref(t.grant(asks("k", "first"))))));
  const ServerTime before = t.row("k").server_time;
  const Lease second = t.grant(asks("k", "second"));
  CHECK(second.token.value >= static_cast<std::uint64_t>(before.since_epoch.count()));
}

STORE_CASE("a token from the future is still exceeded", "[safety]") {
  Fixture t;
  const Lease first = t.grant(asks("k", "owner-1"));
  CHECK(released(t.release(ref(first))));
  t.under_test->age("k", -Micros{240h}, true);  // as if granted by a clock ten days ahead
  const Token ahead = t.row("k").token;
  const Lease second = t.grant(asks("k", "owner-2"));
  CHECK(second.token.value == ahead.value + 1);
}

STORE_CASE("a row found held by the asker's own owner id is granted under the same token", "[safety]") {
  Fixture t;
  const Lease first = t.grant(asks("k", "owner-1"));
  const LockStatus before = t.row("k");
  CHECK(t.grant(asks("k", "owner-1")).token == first.token);
  check_untouched(before, t.row("k"));
}

STORE_CASE("a grant that was found by reading needs proof", "[all-of-dblock][safety]") {
  Fixture t;
  t.grant(asks("k", "owner-1"));
  CHECK(t.grant(asks("k", "owner-1")).needs_renewal_proof);
}

STORE_CASE("hold_until keeps a free lock from being granted until it has passed") {
  Fixture t;
  CHECK(released(t.release(ref(t.grant(asks("k", "owner-1"))))));
  t.under_test->set_promise("k", StoreUnderTest::Promise::hold_until, 1h);
  const Held refusal = t.conflict(asks("k", "owner-2"));
  CHECK(refusal.status.state == State::cooldown);
  CHECK(refusal.status.grantable_at() == refusal.status.hold_until);
  t.under_test->age("k", 59min, false);
  t.conflict(asks("k", "owner-2"));
  t.under_test->age("k", 1min, false);
  t.grant(asks("k", "owner-2"));
}

STORE_CASE("a cooldown is not believed once the clock was set back and it is longer than was asked for") {
  Fixture t;
  for (const bool after_failure : {false, true}) {
    CAPTURE(after_failure);
    auto request = asks("k", "owner-1");
    if (!after_failure) request.promises.min_hold = 1h;
    const RunEnd end{RunOutcome::failed, 3, after_failure ? 1h : 0h};
    const Lease lease = t.grant(request);
    t.under_test->age("k", 10h, false);  // a long job
    if (!after_failure) t.under_test->age("k", -10h, false);
    CHECK(released(t.release(ref(lease), Actor::holder, end)));
    t.under_test->age("k", -1s, false);
    t.conflict(asks("k", "owner-2"));
    t.under_test->age("k", -3h, false);
    CHECK(t.row("k").state == State::free);
    CHECK_FALSE(t.row("k").hold_until);
    CHECK(std::get<ForceRefused>(t.revoke("k", lease.token)).why == ForceRefused::Why::not_held);
    CHECK(released(t.release(ref(t.grant(asks("k", "owner-2"))))));
  }
}

STORE_CASE("a cooldown is as long as was asked for where the clock was set back while the lock was held") {
  Fixture t;
  auto request = asks("k", "owner-1");
  request.promises.min_hold = 1h;
  const Lease held = t.grant(request);
  t.under_test->age("k", -3h, false);
  CHECK(released(t.release(ref(held))));
  CHECK(released(t.release(ref(t.grant(asks("k", "owner-2"))))));
  // The cooldown of a failure takes the place of one that is not believed.
  for (const auto min_hold : {0h, 1h}) {
    CAPTURE(min_hold.count());
    request.promises.min_hold = min_hold;
    const Lease failed = t.grant(request);
    t.under_test->age("k", -3h, false);
    CHECK(released(t.release(ref(failed), Actor::holder, {RunOutcome::failed, 3, 30min})));
    CHECK(t.conflict(asks("k", "owner-2")).status.state == State::cooldown);
    t.under_test->age("k", 29min, false);
    t.conflict(asks("k", "owner-2"));
    t.under_test->age("k", 1min, false);
    CHECK(released(t.release(ref(t.grant(asks("k", "owner-2"))))));
  }
}

STORE_CASE("a cooldown whose length is not known is believed however long it is") {
  Fixture t;
  CHECK(released(t.release(ref(t.grant(asks("k", "owner-1"))))));
  t.under_test->set_promise("k", StoreUnderTest::Promise::hold_until, 1h);
  t.under_test->age("k", -3h, false);
  CHECK(t.conflict(asks("k", "owner-2")).status.state == State::cooldown);
  t.under_test->age("k", 4h, false);
  t.grant(asks("k", "owner-2"));
}

STORE_CASE("a release can keep the lock from then on, unless the lease was revoked", "[all-of-dblock]") {
  Fixture t;
  RunEnd end{RunOutcome::failed, 3, 1h};
  auto request = asks("k", "owner-1");
  for (const auto min_hold : {0h, 2h}) {
    CAPTURE(min_hold.count());
    request.promises.min_hold = min_hold;
    CHECK(released(t.release(ref(t.grant(request)), Actor::holder, end)));
    const LockStatus kept = t.conflict(asks("k", "owner-2")).status;
    CHECK(kept.state == State::cooldown);
    REQUIRE(kept.hold_until);
    const Micros hold = std::max<Micros>(min_hold, 1h);
    CHECK(kept.hold_until->since_epoch > kept.server_time.since_epoch + hold - 1min);
    t.under_test->age("k", std::chrono::duration_cast<std::chrono::minutes>(hold) - 1min, false);
    t.conflict(asks("k", "owner-2"));
    t.under_test->age("k", 1min, false);
  }
  request.promises.min_hold = 0h;
  const Lease revoked = t.grant(request);
  CHECK(std::holds_alternative<Revoked>(t.revoke("k", revoked.token)));
  CHECK(released(t.release(ref(revoked), Actor::holder, end)));
  t.grant(asks("k", "owner-2"));
}

STORE_CASE("a renewal can keep the lock from then on, but not for shorter than it was kept before",
           "[all-of-dblock]") {
  Fixture t;
  auto request = asks("k", "owner-1");
  for (const auto min_hold : {0h, 2h}) {
    CAPTURE(min_hold.count());
    request.promises.min_hold = min_hold;
    const Lease lease = t.grant(request);
    CHECK(renewed(t.renew(ref(lease), Actor::holder, {}, 1h)));
    CHECK(renewed(t.renew(ref(lease))));
    CHECK(released(t.release(ref(lease))));
    const Micros hold = std::max<Micros>(min_hold, 1h);
    t.under_test->age("k", std::chrono::duration_cast<std::chrono::minutes>(hold) - 1min, false);
    CHECK(t.conflict(asks("k", "owner-2")).status.state == State::cooldown);
    t.under_test->age("k", 1min, false);
  }
  t.grant(asks("k", "owner-2"));
}

STORE_CASE("hold_until outlives expiry and reaping") {
  Fixture t;
  t.grant(asks("k", "owner-1", Kind::run, 10s, 1s));
  t.under_test->age("k", 20s, false);
  t.under_test->set_promise("k", StoreUnderTest::Promise::hold_until, 1h);
  t.conflict(asks("k", "owner-2"));
  CHECK(t.reap(false).abandoned.size() == 1);
  CHECK(t.row("k").state == State::cooldown);
  t.conflict(asks("k", "owner-2"));
}

STORE_CASE("a grant promises its minimal hold, and release and the next holders are bound by it") {
  Fixture t;
  auto request = asks("k", "owner-1");
  request.promises.min_hold = 1h;
  for (const auto* const row_is : {"new", "old"}) {
    CAPTURE(row_is);
    const Lease lease = t.grant(request);
    const LockStatus held = t.row("k");
    REQUIRE(held.hold_until);
    CHECK(held.hold_until->since_epoch == held.acquired_at->since_epoch + 1h);
    CHECK(held.state == State::held);
    CHECK(released(t.release(ref(lease), Actor::holder, {RunOutcome::succeeded, 0})));
    const Held refusal = t.conflict(asks("k", "owner-2"));
    CHECK(refusal.status.state == State::cooldown);
    CHECK(refusal.status.hold_until == held.hold_until);
    REQUIRE(refusal.status.last);
    CHECK(refusal.status.last->host == "host");
    t.under_test->age("k", 59min, false);
    t.conflict(asks("k", "owner-2"));
    t.under_test->age("k", 1min, false);
  }
  // The next grant makes its own promise, or none.
  const Lease next = t.grant(asks("k", "owner-2"));
  CHECK_FALSE(t.row("k").hold_until);
  CHECK(released(t.release(ref(next))));
  CHECK(t.row("k").state == State::free);
  t.grant(asks("k", "owner-3"));
}

STORE_CASE("a minimal hold outlives a lease that is abandoned, taken back or reaped") {
  Fixture t;
  for (const auto* const name : {"expired", "reaped", "given back"}) {
    auto request = asks(name, "owner-1", Kind::run, 10s, 1s);
    request.promises.min_hold = 1h;
    t.grant(request);
    t.under_test->age(name, 20s, false);
  }
  CHECK(t.conflict(asks("expired", "owner-2")).status.state == State::expired);
  CHECK(
      released(t.release({key("given back"), {"owner-1"}, {}}, Actor::holder, {RunOutcome::abandoned, {}})));
  CHECK(t.reap(false).abandoned.size() == 2);
  for (const auto* const name : {"expired", "reaped", "given back"}) {
    CAPTURE(name);
    CHECK(t.conflict(asks(name, "owner-2")).status.state == State::cooldown);
    t.under_test->age(name, 1h, false);
    t.grant(asks(name, "owner-2"));
  }
}

namespace {

LeaseRequest asks_once(std::string_view name, std::string owner, Micros period) {
  auto request = asks(name, std::move(owner));
  request.promises.once_per = OncePer{period};
  return request;
}

bool already_done(const Answer& outcome) {
  return std::holds_alternative<Done>(outcome);
}

}  // namespace

STORE_CASE("a job that has succeeded is due again when nine tenths of its period have passed",
           "[all-of-dblock]") {
  Fixture t;
  const Lease first = t.grant(asks_once("k", "owner-1", 10h));
  CHECK(released(t.release(ref(first), Actor::holder, {RunOutcome::succeeded, 0})));
  t.under_test->age("k", 9h - 5s, false);
  const LockStatus before = t.row("k");
  auto refusal = t.acquire(asks_once("k", "owner-2", 10h));
  REQUIRE(already_done(refusal));
  CHECK(std::get<Done>(refusal).status.last_success->acquired_at == before.last_success->acquired_at);
  check_untouched(before, t.row("k"));
  t.under_test->age("k", 5s, false);
  t.grant(asks_once("k", "owner-2", 10h));
}

STORE_CASE("the period begins with the grant, however long the job took") {
  Fixture t;
  const Lease first = t.grant(asks("k", "owner-1", Kind::run, 20h));
  t.under_test->age("k", 9h, false);
  CHECK(released(t.release(ref(first), Actor::holder, {RunOutcome::succeeded, 0})));
  t.grant(asks_once("k", "owner-2", 10h));
}

STORE_CASE("only a success counts, and only who asks for once per period is refused") {
  Fixture t;
  for (const auto outcome :
       {RunOutcome::failed, RunOutcome::signalled, RunOutcome::timed_out, RunOutcome::lost,
        RunOutcome::released, RunOutcome::not_run, RunOutcome::abandoned}) {
    CHECK(released(t.release(ref(t.grant(asks_once("k", "owner", 10h))), Actor::holder, {outcome, {}})));
  }
  CHECK(released(t.release(ref(t.grant(asks("k", "owner"))), Actor::holder, {RunOutcome::succeeded, 0})));
  CHECK(already_done(t.acquire(asks_once("k", "owner", 10h))));
  CHECK(released(t.release(ref(t.grant(asks("k", "owner"))), Actor::holder, {RunOutcome::failed, 1})));
  CHECK(already_done(t.acquire(asks_once("k", "owner", 10h))));
}

STORE_CASE("a success of this period is told whether the lock is held, cooling down or free") {
  Fixture t;
  CHECK(released(t.release(ref(t.grant(asks("k", "owner-1"))), Actor::holder, {RunOutcome::succeeded, 0})));
  auto request = asks("k", "owner-2");
  request.promises.min_hold = 1h;
  const Lease held = t.grant(request);
  CHECK(already_done(t.acquire(asks_once("k", "owner-3", 10h))));
  CHECK(released(t.release(ref(held), Actor::holder, {RunOutcome::failed, 1})));
  CHECK(t.row("k").state == State::cooldown);
  CHECK(already_done(t.acquire(asks_once("k", "owner-3", 10h))));
  CHECK(std::holds_alternative<Held>(t.acquire(asks("k", "owner-3"))));
}

STORE_CASE("a success dated by a clock that was ahead holds nobody off for longer than a period") {
  Fixture t;
  CHECK(released(t.release(ref(t.grant(asks("k", "owner-1"))), Actor::holder, {RunOutcome::succeeded, 0})));
  t.under_test->age("k", -(1h - 5s), false);
  CHECK(already_done(t.acquire(asks_once("k", "owner-2", 10h))));
  t.under_test->age("k", -10s, false);
  t.grant(asks_once("k", "owner-2", 10h));
}

STORE_CASE("of many who want a job done once per period exactly one does it", "[all-of-dblock]") {
  Fixture t;
  constexpr int k_racers = 6;
  std::vector<std::unique_ptr<LockBook>> stores;
  for (int i = 0; i < k_racers; ++i) {
    stores.push_back(t.under_test->open());
    REQUIRE(stores.back()->connect());
  }
  for (const std::string name : {"a", "b", "c"}) {
    std::atomic<int> ready{0}, granted{0}, skipped{0}, errors{0};
    std::vector<std::jthread> threads;
    for (int i = 0; i < k_racers; ++i) {
      threads.emplace_back([&, i] {
        auto& store = *stores[static_cast<std::size_t>(i)];
        const auto request = asks_once(name, "owner-" + std::to_string(i), 1h);
        ++ready;
        while (ready < k_racers) std::this_thread::yield();
        for (;;) {
          const auto outcome = store.try_acquire(request);
          if (outcome && std::holds_alternative<Held>(*outcome)) continue;
          if (!outcome) ++errors;
          if (outcome && already_done(*outcome)) ++skipped;
          if (!outcome || already_done(*outcome)) return;
          if (++granted > k_racers) return;
          const LeaseRef mine{request.key, request.owner, std::nullopt};
          if (!store.release(mine, Actor::holder, {RunOutcome::succeeded, 0})) ++errors;
        }
      });
    }
    threads.clear();
    CHECK(granted == 1);
    CHECK(skipped == k_racers);
    CHECK(errors == 0);
  }
}

STORE_CASE("a row is not forgotten before the longest period asked for is over") {
  Fixture t;
  const auto run = [&](const LeaseRequest& request) {
    CHECK(released(t.release(ref(t.grant(request)), Actor::holder, {RunOutcome::succeeded, 0})));
  };
  run(asks_once("new row", "owner", 2000h));
  run(asks("old row", "owner"));
  t.under_test->age("old row", 2000h, false);
  run(asks_once("old row", "owner", 2000h));
  t.under_test->age("new row", 1900h, true);
  t.under_test->age("old row", 1900h, true);
  run(asks_once("old row", "owner", 24h));  // 100 h are left, and stay
  t.under_test->age("old row", 90h, true);
  t.under_test->age("new row", 90h, true);
  CHECK(t.reap(false, 48h).forgotten == 0);
  t.under_test->age("old row", 10h, true);
  t.under_test->age("new row", 10h, true);
  CHECK(t.reap(false, 48h).forgotten == 2);
}

STORE_CASE("a renewal extends the lease by the stored length from now", "[safety]") {
  Fixture t;
  const Lease lease = t.grant(asks("k", "owner-1"));
  t.under_test->age("k", 20s, false);
  const ServerTime asked = t.row("k").server_time;
  const BootTime before = BootClock::now();
  const auto outcome = t.renew(ref(lease));
  REQUIRE(renewed(outcome));
  const auto& answer = std::get<Renewed>(outcome);
  CHECK(answer.ttl == 60s);
  CHECK(answer.sent_at >= before);
  CHECK(answer.sent_at <= BootClock::now());
  const LockStatus row = t.row("k");
  CHECK(row.expires_at->since_epoch == row.renewed_at->since_epoch + 60s);
  CHECK(row.token == lease.token);
  CHECK(row.renewed_at->since_epoch + t.under_test->clock_jitter() >= asked.since_epoch);
}

STORE_CASE("two renewals in a row both succeed", "[safety]") {
  Fixture t;
  const Lease lease = t.grant(asks("k", "owner-1"));
  for (int i = 0; i < 50; ++i) CHECK(renewed(t.renew(ref(lease))));
}

STORE_CASE("a renewal never shortens a lease", "[all-of-dblock][safety]") {
  Fixture t;
  const Lease lease = t.grant(asks("k", "owner-1", Kind::acquire));
  const auto expires = t.row("k").expires_at;
  const auto outcome = t.renew(ref(lease), Actor::script, 5s);
  REQUIRE(renewed(outcome));
  CHECK(std::get<Renewed>(outcome).expires_at == *expires);
  CHECK(t.row("k").expires_at == expires);
}

STORE_CASE("a length given to a renewal is stored for the next", "[all-of-dblock]") {
  Fixture t;
  const Lease lease = t.grant(asks("k", "owner-1", Kind::acquire, 10s));
  const auto longer = t.renew(ref(lease), Actor::script, 100s);
  REQUIRE(renewed(longer));
  CHECK(std::get<Renewed>(longer).ttl == 100s);
  CHECK(std::get<Renewed>(longer).expires_at == *t.row("k").expires_at);
  t.under_test->age("k", 50s, false);
  const auto next = t.renew(ref(lease), Actor::script);
  REQUIRE(renewed(next));
  CHECK(std::get<Renewed>(next).ttl == 100s);
  const LockStatus row = t.row("k");
  CHECK(row.ttl == 100s);
  CHECK(row.expires_at->since_epoch == row.renewed_at->since_epoch + 100s);
}

STORE_CASE("a renewal never revives an expired lease, even an untaken one", "[safety]") {
  Fixture t;
  const Lease lease = t.grant(asks("k", "owner-1", Kind::acquire, 10s, 10s));
  t.under_test->age("k", 11s, false);
  const LockStatus before = t.row("k");
  CHECK(why(t.renew(ref(lease))) == NotOursWhy::expired);
  check_untouched(before, t.row("k"));
}

STORE_CASE("a renewal for a length of its own does not revive an expired lease either",
           "[all-of-dblock][safety]") {
  Fixture t;
  const Lease lease = t.grant(asks("k", "owner-1", Kind::acquire, 10s, 10s));
  t.under_test->age("k", 11s, false);
  const LockStatus before = t.row("k");
  CHECK(why(t.renew(ref(lease), Actor::script, 1h)) == NotOursWhy::expired);
  check_untouched(before, t.row("k"));
}

STORE_CASE("renew and release never touch another's lease", "[safety]") {
  Fixture t;
  const Lease old = t.grant(asks("k", "owner-1", Kind::acquire, 10s, 1s));
  t.under_test->age("k", 12s, false);
  const Lease current = t.grant(asks("k", "owner-2", Kind::acquire));
  const LockStatus before = t.row("k");
  for (const auto actor : {Actor::holder, Actor::script}) {
    CHECK(why(t.renew(ref(old), actor)) == NotOursWhy::other_holder);
    CHECK(why(t.release(ref(old), actor)) == NotOursWhy::other_holder);
    CHECK(why(t.renew({key("k"), {"owner-1"}, std::nullopt}, actor)) == NotOursWhy::other_holder);
    CHECK(why(t.release({key("k"), {"owner-1"}, std::nullopt}, actor)) == NotOursWhy::other_holder);
    const Token wrong{current.token.value + 1};
    CHECK(why(t.renew({key("k"), {"owner-2"}, wrong}, actor)) == NotOursWhy::other_holder);
    CHECK(why(t.release({key("k"), {"owner-2"}, wrong}, actor)) == NotOursWhy::other_holder);
    CHECK(why(t.renew({key("absent"), {"owner-2"}, std::nullopt}, actor)) == NotOursWhy::absent);
    CHECK(why(t.release({key("absent"), {"owner-2"}, std::nullopt}, actor)) == NotOursWhy::absent);
  }
  check_untouched(before, t.row("k"));
}

STORE_CASE("an owner id is matched byte by byte", "[safety]") {
  Fixture t;
  t.grant(asks("k", "Owner", Kind::acquire));
  for (const auto* const other : {"owner", "Owner ", "Öwner", "Owne"})
    CHECK(why(t.release({key("k"), {other}, std::nullopt})) == NotOursWhy::other_holder);
  CHECK(released(t.release({key("k"), {"Owner"}, std::nullopt})));
}

STORE_CASE("an owner id that nobody can have matches no lease", "[all-of-dblock][safety]") {
  Fixture t;
  t.grant(asks("k", "Owner", Kind::acquire));
  for (const auto* const other : {"Owner\t", ""})
    CHECK(why(t.release({key("k"), {other}, std::nullopt})) == NotOursWhy::other_holder);
}

STORE_CASE("a release frees the lock and records how the run ended") {
  Fixture t;
  const Lease lease = t.grant(asks("k", "owner-1"));
  const auto acquired = t.row("k").acquired_at;
  CHECK(released(t.release(ref(lease), Actor::holder, {RunOutcome::failed, 3})));
  const LockStatus row = t.row("k");
  CHECK(row.state == State::free);
  CHECK(row.owner.empty());
  CHECK(row.count == 0);
  CHECK(row.token == lease.token);
  CHECK_FALSE(row.expires_at);
  CHECK_FALSE(row.acquired_at);
  CHECK(row.grantable_at() <= row.server_time);
  REQUIRE(row.last);
  CHECK(row.last->outcome == RunOutcome::failed);
  CHECK(row.last->exit_code == 3);
  CHECK(row.last->acquired_at == acquired);
  CHECK(row.last->released_at >= acquired);
  CHECK_FALSE(row.last_success);
}

STORE_CASE("the last success stays when later runs fail") {
  Fixture t;
  const Lease first = t.grant(asks("k", "owner-1"));
  const auto acquired = t.row("k").acquired_at;
  CHECK(released(t.release(ref(first), Actor::holder, {RunOutcome::succeeded, 0})));
  const auto ended = t.row("k").last->released_at;
  CHECK(released(
      t.release(ref(t.grant(asks("k", "owner-2"))), Actor::holder, {RunOutcome::signalled, std::nullopt})));
  const LockStatus row = t.row("k");
  REQUIRE(row.last_success);
  CHECK(row.last_success->acquired_at == acquired);
  CHECK(row.last_success->released_at == ended);
  CHECK(row.last->outcome == RunOutcome::signalled);
  CHECK_FALSE(row.last->exit_code);
}

STORE_CASE("a row counts the runs that failed in a row, until one succeeds", "[all-of-dblock]") {
  Fixture t;
  for (const auto& [outcome, failures] :
       std::vector<std::pair<RunOutcome, std::uint32_t>>{{RunOutcome::failed, 1},
                                                         {RunOutcome::signalled, 2},
                                                         {RunOutcome::timed_out, 3},
                                                         {RunOutcome::not_run, 3},
                                                         {RunOutcome::lost, 3},
                                                         {RunOutcome::abandoned, 4},
                                                         {RunOutcome::succeeded, 0},
                                                         {RunOutcome::not_run, 0},
                                                         {RunOutcome::failed, 1}}) {
    CAPTURE(to_string(outcome));
    const Lease lease = t.grant(asks("k", "owner"));
    CHECK(released(t.release(ref(lease), Actor::holder, {outcome, std::nullopt})));
    CHECK(t.row("k").last->failures == failures);
  }
  t.grant(asks("k", "next"));
  CHECK(t.row("k").last->failures == 1);
}

STORE_CASE("a run that nobody released has failed, and a lease of acquire never does", "[all-of-dblock]") {
  Fixture t;
  for (const auto& [kind, failures] :
       {std::pair{Kind::run, 1U}, std::pair{Kind::acquire, 0U}, std::pair{Kind::sql, 0U}}) {
    const std::string word(to_string(kind));
    CAPTURE(word);
    for (const std::string end : {"taken", "reaped", "forced"})
      t.grant(asks(end + word, "owner", kind, 10s, 1s));
    for (const std::string end : {"taken", "reaped"}) t.under_test->age(end + word, 12s, false);
    t.grant(asks("taken" + word, "next"));
    t.reap(false);
    t.under_test->age("forced" + word, 5s, false);
    const Token token = t.row("forced" + word).token;
    CHECK(std::holds_alternative<Revoked>(t.free_now("forced" + word, token)));
    for (const std::string end : {"taken", "reaped", "forced"}) {
      CAPTURE(end);
      CHECK(t.row(end + word).last->outcome == RunOutcome::abandoned);
      CHECK(t.row(end + word).last->failures == failures);
    }
  }
}

STORE_CASE("a lease of acquire leaves the count of failures as it is", "[all-of-dblock]") {
  Fixture t;
  CHECK(released(t.release(ref(t.grant(asks("k", "run"))), Actor::holder, {RunOutcome::failed, 1})));
  const Lease lease = t.grant(asks("k", "script", Kind::acquire));
  CHECK(released(t.release(ref(lease), Actor::script, {})));
  CHECK(t.row("k").last->outcome == RunOutcome::released);
  CHECK(t.row("k").last->failures == 1);
}

STORE_CASE(
    "a renewal tells others that the holder's command has ended, until it is taken back or the lease ends",
    "[all-of-dblock]") {
  Fixture t;
  const bool is_released = GENERATE(true, false);
  const Lease lease = t.grant(asks("k", "owner", Kind::run, 10s, 1s));
  const auto renew = [&](const std::optional<JobNews>& news) {
    CHECK(renewed(t.renew(ref(lease), Actor::holder, std::nullopt, Micros{0}, news)));
  };
  renew(std::nullopt);
  CHECK_FALSE(t.row("k").job_ended_at);
  renew(JobNews{BootClock::now() - 1h});
  renew(std::nullopt);
  const LockStatus row = t.row("k");
  REQUIRE(row.job_ended_at);
  const Micros ago = row.server_time.since_epoch - row.job_ended_at->since_epoch;
  CHECK((ago >= 1h && ago < 2h));
  renew(JobNews{});
  CHECK_FALSE(t.row("k").job_ended_at);
  renew(JobNews{BootClock::now()});
  CHECK(t.row("k").job_ended_at);
  if (is_released) {
    CHECK(released(t.release(ref(lease))));
  } else {
    t.under_test->age("k", 12s, false);
  }
  t.grant(asks("k", "next"));
  CHECK_FALSE(t.row("k").job_ended_at);
}

STORE_CASE("a repeated release finds the lock free and changes nothing", "[safety]") {
  Fixture t;
  const Lease lease = t.grant(asks("k", "owner-1"));
  CHECK(released(t.release(ref(lease), Actor::holder, {RunOutcome::succeeded, 0})));
  const LockStatus before = t.row("k");
  CHECK(why(t.release(ref(lease), Actor::holder, {RunOutcome::failed, 1})) == NotOursWhy::free);
  CHECK(why(t.renew(ref(lease))) == NotOursWhy::free);
  CHECK(t.row("k").last->released_at == before.last->released_at);
  CHECK(t.row("k").last->outcome == before.last->outcome);
}

STORE_CASE("the holder may release its expired lease while nobody took over, a script may not",
           "[all-of-dblock][safety]") {
  Fixture t;
  const Lease run = t.grant(asks("run", "owner-1", Kind::run, 10s, 1s));
  const Lease script = t.grant(asks("script", "owner-1", Kind::acquire, 10s, 1s));
  t.under_test->age("run", 1h, false);
  t.under_test->age("script", 1h, false);
  CHECK(why(t.release(ref(script), Actor::script)) == NotOursWhy::expired);
  CHECK(t.row("script").owner == "owner-1");
  CHECK(released(t.release(ref(run), Actor::holder)));
  CHECK(t.row("run").state == State::free);
}

STORE_CASE("a script cannot renew or release the lease of a run", "[all-of-dblock][safety]") {
  Fixture t;
  const Lease lease = t.grant(asks("k", "owner-1", Kind::run));
  const LockStatus before = t.row("k");
  CHECK(why(t.renew(ref(lease), Actor::script)) == NotOursWhy::other_kind);
  CHECK(why(t.release(ref(lease), Actor::script)) == NotOursWhy::other_kind);
  check_untouched(before, t.row("k"));
}

STORE_CASE("a script renews and releases without knowing the token") {
  Fixture t;
  t.grant(asks("k", "owner-1", Kind::acquire));
  CHECK(renewed(t.renew({key("k"), {"owner-1"}, std::nullopt}, Actor::script)));
  CHECK(released(t.release({key("k"), {"owner-1"}, std::nullopt}, Actor::script)));
}

STORE_CASE("a revoked lease is not renewed but runs on to its end, and its holder may still release it",
           "[safety]") {
  Fixture t;
  const Lease lease = t.grant(asks("k", "owner-1"));
  const auto expires = t.row("k").expires_at;
  const auto outcome = t.revoke("k", lease.token);
  REQUIRE(std::holds_alternative<Revoked>(outcome));
  CHECK(std::get<Revoked>(outcome).status.owner == "owner-1");
  CHECK(std::get<Revoked>(outcome).status.revoked_at);
  CHECK(why(t.renew(ref(lease))) == NotOursWhy::revoked);
  CHECK(t.row("k").expires_at == expires);
  CHECK(t.row("k").state == State::held);
  t.conflict(asks("k", "owner-2"));
  CHECK(released(t.release(ref(lease), Actor::holder, {RunOutcome::lost, std::nullopt})));
  const Lease next = t.grant(asks("k", "owner-2"));
  CHECK_FALSE(t.row("k").revoked_at);
  CHECK(renewed(t.renew(ref(next))));
}

STORE_CASE("revoking and freeing need the current token and a holder", "[safety]") {
  Fixture t;
  const Lease lease = t.grant(asks("k", "owner-1", Kind::acquire));
  const LockStatus before = t.row("k");
  const Token wrong{lease.token.value - 1};
  CHECK(refused(t.revoke("k", wrong)) == ForceRefused::Why::wrong_token);
  CHECK(refused(t.free_now("k", wrong)) == ForceRefused::Why::wrong_token);
  CHECK(refused(t.revoke("absent", wrong)) == ForceRefused::Why::not_held);
  check_untouched(before, t.row("k"));
  CHECK_FALSE(t.row("k").revoked_at);
  CHECK(released(t.release(ref(lease))));
  CHECK(refused(t.revoke("k", lease.token)) == ForceRefused::Why::not_held);
  CHECK(refused(t.free_now("k", lease.token)) == ForceRefused::Why::not_held);
}

STORE_CASE("a cooldown is ended by force with its token, at once") {
  Fixture t;
  auto request = asks("k", "owner-1");
  request.promises.min_hold = 1h;
  for (const bool now : {false, true}) {
    CAPTURE(now);
    const Lease lease = t.grant(request);
    CHECK(released(t.release(ref(lease), Actor::holder, {RunOutcome::succeeded, 0})));
    const LockStatus before = t.row("k");
    CHECK(before.state == State::cooldown);
    const auto end = [&](Token token) { return now ? t.free_now("k", token) : t.revoke("k", token); };
    CHECK(refused(end({lease.token.value - 1})) == ForceRefused::Why::wrong_token);
    check_untouched(before, t.row("k"));
    const auto outcome = end(lease.token);
    REQUIRE(std::holds_alternative<Revoked>(outcome));
    CHECK(std::get<Revoked>(outcome).status.state == State::cooldown);
    CHECK_FALSE(std::get<Revoked>(outcome).status.revoked_at);
    const LockStatus after = t.row("k");
    CHECK(after.state == State::free);
    CHECK(after.token == lease.token);
    CHECK_FALSE(after.revoked_at);
    REQUIRE(after.last);
    CHECK(after.last->outcome == RunOutcome::succeeded);
    CHECK(refused(end(lease.token)) == ForceRefused::Why::not_held);
  }
  t.grant(asks("k", "owner-2"));
}

STORE_CASE("no cooldown follows a lease that was revoked or freed by force", "[all-of-dblock]") {
  Fixture t;
  auto request = asks("k", "owner-1");
  request.promises.min_hold = 1h;
  const Lease first = t.grant(request);
  CHECK(std::holds_alternative<Revoked>(t.revoke("k", first.token)));
  CHECK(released(t.release(ref(first), Actor::holder, {RunOutcome::lost, std::nullopt})));
  CHECK(t.row("k").state == State::free);
  const Lease second = t.grant(request);
  t.under_test->age("k", 50s, false);
  CHECK(std::holds_alternative<Revoked>(t.free_now("k", second.token)));
  CHECK(t.row("k").state == State::free);
}

STORE_CASE("freeing at once is refused while the heartbeat is younger than two intervals", "[safety]") {
  Fixture t;
  const Lease lease = t.grant(asks("k", "owner-1", Kind::run, 60s));
  t.under_test->age("k", 2 * t.row("k").heartbeat.value() - 1s, false);
  CHECK(refused(t.free_now("k", lease.token)) == ForceRefused::Why::fresh_heartbeat);
  t.under_test->age("k", 2s, false);
  CHECK(std::holds_alternative<Revoked>(t.free_now("k", lease.token)));
  const LockStatus row = t.row("k");
  CHECK(row.state == State::free);
  REQUIRE(row.last);
  CHECK(row.last->outcome == RunOutcome::abandoned);
  CHECK(why(t.renew(ref(lease))) == NotOursWhy::free);
}

STORE_CASE("a revocation does not pass for a heartbeat", "[safety]") {
  Fixture t;
  const Lease lease = t.grant(asks("k", "owner-1", Kind::run, 60s));
  t.under_test->age("k", 2 * t.row("k").heartbeat.value() + 1s, false);
  CHECK(std::holds_alternative<Revoked>(t.revoke("k", lease.token)));
  CHECK(std::holds_alternative<Revoked>(t.free_now("k", lease.token)));
}

STORE_CASE("a lease without heartbeat is freed at once", "[all-of-dblock]") {
  Fixture t;
  const Lease lease = t.grant(asks("k", "owner-1", Kind::acquire));
  CHECK(std::holds_alternative<Revoked>(t.free_now("k", lease.token)));
  t.grant(asks("k", "owner-2"));
}

STORE_CASE("a, A, a with a space and á are four locks, and so is anything else that differs in a byte",
           "[safety]") {
  Fixture t;
  const std::vector<std::string> names{"a",    "A",  "a ", "\xc3\xa1", "a\xcc\x81",       "a'", "a\"", "a\\",
                                       "a\\'", "a%", "a_", "a;--",     "\xf0\x9f\x94\x92"};
  for (const auto& name : names) t.grant(asks(name, "owner of " + name));
  for (const auto& name : names) CHECK(t.row(name).owner == "owner of " + name);
  CHECK(released(t.release({key("a"), {"owner of a"}, std::nullopt})));
  for (const auto& name : names) CHECK((t.row(name).state == State::held) == (name != "a"));
}

STORE_CASE("a key of 255 bytes works to its last byte", "[safety]") {
  Fixture t;
  const std::string longest(255, 'x');
  t.grant(asks(longest, "owner-1"));
  t.grant(asks(longest.substr(1) + "y", "owner-2"));
  CHECK(t.row(longest).owner == "owner-1");
}

STORE_CASE("text of a holder is stored whole, and cleaned where it is malformed", "[all-of-dblock]") {
  Fixture t;
  auto request = asks("k", "owner-1");
  request.holder = {"höst", 1, "'; DROP TABLE x; --", "cmd \\ \"q\" \xf0\x9f\x94\x92", "bad \xff byte"};
  t.grant(request);
  const LockStatus row = t.row("k");
  CHECK(row.holder.host == "höst");
  CHECK(row.holder.user == "'; DROP TABLE x; --");
  CHECK(row.holder.command == "cmd \\ \"q\" \xf0\x9f\x94\x92");
  CHECK(row.holder.note == "bad \xef\xbf\xbd byte");
  request.key = key("long");
  request.holder.note = std::string(100'000, 'n');
  request.holder.host = std::string(1000, 'h');
  t.grant(request);
  CHECK_FALSE(t.row("long").holder.note.empty());
}

STORE_CASE("listing selects by key, prefix and state, in the order of the bytes") {
  Fixture t;
  for (const auto* const name : {"b", "a%c", "a_c", "abc", "ab", "B", "a\xc3\xa9"})
    t.grant(asks(name, "owner"));
  CHECK(released(t.release({key("ab"), {"owner"}, std::nullopt})));
  t.grant(asks("expired", "owner", Kind::acquire, 10s, 1s));
  t.under_test->age("expired", 1h, false);
  using Keys = std::vector<std::string>;
  CHECK(t.listed({}) == Keys{"B", "a%c", "a_c", "abc", "a\xc3\xa9", "b"});
  CHECK(t.listed({{}, {}, false}) == Keys{"B", "a%c", "a_c", "ab", "abc", "a\xc3\xa9", "b", "expired"});
  CHECK(t.listed({{}, "a", false}) == Keys{"a%c", "a_c", "ab", "abc", "a\xc3\xa9"});
  CHECK(t.listed({{}, "a", true}) == Keys{"a%c", "a_c", "abc", "a\xc3\xa9"});
  CHECK(t.listed({{}, "a%", false}) == Keys{"a%c"});
  CHECK(t.listed({{}, "a_", false}) == Keys{"a_c"});
  CHECK(t.listed({{}, "a\xc3", false}) == Keys{"a\xc3\xa9"});
  CHECK(t.listed({{}, "\xff\xff", false}).empty());
  CHECK(t.listed({{}, "", false}).size() == 8);
  CHECK(t.listed({{key("b"), key("ab"), key("none")}, {}, false}) == Keys{"ab", "b"});
  CHECK(t.listed({{key("b"), key("ab")}, {}, true}) == Keys{"b"});
  CHECK(t.listed({{key("b"), key("ab")}, "a", false}) == Keys{"ab"});
}

STORE_CASE("reaping frees leases past their margin and no others", "[safety]") {
  Fixture t;
  for (const auto* const name : {"alive", "in margin", "past"})
    t.grant(asks(name, "owner", Kind::run, 10s, 5s));
  t.under_test->age("in margin", 12s, false);
  t.under_test->age("past", 16s, false);
  const auto would = t.reap(true);
  REQUIRE(would.abandoned.size() == 1);
  CHECK(would.abandoned.front().key == "past");
  CHECK(would.abandoned.front().owner == "owner");
  CHECK(would.abandoned.front().holder.host == t.row("past").holder.host);
  CHECK(t.row("past").owner == "owner");
  const auto done = t.reap(false);
  REQUIRE(done.abandoned.size() == 1);
  CHECK(done.abandoned.front().key == "past");
  CHECK(t.row("past").state == State::free);
  CHECK(t.row("past").last->outcome == RunOutcome::abandoned);
  CHECK(t.row("in margin").state == State::expired);
  CHECK(t.row("alive").state == State::held);
  CHECK(t.reap(false).abandoned.empty());
}

STORE_CASE("reaping forgets rows that are free and idle for long, and no others", "[safety]") {
  Fixture t;
  const auto make = [&](const std::string& name, Micros idle, bool with_token = true) {
    CHECK(released(t.release(ref(t.grant(asks(name, "owner"))))));
    t.under_test->age(name, idle, with_token);
  };
  make("fresh", 0s);
  make("old", 49h);
  make("oldest", 1000h);
  make("promised", 49h);
  t.under_test->set_promise("promised", StoreUnderTest::Promise::keep_until, 1h);
  make("cooling", 49h);
  t.under_test->set_promise("cooling", StoreUnderTest::Promise::hold_until, 1h);
  make("young token", 49h, false);
  t.grant(asks("held", "owner", Kind::acquire, 2000h, 0s));
  t.under_test->age("held", 1000h, true);
  CHECK(t.reap(true, 48h).forgotten == 2);
  CHECK(t.listed({{}, {}, false}).size() == 7);
  CHECK(t.reap(false, 48h).forgotten == 2);
  CHECK(t.listed({{}, {}, false}) ==
        std::vector<std::string>{"cooling", "fresh", "held", "promised", "young token"});
}

STORE_CASE("no row is forgotten within a day, whatever is asked", "[safety]") {
  Fixture t;
  CHECK(released(t.release(ref(t.grant(asks("k", "owner"))))));
  t.under_test->age("k", 23h, true);
  CHECK(t.reap(false, 0s).forgotten == 0);
  t.under_test->age("k", 2h, true);
  CHECK(t.reap(false, 0s).forgotten == 1);
}

STORE_CASE("many rows are forgotten in one go") {
  Fixture t;
  for (int i = 0; i < 450; ++i) {
    const std::string name = "k" + std::to_string(i);
    t.grant(asks(name, "owner"));
    CHECK(released(t.release({key(name), {"owner"}, std::nullopt})));
    t.under_test->age(name, 100h, true);
  }
  CHECK(t.reap(false, 48h).forgotten == 450);
  CHECK(t.listed({{}, {}, false}).empty());
}

STORE_CASE("after saying goodbye the next call connects anew") {
  Fixture t;
  const Lease lease = t.grant(asks("k", "owner-1"));
  t.store->disconnect();
  t.store->disconnect();
  CHECK(renewed(t.renew(ref(lease))));
}

STORE_CASE("an interrupt outside a call does nothing") {
  Fixture t;
  t.store->interrupt();
  const Lease lease = t.grant(asks("k", "owner-1"));
  t.store->interrupt();
  CHECK(renewed(t.renew(ref(lease))));
}

}  // namespace dblock::contract
