// Readers, slots and several keys on MariaDB: that a transaction is done as a whole or not at all, whatever
// breaks it, and what it costs.
#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "contract/mariadb_store.hpp"
#include "contract/stepped_database.hpp"
#include "contract/store_fixture.hpp"
#include "support/catch.hpp"
#include "support/proxy.hpp"

namespace dblock::contract {
namespace {

using test::Proxy;

LeaseRequest shared(const std::string& name, const std::string& owner) {
  return request_for(name, owner, {Mode::shared, 1});
}

LeaseRequest slot(const std::string& name, const std::string& owner, std::uint32_t slots) {
  return request_for(name, owner, {Mode::slot, slots});
}

LeaseRequest several(std::vector<std::string> names, const std::string& owner) {
  auto request = request_for(names.front(), owner);
  for (std::size_t i = 1; i < names.size(); ++i) request.further_keys.push_back(key(names[i]));
  return request;
}

bool does_release(LockBook& store, const LeaseRef& ref, RunEnd end = {}) {
  const auto outcome = store.release(ref, Actor::holder, end);
  if (!outcome) FAIL(outcome.error().message);
  return std::holds_alternative<Released>(*outcome);
}

bool does_release(LockBook& store, const Lease& lease, RunEnd end = {}) {
  return does_release(store, ref_to(lease), end);
}

bool does_renew(LockBook& store, const Lease& lease) {
  const auto outcome = store.renew(ref_to(lease), Actor::holder, std::nullopt);
  if (!outcome) FAIL(outcome.error().message);
  return std::holds_alternative<Renewed>(*outcome);
}

std::vector<LockStatus> listed(LockBook& store, bool held_only = true) {
  const auto listing = store.list({{}, {}, held_only});
  if (!listing) FAIL(listing.error().message);
  return listing->locks;
}

// Not the isolation level's name.
bool is_commit(const std::string& statement) {
  return statement == "COMMIT";
}

// A proxy in front of the server, and a store behind it.
struct Proxied {
  MariadbUnderTest under_test;
  Proxy proxy{under_test.database().server()};
  std::unique_ptr<LockBook> store = MariadbUnderTest::open_at(proxy.url(under_test.database().name()));
  std::unique_ptr<LockBook> other = under_test.open();

  [[nodiscard]] int sent(const std::string& text) const {
    int count = 0;
    for (const auto& statement : proxy.statements()) count += test::containing(text)(statement) ? 1 : 0;
    return count;
  }
  [[nodiscard]] int commits() const {
    const auto statements = proxy.statements();
    return static_cast<int>(std::ranges::count_if(statements, is_commit));
  }
  [[nodiscard]] long long number(const std::string& sql) { return under_test.database().number(sql); }
  [[nodiscard]] long long holders() {
    return number("SELECT COUNT(*) FROM dblock_lock WHERE lock_value IS NOT NULL");
  }
  // No session of this database is inside of a transaction. Not from information_schema.innodb_trx: who reads
  // it more often than ten times a second reads an old list for ever.
  [[nodiscard]] bool outside_transactions() {
    const std::string monitor = under_test.database().sql("SHOW ENGINE INNODB STATUS").at(0).at(2);
    const std::string begin = "---TRANSACTION";
    for (auto at = monitor.find(begin); at != std::string::npos;) {
      const auto end = monitor.find(begin, at + begin.size());
      const std::string transaction = monitor.substr(at, end - at);
      for (const auto& id : under_test.database().sessions()) {
        const bool ours = transaction.find("thread id " + id + ",") != std::string::npos;
        if (ours && transaction.find(" ACTIVE ") != std::string::npos) return false;
      }
      at = end;
    }
    return true;
  }
};

// True for the first `times` statements that hold `text`.
std::function<bool(const std::string&)> the_first(int times, std::string text) {
  auto left = std::make_shared<std::atomic<int>>(times);
  return [left, matches = test::containing(std::move(text))](const std::string& statement) {
    return matches(statement) && left->fetch_sub(1) > 0;
  };
}

}  // namespace

TEST_CASE("mariadb: readers share a lock, a writer is refused until the last of them is gone", "[safety]") {
  MariadbUnderTest t;
  const auto store = t.open();
  const Lease one = grant(*store, shared("k", "r1"));
  const Lease two = grant(*store, shared("k", "r2"));
  CHECK(two.token > one.token);
  CHECK(one.slot == 0);
  const auto refusal = conflict(*store, request_for("k", "w")).status;
  CHECK(refusal.sharing.mode == Mode::shared);
  CHECK(refusal.slot > 0);
  CHECK(refusal.holder.host == "host");
  const auto rows = listed(*store);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].owner == "r1");
  CHECK(rows[0].slot == 1);
  CHECK(rows[1].owner == "r2");
  REQUIRE(rows[1].waiters);
  CHECK(rows[1].waiters->empty());
  CHECK(does_renew(*store, one));
  CHECK(does_release(*store, one, {RunOutcome::succeeded, 0}));
  CHECK_FALSE(does_release(*store, one));
  CHECK_FALSE(does_renew(*store, one));
  conflict(*store, request_for("k", "w"));
  CHECK(does_release(*store, two, {RunOutcome::failed, 3}));
  const Lease writer = grant(*store, request_for("k", "w"));
  CHECK(writer.token > two.token);
  conflict(*store, shared("k", "r3"));
  const auto row = row_of(*store, key("k"));
  REQUIRE(row);
  CHECK((*row)->owner == "w");
  CHECK((*row)->last->outcome == RunOutcome::failed);
  CHECK((*row)->last->exit_code == 3);
  CHECK((*row)->last->acquired_at);
  CHECK((*row)->last_success);
  CHECK(does_release(*store, writer));
  grant(*store, request_for("k", "w2"));
}

TEST_CASE("mariadb: slots are numbered from one, and the lowest free one is given out again", "[safety]") {
  MariadbUnderTest t;
  const auto store = t.open();
  std::vector<Lease> leases;
  for (const auto* const owner : {"a", "b", "c"}) leases.push_back(grant(*store, slot("k", owner, 3)));
  for (std::uint32_t i = 0; i < 3; ++i) CHECK(leases[i].slot == i + 1);
  conflict(*store, slot("k", "d", 3));
  const auto other_number = store->try_acquire(slot("k", "d", 4));
  REQUIRE_FALSE(other_number);
  CHECK(other_number.error().code == Errc::usage);
  CHECK(does_release(*store, leases[1]));
  CHECK(does_release(*store, leases[0]));
  CHECK(grant(*store, slot("k", "d", 3)).slot == 1);
  CHECK(grant(*store, slot("k", "e", 3)).slot == 2);
  conflict(*store, slot("k", "f", 3));
  CHECK(t.database().number("SELECT COUNT(*) FROM dblock_lock WHERE slot>0") == 3);
}

TEST_CASE("mariadb: without a mode a release and a renewal find the reader", "[safety]") {
  MariadbUnderTest t;
  const auto store = t.open();
  const Lease lease = grant(*store, shared("k", "r"));
  const auto again = store->renew({key("k"), {"r"}, {}}, Actor::holder, 90s);
  REQUIRE(again);
  CHECK(std::holds_alternative<Renewed>(*again));
  CHECK(does_release(*store, {key("k"), {"r"}, {}}));
}

TEST_CASE("mariadb: several keys are taken and given back together, or none of them is", "[safety]") {
  Proxied t;
  const Lease both = grant(*t.store, several({"a", "b", "c"}, "one"));
  CHECK(t.number("SELECT COUNT(DISTINCT token) FROM dblock_lock") == 1);
  CHECK(conflict(*t.other, request_for("c", "two")).status.owner == "one");
  CHECK(does_renew(*t.store, both));
  CHECK(does_release(*t.store, both, {RunOutcome::succeeded, 0}));
  CHECK(t.holders() == 0);
  grant(*t.other, request_for("b", "two"));
  CHECK(conflict(*t.store, several({"a", "b"}, "one")).status.key == "b");
  CHECK(t.holders() == 1);
}

TEST_CASE("mariadb: a writer that waits keeps new readers away, until it was not seen for three seconds") {
  Proxied t;
  const Lease reader = grant(*t.other, shared("k", "r1"));
  WaitingRun writer(t.proxy.url(t.under_test.database().name()), request_for("k", "w"));
  REQUIRE(test::wait_until([&] { return writer.place() == 1; }));
  CHECK(conflict(*t.other, shared("k", "r2")).status.waited_for);
  // Longer than a place of its counts without being renewed.
  for (const auto begun = BootClock::now(); BootClock::now() - begun < 4s; test::pause_for(100ms))
    CHECK(conflict(*t.other, shared("k", "r2")).status.waited_for);
  t.proxy.refuse(true);
  t.proxy.cut_all();
  const auto gone = BootClock::now();
  CHECK(test::wait_until(
      [&] { return std::holds_alternative<Granted>(acquire(*t.other, shared("k", "r2"))); }));
  CHECK(BootClock::now() - gone < 10s * test::slowness());  // a sleeper's place would count for 45 s at least
  CHECK(does_renew(*t.other, reader));
}

TEST_CASE("mariadb: a deadlock anywhere in a transaction repeats all of it", "[safety]") {
  const auto* const where = GENERATE("FROM dblock_lock AS lease FORCE", "INSERT INTO dblock_lock",
                                     "INSERT INTO dblock_fence", "UPDATE dblock_lock", "COMMIT");
  CAPTURE(where);
  for (const auto error : {std::uint16_t{1213}, std::uint16_t{1205}, std::uint16_t{1020}}) {
    CAPTURE(error);
    Proxied t;
    REQUIRE(t.store->connect());
    t.proxy.refuse_statements(the_first(1, where), error, "not now");
    const Lease lease = grant(*t.store, shared("k", "r"));
    CHECK_FALSE(lease.needs_renewal_proof);
    // One more adds the rows that are missing.
    CHECK(t.sent("START TRANSACTION") == 3);
    CHECK(t.sent("ROLLBACK") == 1);
    CHECK(t.holders() == 1);
    CHECK(t.number("SELECT COUNT(*) FROM dblock_lock WHERE slot>0") == 1);
    CHECK(t.outside_transactions());
    CHECK(does_release(*t.store, lease));
  }
}

TEST_CASE("mariadb: deadlocks without end are a definite failure, and nothing is done", "[safety]") {
  // 1020: the row was changed after the snapshot, with innodb_snapshot_isolation.
  const auto error = GENERATE(std::uint16_t{1213}, std::uint16_t{1020});
  Proxied t;
  REQUIRE(t.store->connect());
  t.proxy.refuse_statements(test::containing("JOIN dblock_lock AS own"), error, "not now");
  const auto refused = t.store->try_acquire(shared("k", "r"));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::unreachable);
  CHECK(refused.error().native == error);
  CHECK(t.sent("START TRANSACTION") > 3);
  CHECK(t.commits() == 1);  // of the lock's own row, which was missing
  CHECK(t.outside_transactions());
  CHECK(t.holders() == 0);
  // The session is sound, and out of the transaction.
  grant(*t.store, request_for("other", "owner"));
  CHECK(t.holders() == 1);
}

TEST_CASE("mariadb: a session that cannot be rolled back is not used any more", "[safety]") {
  Proxied t;
  grant(*t.other, shared("k", "r"));
  REQUIRE(t.store->connect());
  t.proxy.cut(Proxy::Cut::before_statement, test::containing("ROLLBACK"));
  const auto refused = t.store->try_acquire(slot("k", "s", 2));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::usage);
  CHECK(t.proxy.cuts() == 1);
  grant(*t.store, request_for("other", "owner"));
  CHECK(t.number("SELECT COUNT(lock_value) FROM dblock_lock WHERE slot=0") == 1);
}

TEST_CASE("mariadb: a transaction cut off before its COMMIT is known not to be done", "[safety]") {
  const auto* const where =
      GENERATE("START TRANSACTION", "FROM dblock_lock AS lease FORCE", "INSERT INTO dblock_lock",
               "INSERT INTO dblock_fence", "UPDATE dblock_lock");
  CAPTURE(where);
  for (const auto how : {Proxy::Cut::before_statement, Proxy::Cut::before_reply}) {
    Proxied t;
    REQUIRE(t.store->connect());
    t.proxy.cut(how, test::containing(where));
    const auto lost = t.store->try_acquire(shared("k", "r"));
    REQUIRE_FALSE(lost);
    CHECK(lost.error().code == Errc::unreachable);
    CHECK(t.proxy.cuts() == 1);
    const bool grants =
        std::string_view(where) == "UPDATE dblock_lock";  // after the missing row was committed
    CHECK(t.commits() == (grants ? 1 : 0));
    CHECK(t.holders() == 0);
    grant(*t.store, shared("k", "r"));
  }
}

TEST_CASE("mariadb: a lost reply to a COMMIT is indeterminate, and a look tells", "[safety]") {
  const auto how = GENERATE(Proxy::Cut::before_statement, Proxy::Cut::before_reply);
  const bool done = how == Proxy::Cut::before_reply;
  Proxied t;
  REQUIRE(does_release(*t.other, grant(*t.other, several({"a", "b"}, "first"))));  // the rows are there
  REQUIRE(t.store->connect());
  t.proxy.cut(how, is_commit);
  const auto request = several({"a", "b"}, "owner");
  const auto lost = t.store->try_acquire(request);
  REQUIRE_FALSE(lost);
  CHECK(lost.error().code == Errc::indeterminate);
  CHECK(t.commits() == 1);
  CHECK(test::wait_until([&] { return t.outside_transactions(); }));
  const auto seen = t.store->look(request);
  REQUIRE(seen);
  CHECK(std::holds_alternative<Granted>(*seen) == done);
  CHECK(std::holds_alternative<Free>(*seen) == !done);
  CHECK(grant(*t.store, request).needs_renewal_proof == done);

  t.proxy.cut(how, test::containing("UPDATE dblock_lock"));
  const auto end = t.store->release({key("a"), {"owner"}, {}, {key("b")}}, Actor::holder, {});
  REQUIRE_FALSE(end);
  CHECK(end.error().code == Errc::indeterminate);
}

TEST_CASE("mariadb: an interrupted transaction leaves nothing behind", "[safety]") {
  Proxied t;
  grant(*t.other, request_for("k", "w"));
  auto& database = t.under_test.database();
  test::Connection blocker(database.server(), "root", database.name());
  blocker.sql("BEGIN");
  blocker.sql("SELECT * FROM dblock_lock" + t.under_test.where("k") + " FOR UPDATE");
  const std::jthread interrupting([&] {
    while (t.sent("FOR UPDATE") == 0) std::this_thread::yield();
    t.store->interrupt();
  });
  const auto refused = t.store->try_acquire(shared("k", "r"));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::unreachable);
  blocker.sql("ROLLBACK");
  conflict(*t.store, shared("k", "r"));
}

TEST_CASE("mariadb: of many who want slots at once exactly so many get one each", "[safety]") {
  MariadbUnderTest t;
  constexpr std::size_t k_racers = 12;
  std::vector<std::unique_ptr<LockBook>> stores(k_racers);
  for (auto& store : stores) {
    store = t.open();
    REQUIRE(store->connect());
  }
  for (int round = 0; round < 4; ++round) {
    const std::string name = "k" + std::to_string(round / 2);
    std::atomic<int> granted{0}, refused{0}, errors{0}, numbers{0};
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < k_racers; ++i) {
      threads.emplace_back([&, i] {
        const auto outcome =
            stores[i]->try_acquire(slot(name, "owner-" + std::to_string(round) + "-" + std::to_string(i), 4));
        if (!outcome) {
          ++errors;
        } else if (const auto* const taken = std::get_if<Granted>(&*outcome)) {
          ++granted;
          numbers += 1 << taken->lease.slot;
        } else {
          ++refused;
        }
      });
    }
    threads.clear();
    CHECK(errors == 0);
    CHECK(granted == 4);
    CHECK(numbers == 0b11110);
    for (const auto& row : listed(*stores[0])) {
      CHECK(does_release(*stores[0], {key(row.key), {row.owner}, row.token, {}, Mode::slot}));
    }
  }
}

TEST_CASE("mariadb: opposite orders of keys, readers and writers at once neither deadlock nor overlap",
          "[safety]") {
  MariadbUnderTest t;
  std::atomic<int> errors{0}, inside{0}, overlaps{0}, granted{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      const auto store = t.open();
      for (int round = 0, turns = 0; turns < 5; ++round) {
        const std::string owner = std::to_string(i) + "." + std::to_string(round);
        const bool reads = i % 2 == 0;
        const auto request = reads ? shared("b", owner) : several({"a", "b", "c"}, owner);
        const auto outcome = store->try_acquire(request);
        if (!outcome) {
          ++errors;
        } else if (const auto* const taken = std::get_if<Granted>(&*outcome)) {
          ++turns;
          ++granted;
          const int weight = reads ? 1 : 1000;
          const int others = inside.fetch_add(weight);
          if (reads ? others >= 1000 : others > 0) ++overlaps;
          if (!store->renew(ref_to(taken->lease), Actor::holder, {})) ++errors;
          inside -= weight;
          if (!store->release(ref_to(taken->lease), Actor::holder, {})) ++errors;
        }
      }
    });
  }
  threads.clear();
  CHECK(errors == 0);
  CHECK(overlaps == 0);
  CHECK(granted == 30);
  CHECK(listed(*t.open()).empty());
}

TEST_CASE("mariadb: an expired reader makes way for a writer after its margin, and its renewal comes late",
          "[safety]") {
  MariadbUnderTest t;
  const auto store = t.open();
  const Lease reader = grant(*store, shared("k", "r"));
  t.age("k", 60s + 500ms, false);
  CHECK(conflict(*store, request_for("k", "w")).status.state == State::expired);
  t.age("k", 1s, false);
  const Lease writer = grant(*store, request_for("k", "w"));
  CHECK_FALSE(does_renew(*store, reader));
  CHECK_FALSE(does_release(*store, reader));
  CHECK(does_renew(*store, writer));
}

// The server reads its clock when a statement begins: so a renewal that was sent in time, and comes late,
// still finds its lease alive. What keeps it out is the row, which the grant has locked since its look.
TEST_CASE("mariadb: a renewal that comes late waits for the grant that ends its lease, and is refused",
          "[safety]") {
  const test::Server own;
  MariadbUnderTest t(own.address());
  Proxy proxy(own.address());
  const std::string now = "TIMESTAMPDIFF(SECOND,'1970-01-01',UTC_TIMESTAMP(6))";
  proxy.set_time(t.database().value("SELECT " + now + "-90"));
  const auto late = MariadbUnderTest::open_at(proxy.url(t.database().name()));
  REQUIRE(late->connect());
  const std::vector<std::pair<LeaseRequest, LeaseRequest>> successions{
      {request_for("a", "gone"), shared("a", "next")},
      {request_for("b", "gone"), several({"b", "c"}, "next")},
      {shared("d", "gone"), request_for("d", "next")},
      {shared("e", "gone"), shared("e", "next")},
      {slot("f", "gone", 1), slot("f", "next", 1)}};
  for (const auto& [before, next] : successions) {
    CAPTURE(before.key.bytes());
    const auto gone = grant(*t.open(), before);
    t.age(before.key.bytes(), 2min, false);
    REQUIRE(does_renew(*late, gone));  // while no grant has come between
    std::future<Result<RenewOutcome>> renewing;
    bool waits = false;
    const auto store = open_stepped(
        t, once_before(k_steps_of_a_grant, [&] {
          const auto waits_before = t.lock_waits();
          renewing = std::async(std::launch::async,
                                [&] { return late->renew(ref_to(gone), Actor::holder, std::nullopt); });
          const auto ended = [&] { return renewing.wait_for(0s) == std::future_status::ready; };
          CHECK(test::wait_until([&] { return t.lock_waits() > waits_before || ended(); }));
          waits = !ended();
        }));
    grant(*store, next);
    CHECK(waits);
    const auto renewal = renewing.get();
    REQUIRE(renewal);
    CHECK(std::holds_alternative<NotOurs>(*renewal));
    CHECK(t.database().number("SELECT COUNT(*) FROM dblock_lock WHERE lock_value='gone'") == 0);
  }
}

TEST_CASE("mariadb: an expired slot is taken over, and the row remembers its last holder", "[safety]") {
  MariadbUnderTest t;
  const auto store = t.open();
  const Lease lost = grant(*store, slot("k", "a", 2));
  t.age("k", 1h, false);
  const Lease next = grant(*store, slot("k", "b", 2));
  CHECK(next.slot == 1);
  CHECK(next.token > lost.token);
  const auto rows = listed(*store);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].last->outcome == RunOutcome::abandoned);
  CHECK_FALSE(does_release(*store, lost));
  CHECK(does_renew(*store, next));
}

TEST_CASE("mariadb: one holder of several is revoked or freed by its token", "[safety]") {
  MariadbUnderTest t;
  const auto store = t.open();
  const Lease one = grant(*store, slot("k", "a", 2));
  const Lease two = grant(*store, slot("k", "b", 2));
  const auto revoked = store->revoke(key("k"), one.token, "op@desk");
  REQUIRE(revoked);
  CHECK(std::get<Revoked>(*revoked).status.owner == "a");
  CHECK_FALSE(does_renew(*store, one));
  CHECK(does_renew(*store, two));
  t.database().sql("UPDATE dblock_lock SET update_time=update_time-INTERVAL 1 MINUTE WHERE slot=2");
  REQUIRE(store->free_now(key("k"), two.token));
  CHECK(grant(*store, slot("k", "c", 2)).slot == 2);
  CHECK(does_release(*store, one));
}

TEST_CASE("mariadb: reaping frees holders one by one and forgets a lock only with the last of them",
          "[safety]") {
  MariadbUnderTest t;
  const auto store = t.open();
  grant(*store, slot("k", "a", 2));
  const Lease second = grant(*store, slot("k", "b", 2));
  t.database().sql("UPDATE dblock_lock SET expire_time=expire_time-INTERVAL 1 HOUR WHERE slot=2");
  auto report = store->reap({true, 24h});
  REQUIRE(report);
  CHECK(report->abandoned.size() == 1);
  report = store->reap({false, 24h});
  REQUIRE(report);
  REQUIRE(report->abandoned.size() == 1);
  CHECK(report->abandoned[0].owner == "b");
  CHECK(report->abandoned[0].slot == 2);
  CHECK(t.database().value("SELECT last_outcome FROM dblock_lock WHERE slot=2") == "abandoned");
  CHECK_FALSE(does_renew(*store, second));

  // Everything is old but the first holder's lease.
  t.age("k", 1000h, true);
  t.database().sql("UPDATE dblock_lock SET expire_time=UTC_TIMESTAMP(6)+INTERVAL 1 HOUR WHERE slot=1");
  for (const bool dry : {true, false}) {
    report = store->reap({dry, 24h});
    REQUIRE(report);
    CHECK(report->abandoned.empty());
    CHECK(report->forgotten == 0);
  }
  CHECK(t.database().number("SELECT COUNT(*) FROM dblock_lock") == 3);

  CHECK(does_release(*store, {key("k"), {"a"}, {}}));
  t.age("k", 1000h, true);
  report = store->reap({false, 24h});
  REQUIRE(report);
  CHECK(report->forgotten == 3);
  grant(*store, slot("k", "c", 1));
}

TEST_CASE("mariadb: a minimal hold keeps a slot, and a success within the period is found by all") {
  MariadbUnderTest t;
  const auto store = t.open();
  auto request = slot("k", "a", 1);
  request.promises.min_hold = 1h;
  const Lease lease = grant(*store, request);
  CHECK(does_release(*store, lease, {RunOutcome::succeeded, 0}));
  CHECK(conflict(*store, slot("k", "b", 1)).status.state == State::cooldown);
  const auto rows = listed(*store, false);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].state == State::cooldown);
  CHECK(rows[0].slot == 1);
  auto periodic = request_for("k", "c");
  periodic.promises.once_per = OncePer{1h};
  CHECK(std::holds_alternative<Done>(acquire(*store, periodic)));
}

TEST_CASE(
    "mariadb: a writer that waits for readers looks itself, and a reader behind it sleeps until it ends") {
  MariadbUnderTest t;
  const auto url = t.database().url();
  HoldingRun reader(url, shared("k", "r1"));
  std::atomic<bool> writes = false;
  std::atomic<bool> may_end = false;
  WaitingRun writer(url, request_for("k", "w"), [&](const Lease&) {
    writes = true;
    [[maybe_unused]] const bool in_time = test::wait_until([&] { return may_end.load(); });
  });
  REQUIRE(test::wait_until([&] { return writer.place() == 1; }));
  WaitingRun late(url, shared("k", "r2"));
  REQUIRE(test::wait_until([&] { return t.asleep() == 1; }));
  CHECK(late.place() == 2);
  // Each of several readers may be the last to end, so the writer sleeps behind none of them.
  REQUIRE(t.open()->release(ref_to(reader.lease()), Actor::holder, {}));
  CHECK(test::wait_until([&] { return writes.load(); }));
  CHECK(t.asleep() == 1);
  CHECK_FALSE(late.ended());
  const BootTime ended = BootClock::now();
  may_end = true;
  CHECK(writer.granted());
  CHECK(late.granted());
  CHECK(late.decided_at() - ended < 10s * test::slowness());  // its own first look comes after 15 s
}

// The job does not wait for what a waiter's session needs to become a holder's.
TEST_CASE(
    "mariadb: a reader that has waited keeps its session, which it may leave idle from its settling on") {
  Proxied t;
  HoldingRun writer(t.under_test.database().url(), request_for("k", "w"));
  t.store->wake_up()->announce({"r"});
  auto request = shared("k", "r");
  conflict(*t.store, request);
  const auto arrival = t.store->stand_in_line(request, 75s, true);
  REQUIRE(arrival);
  request.arrival = *arrival;
  const WakeEvent never;
  const auto sleep = [&](Nanos time) {
    return t.store->wake_up()->sleep_behind({"w"}, 0, BootClock::now() + time, never);
  };
  REQUIRE(sleep(100ms) == Slept::not_yet);
  writer.end();
  REQUIRE(sleep(test::patience()) == Slept::to_its_end);
  const int connections = t.proxy.connections();
  const Lease lease = grant(*t.store, request);
  // On MySQL the transaction of the refused try has already sent one.
  const auto sent_before = t.sent("wait_timeout=DEFAULT");
  CHECK(t.sent("DELETE FROM dblock_waiter") == 0);
  t.store->hold(LeaseStore::RenewedBy::another);
  t.store->hold(LeaseStore::RenewedBy::this_store);
  t.store->hold(LeaseStore::RenewedBy::this_store);
  CHECK(t.sent("wait_timeout=DEFAULT") == sent_before + 1);
  CHECK(t.sent("DELETE FROM dblock_waiter") == 1);
  CHECK(does_renew(*t.store, lease));
  CHECK(t.proxy.connections() == connections);
}

TEST_CASE("mariadb: a nested acquisition costs a statement, in a hold three, and counts on its outer lease") {
  Proxied t;
  for (const auto& request : {request_for("k", "w"), shared("s", "r")}) {
    const Lease outer = grant(*t.store, request);
    auto inner = request;
    inner.outer = outer.owner;
    inner.owner = {"another"};
    const auto before = t.proxy.statements().size();
    const auto nested = t.store->nest(inner);
    if (!nested) FAIL(nested.error().message);
    REQUIRE(nested->has_value());
    CHECK((*nested)->token == outer.token);
    const bool in_hold = request.sharing.mode != Mode::exclusive;
    CHECK(t.proxy.statements().size() - before == (in_hold ? 3U : 1U));
    CHECK(row_of(*t.store, request.key)->value().count == 2);
    CHECK(does_renew(*t.store, **nested));
    CHECK(does_release(*t.store, **nested));
    CHECK(does_release(*t.store, **nested));
    CHECK(row_of(*t.store, request.key)->value().count == 1);
    CHECK(does_renew(*t.store, outer));
    CHECK(does_release(*t.store, outer));
    const auto late = t.store->nest(inner);
    REQUIRE(late);
    CHECK_FALSE(late->has_value());
  }
}

TEST_CASE(
    "mariadb: who is frozen in the middle of a transaction keeps others from its rows for seconds only") {
  Proxied t;
  REQUIRE(does_release(*t.other, grant(*t.other, slot("k", "before", 2))));
  // Our own patience is longer than the server's, which alone can end it.
  const auto frozen = MariadbUnderTest::open_at(t.proxy.url(t.under_test.database().name()), 90s);
  t.proxy.cut(
      Proxy::Cut::before_reply,
      [&](const std::string& statement) {
        if (test::containing("UPDATE dblock_lock")(statement)) t.proxy.stall();
        return false;
      },
      1);
  std::atomic<bool> ended = false;
  std::atomic<bool> granted = false;
  std::jthread transaction([&] {
    granted = frozen->try_acquire(slot("k", "frozen", 2)).has_value();
    ended = true;
  });
  REQUIRE(test::wait_until([&] { return t.sent("UPDATE dblock_lock") == 1; }));
  CHECK(test::wait_until([&] { return t.other->try_acquire(slot("k", "other", 2)).has_value(); }, 40s));
  CHECK_FALSE(ended);
  CHECK(t.number("SELECT COUNT(*) FROM dblock_lock WHERE lock_value=" + test::sql_hex("frozen")) == 0);
  t.proxy.resume();
  transaction.join();
  CHECK_FALSE(granted);
}

// On MySQL one more in front of a transaction and one after it: see NamedLockWakeUp::ShortIdleTime.
TEST_CASE("mariadb: a shared lock costs four statements to take and one to release") {
  Proxied t;
  const std::size_t more = test::mysql_run() ? 2 : 0;
  const Lease first = grant(*t.store, shared("k", "r1"));
  auto before = t.proxy.statements().size();
  // Never have there been two: there is a row to make, and its fence.
  REQUIRE(does_release(*t.store, grant(*t.store, shared("k", "r2"))));
  CHECK(t.proxy.statements().size() - before == 6 + 1 + more);
  before = t.proxy.statements().size();
  const Lease lease = grant(*t.store, shared("k", "r2"));
  CHECK(t.proxy.statements().size() - before == 4 + more);
  before = t.proxy.statements().size();
  CHECK(does_renew(*t.store, lease));
  CHECK(t.proxy.statements().size() - before == 1);
  before = t.proxy.statements().size();
  CHECK(does_release(*t.store, lease));
  CHECK(t.proxy.statements().size() - before == 1);
}

TEST_CASE("mariadb: a script that has nothing but its owner id renews a hold by primary key") {
  Proxied t;
  auto request = GENERATE(shared("k", "script"), slot("k", "script", 3));
  request.kind = Kind::acquire;
  request.terms.heartbeat.reset();
  grant(*t.store, request);
  const auto renewal = t.store->renew({key("k"), {"script"}, std::nullopt}, Actor::script, std::nullopt);
  REQUIRE(renewal);
  CHECK(std::holds_alternative<Renewed>(*renewal));
  const auto statements = t.proxy.statements();
  const auto last = std::ranges::find_if(statements.rbegin(), statements.rend(),
                                         [](const std::string& sql) { return sql.starts_with("UPDATE"); });
  REQUIRE(last != statements.rend());
  CHECK(last->find("UPDATE dblock_lock") == 0);
  CHECK(last->find(" AND slot BETWEEN 1 AND 1 ") != std::string::npos);
}

}  // namespace dblock::contract
