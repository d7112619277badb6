// What the verbs cost a MariaDB server, counted by the server itself, or by a proxy. Cases that the server
// counts for have it to themselves, so that nobody else's statements are counted.
#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "contract/mariadb_store.hpp"
#include "support/catch.hpp"
#include "support/proxy.hpp"

namespace dblock::contract {
namespace {

using namespace std::chrono_literals;
using namespace lease;
using test::Server;

class Counter {
 public:
  Counter(test::Connection& session, std::string names) : session_(session), names_(std::move(names)) {}

  // The server's counters, summed; reading them is a statement itself.
  long long read() {
    return session_.number("SELECT SUM(variable_value) FROM " + test::status_table() +
                           " WHERE variable_name IN (" + names_ + ")");
  }

  // What reading adds by itself.
  long long own_cost() {
    const auto before = read();
    return read() - before;
  }

 private:
  test::Connection& session_;
  std::string names_;
};

// A goodbye is a statement too, which the server counts when it comes to read it: nothing is counted exactly
// before only those sessions are left that a case means to keep, besides the fixture's own.
void await_sessions(test::ServerDatabase& database, int count) {
  REQUIRE(test::wait_until([&] {
    return database.number(
               "SELECT COUNT(*) FROM information_schema.processlist "
               "WHERE user NOT IN ('root','system user','event_scheduler')") == count;
  }));
}

constexpr const char* k_statements = "'Questions','Com_stmt_prepare'";
constexpr const char* k_row_reads =
    "'Handler_read_first','Handler_read_key','Handler_read_next','Handler_read_prev','Handler_read_rnd',"
    "'Handler_read_rnd_next'";

// How many rows the server reads for a verb, which must succeed.
class RowsRead {
 public:
  explicit RowsRead(test::Connection& session) : counter_(session, k_row_reads), idle_(counter_.own_cost()) {}

  template <typename Verb>
  long long operator()(const Verb& verb) {
    const auto before = counter_.read();
    if (const auto done = verb(); !done) FAIL(done.error().message);
    return counter_.read() - before - idle_;
  }

 private:
  Counter counter_;
  const long long idle_;
};

// As many rows as it takes for a scan to stand out: every `nth` of them held, the others free, all young.
void fill(test::ServerDatabase& database, int rows, int nth) {
  const std::string is_held = "seq%" + std::to_string(nth) + "=1";
  const std::string now = "UTC_TIMESTAMP(6)";
  database.sql(
      "INSERT INTO dblock_lock "
      "(lock_key,lock_value,create_time,update_time,expire_time,token,version,lock_count,kind,"
      "ttl_us,margin_us,holder_host,holder_pid,holder_user,holder_command,holder_note) "
      "SELECT CONCAT('bulk/',seq),IF(" +
      is_held + ",CONCAT('owner-',seq),NULL)," + now + "," + now + ",IF(" + is_held + "," + now +
      "+INTERVAL 1 DAY,NULL),1000000+seq,1," + is_held + ",'run',60000000,1000000,'',0,'','','' FROM " +
      test::numbers(1, rows));
  database.sql("INSERT INTO dblock_fence (lock_key,slot,token) SELECT lock_key,0,token FROM dblock_lock");
  // Opening a table for the first time is a dozen of reads.
  database.sql("ANALYZE TABLE dblock_lock,dblock_fence");
  for (const std::string table : {"dblock_fence", "dblock_waiter"})
    database.sql("SELECT * FROM " + table + " WHERE lock_key=''");
}

// Returns when a waiter that came later than all others has looked at its lock ten times: the holder of that
// lock has no session to sleep behind.
void see_polling(MariadbUnderTest& t) {
  auto acquired = request_for("polled", "script");
  acquired.kind = Kind::acquire;
  REQUIRE(t.open()->try_acquire(acquired));
  test::Proxy proxy(t.database().server());
  const WaitingRun polling(proxy.url(t.database().name()), request_for("polled", "run"));
  const auto looks = [&] { return std::ranges::count_if(proxy.statements(), test::containing("SELECT")); };
  CHECK(test::wait_until([&] { return looks() > 20; }));
}

// The same as a slot each: what is held has its owner in slot 1, and so has had what is free.
void fill_slots(test::ServerDatabase& database, int rows, int nth) {
  fill(database, rows, nth);
  const std::string columns =
      "lock_key,lock_value,create_time,update_time,expire_time,token,version,lock_count,kind,ttl_us,margin_"
      "us,"
      "holder_host,holder_pid,holder_user,holder_command,holder_note";
  database.sql("INSERT INTO dblock_lock (" + columns + ",slot,mode,slots) SELECT " + columns +
               ",1,'slot',2 FROM dblock_lock");
  database.sql(
      "INSERT INTO dblock_fence (lock_key,slot,token) SELECT lock_key,slot,token FROM dblock_lock WHERE "
      "slot=1");
  database.sql(
      "UPDATE dblock_lock SET lock_value=NULL,expire_time=NULL,lock_count=0,mode='slot',slots=2,"
      "update_time=update_time-INTERVAL 2 DAY WHERE slot=0");
  database.sql("ANALYZE TABLE dblock_lock,dblock_fence");
}

}  // namespace

TEST_CASE("mariadb: an uncontended run on an existing row costs three statements", "[once]") {
  const Server own;
  MariadbUnderTest t(own.address());
  const auto store = t.open();
  const auto first = store->try_acquire(request_for("k", "owner-1"));
  REQUIRE(first);
  REQUIRE(store->release({*Key::parse("k"), {"owner-1"}, std::nullopt}, Actor::holder, {}));
  store->disconnect();
  await_sessions(t.database(), 0);
  Counter counter(t.database().root(), k_statements);
  const auto idle = counter.own_cost();
  const auto before = counter.read();
  const auto lease = store->try_acquire(request_for("k", "owner-2"));
  REQUIRE(lease);
  REQUIRE(store->release({*Key::parse("k"), {"owner-2"}, std::get<Granted>(*lease).lease.token},
                         Actor::holder, {}));
  CHECK(counter.read() - before - idle == 3);
}

// As above, with all that an acquisition does beside its statements: it is there for those who might sleep
// behind it, and it may wait.
TEST_CASE("mariadb: an acquisition without contention costs three statements, whether it would wait or not",
          "[once]") {
  const Server own;
  MariadbUnderTest t(own.address());
  SystemClock clock;
  const WakeEvent never;
  HoldingRun(t.database().url(), request_for("k", "before")).end();
  for (const auto& limit : {Micros{0}, Micros{10s}}) {
    CAPTURE(limit.count());
    await_sessions(t.database(), 0);
    Counter counter(t.database().root(), k_statements);
    const auto idle = counter.own_cost();
    const auto before = counter.read();
    const auto store = t.open();
    const auto granted = lease::acquire(*store, clock, request_for("k", "owner"), {limit}, {}, never);
    REQUIRE(granted);
    REQUIRE(std::holds_alternative<Lease>(*granted));
    store->hold(LeaseStore::RenewedBy::another);
    REQUIRE(store->release(ref_to(std::get<Lease>(*granted)), Actor::holder, {}));
    CHECK(counter.read() - before - idle == 3);
  }
}

TEST_CASE(
    "mariadb: a request that does not wait costs three statements when it is refused, and takes no place",
    "[once]") {
  MariadbUnderTest t;
  test::Proxy proxy(t.database().server());
  SystemClock clock;
  const WakeEvent never;
  const HoldingRun holder(t.database().url(), request_for("k", "holder"));
  const auto store = MariadbUnderTest::open_at(proxy.url(t.database().name()));
  const auto refused = lease::acquire(*store, clock, request_for("k", "owner"), {Micros{0}}, {}, never);
  REQUIRE(refused);
  CHECK(std::holds_alternative<Held>(*refused));
  CHECK(proxy.statements().size() == 3);
  CHECK(t.database().number("SELECT COUNT(*) FROM dblock_waiter") == 0);
}

// Of a lock whose holder has a session, which the waiter sleeps behind.
TEST_CASE("mariadb: a waiter costs eight statements to begin to wait, none until it is woken, and then four",
          "[once]") {
  MariadbUnderTest t;
  test::Proxy proxy(t.database().server());
  HoldingRun holder(t.database().url(), request_for("k", "holder"));
  std::size_t when_it_has_the_lock = 0;
  WaitingRun waiter(proxy.url(t.database().name()), request_for("k", "waiter"),
                    [&](const Lease&) { when_it_has_the_lock = proxy.statements().size(); });
  REQUIRE(test::wait_until([&] { return t.asleep() == 1; }));
  // The set-up, a try, a look, the place, its mark in the lock's row, the line, a short idle time, the sleep.
  CHECK(proxy.statements().size() == 8);
  see_polling(t);
  CHECK(proxy.statements().size() == 8);
  const BootTime released = BootClock::now();
  holder.end();
  REQUIRE(waiter.granted());
  CHECK(waiter.decided_at() - released < 10s * test::slowness());  // its own first look comes after 30 s
  CHECK(when_it_has_the_lock == 8 + 3);       // the grant; the place, the usual idle time
  CHECK(proxy.statements().size() == 8 + 4);  // the release
}

TEST_CASE("mariadb: a waiter behind another one sends nothing but its grant when that one has ended",
          "[once]") {
  MariadbUnderTest t;
  test::Proxy proxy(t.database().server());
  HoldingRun holder(t.database().url(), request_for("k", "holder"));
  WaitingRun first(t.database().url(), request_for("k", "first"));
  REQUIRE(test::wait_until([&] { return t.asleep() == 1; }));
  std::size_t when_it_has_the_lock = 0;
  WaitingRun second(proxy.url(t.database().name()), request_for("k", "second"),
                    [&](const Lease&) { when_it_has_the_lock = proxy.statements().size(); });
  REQUIRE(test::wait_until([&] { return t.asleep() == 2; }));
  const auto when_asleep = proxy.statements().size();
  holder.end();
  REQUIRE(first.granted());
  REQUIRE(second.granted());
  CHECK(when_it_has_the_lock == when_asleep + 3);  // the grant; the place, the usual idle time
}

// The lease is one of `acquire`, whose session is gone: so the first of them looks often. The others sleep,
// as far as there are seats, and look now and then.
TEST_CASE("mariadb: a hundred idle waiters of one lock send the server twenty statements a second at most",
          "[mariadb][storm][once]") {
  const Server own;
  MariadbUnderTest t(own.address());
  auto acquired = request_for("k", "owner");
  acquired.kind = Kind::acquire;
  acquired.terms.ttl = 1h;
  REQUIRE(t.open()->try_acquire(acquired));
  std::vector<std::unique_ptr<WaitingRun>> waiters;
  for (int i = 0; i < 100; ++i) {
    const auto request = request_for("k", "waiter-" + std::to_string(i));
    waiters.push_back(std::make_unique<WaitingRun>(t.database().url(), request));
  }
  const auto places = [&] { return t.database().number("SELECT COUNT(*) FROM dblock_waiter"); };
  REQUIRE(test::wait_until([&] { return places() == 100; }));
  std::this_thread::sleep_for(20s);  // the first looks come 15 to 30 seconds after the arrival
  Counter counter(t.database().root(), "'Questions'");
  const BootTime start = BootClock::now();
  const auto before = counter.read();
  std::this_thread::sleep_for(20s);
  const auto asked = static_cast<double>(counter.read() - before);
  const auto seconds = std::chrono::duration<double>(BootClock::now() - start).count();
  INFO("statements a second: " << asked / seconds);
  CHECK(asked / seconds <= 20.0);
  CHECK(asked / seconds >= 5.0);  // less would mean that nobody looks
  CHECK(places() == 100);
  for (const auto& waiter : waiters) waiter->cancel();
  for (const auto& waiter : waiters) {
    REQUIRE(waiter->outcome());
    CHECK(std::holds_alternative<Cancelled>(*waiter->outcome()));
  }
  CHECK(places() == 0);
}

// Numbers of statements hide what each of them weighs: sub-queries on pauses once doubled a grant. Rows
// written count the lock's own row and its fence.
TEST_CASE("mariadb: a run on an existing row has the server read and parse little") {
  const Server own;
  MariadbUnderTest t(own.address());
  const auto store = t.open();
  const auto request = request_for("k", "owner");
  const auto run = [&] {
    const auto outcome = store->try_acquire(request);
    REQUIRE(outcome);
    REQUIRE(std::holds_alternative<Granted>(*outcome));
    REQUIRE(store->release({request.key, request.owner, std::get<Granted>(*outcome).lease.token},
                           Actor::holder, {RunOutcome::succeeded, 0}));
  };
  run();
  await_sessions(t.database(), 1);
  const auto cost_by = [&](const char* names) {
    Counter counter(t.database().root(), names);
    const auto idle = counter.own_cost();
    const auto before = counter.read();
    run();
    return counter.read() - before - idle;
  };
  CHECK(cost_by("'Bytes_received'") < 3'200);
  CHECK(cost_by(k_row_reads) <= 8);
  CHECK(cost_by("'Handler_update','Handler_write','Handler_tmp_write'") <= 6);
}

TEST_CASE("mariadb: a minimal hold and once per period cost no statement when nobody is in the way",
          "[once]") {
  const Server own;
  MariadbUnderTest t(own.address());
  const auto store = t.open();
  auto request = request_for("k", "owner");
  request.promises = {1h, 1h, OncePer{10h}};
  const auto run = [&] {
    const auto outcome = store->try_acquire(request);
    REQUIRE(outcome);
    REQUIRE(std::holds_alternative<Granted>(*outcome));
    REQUIRE(store->release({request.key, request.owner, std::nullopt}, Actor::holder,
                           {RunOutcome::succeeded, 0}));
  };
  run();
  t.age("k", 10h, false);
  await_sessions(t.database(), 1);
  Counter counter(t.database().root(), k_statements);
  const auto idle = counter.own_cost();
  const auto before = counter.read();
  run();
  CHECK(counter.read() - before - idle == 2);
}

TEST_CASE("mariadb: a period ends at nine tenths of its length to the microsecond") {
  const Server own;
  MariadbUnderTest t(own.address());
  test::Proxy proxy(own.address());
  const auto outcome_at = [&](Micros now) {
    const auto count = now.count();
    const auto fraction = std::to_string(1'000'000 + count % 1'000'000).substr(1);
    proxy.set_time(std::to_string(count / 1'000'000) + "." + fraction);
    auto request = request_for("k", "owner");
    request.promises.once_per = OncePer{10h};
    const auto store = MariadbUnderTest::open_at(proxy.url(t.database().name()));
    auto outcome = store->try_acquire(request);
    REQUIRE(outcome);
    if (std::holds_alternative<Granted>(*outcome)) {
      REQUIRE(store->release({request.key, request.owner, {}}, Actor::holder, {RunOutcome::succeeded, 0}));
    }
    return std::holds_alternative<Granted>(*outcome);
  };
  constexpr Micros k_done = 1774746000s + 250ms;
  CHECK(outcome_at(k_done));
  CHECK_FALSE(outcome_at(k_done));
  CHECK_FALSE(outcome_at(k_done + 9h - 1us));
  CHECK(outcome_at(k_done + 9h));
  CHECK_FALSE(outcome_at(k_done + 8h));  // a clock that was set back by an hour
  CHECK(outcome_at(k_done + 8h - 1us));
}

TEST_CASE("mariadb: a renewal by the heartbeat and a look at a key cost one statement each", "[once]") {
  const Server own;
  MariadbUnderTest t(own.address());
  const auto store = t.open();
  const auto lease = store->try_acquire(request_for("k", "owner"));
  REQUIRE(lease);
  await_sessions(t.database(), 1);
  Counter counter(t.database().root(), k_statements);
  const auto idle = counter.own_cost();
  auto before = counter.read();
  REQUIRE(store->renew({*Key::parse("k"), {"owner"}, std::nullopt}, Actor::holder, std::nullopt));
  CHECK(counter.read() - before - idle == 1);
  before = counter.read();
  REQUIRE(store->look(request_for("k", "other")));
  CHECK(counter.read() - before - idle == 1);
}

TEST_CASE("mariadb: no verb reads more rows of a large table than it answers with") {
  const Server own;
  MariadbUnderTest t(own.address());
  fill(t.database(), 20'000, 2);
  const auto store = t.open();
  REQUIRE(store->connect());
  RowsRead rows_read(t.database().root());
  CHECK(rows_read([&] { return store->list({{*Key::parse("bulk/77")}, {}, false}); }) < 10);
  CHECK(rows_read([&] { return store->list({{}, "bulk/1999", false}); }) < 40);  // 11 hits
  CHECK(rows_read([&] { return store->list({{}, "bulk/1999", true}); }) < 40);
  CHECK(rows_read([&] { return store->try_acquire(request_for("bulk/2", "owner")); }) < 40);
  CHECK(rows_read([&] { return store->try_acquire(request_for("new", "owner")); }) < 40);
  CHECK(rows_read([&] { return store->try_acquire(request_for("bulk/3", "owner")); }) < 40);
  CHECK(rows_read([&] { return store->renew({*Key::parse("new"), {"owner"}, {}}, Actor::holder, {}); }) < 10);
  CHECK(rows_read([&] {
          return store->release({*Key::parse("new"), {"owner"}, {}}, Actor::holder, {});
        }) < 10);
  CHECK(rows_read([&] { return store->reap({true, 24h}); }) < 20);
  CHECK(rows_read([&] { return store->reap({false, 24h}); }) < 20);
}

TEST_CASE("mariadb: no verb reads more holders of a large table than it answers with") {
  const Server own;
  MariadbUnderTest t(own.address());
  fill_slots(t.database(), 20'000, 2);
  const auto store = t.open();
  REQUIRE(store->connect());
  RowsRead rows_read(t.database().root());
  const auto key = *Key::parse("bulk/77");
  auto request = request_for("bulk/77", "owner");
  request.sharing = {Mode::slot, 2};
  CHECK(rows_read([&] { return store->list({{key}, {}, false}); }) < 10);
  CHECK(rows_read([&] { return store->list({{}, "bulk/1999", false}); }) < 80);  // 11 locks, 6 holders
  CHECK(rows_read([&] { return store->list({{}, "bulk/1999", true}); }) < 40);
  CHECK(rows_read([&] { return store->look(request); }) < 40);
  CHECK(rows_read([&] { return store->try_acquire(request); }) < 40);
  CHECK(rows_read([&] {
          return store->renew({key, {"owner"}, {}, {}, Mode::slot}, Actor::holder, {});
        }) < 10);
  CHECK(rows_read([&] {
          return store->release({key, {"owner"}, {}, {}, Mode::slot}, Actor::holder, {});
        }) < 20);
  CHECK(rows_read([&] { return store->reap({true, 240h}); }) < 20);
  CHECK(rows_read([&] { return store->reap({false, 240h}); }) < 20);
}

TEST_CASE("mariadb: who waits reads no places but those in the line of its lock") {
  const Server own;
  MariadbUnderTest t(own.address());
  const auto store = t.open();
  REQUIRE(store->try_acquire(request_for("k", "owner")));
  t.database().sql(
      "INSERT INTO dblock_waiter SELECT CONCAT('waited/',seq),'other',UTC_TIMESTAMP(6),"
      "UTC_TIMESTAMP(6)+INTERVAL 1 HOUR,1,'exclusive',1,FALSE,'fifo','',0,'' FROM " +
      test::numbers(1, 20'000));
  t.database().sql("ANALYZE TABLE dblock_lock,dblock_fence,dblock_waiter");
  auto request = request_for("k", "waiter");
  RowsRead rows_read(t.database().root());
  CHECK(rows_read([&] { return store->stand_in_line(request, 75s, true); }) < 10);
  request.arrival = *store->stand_in_line(request, 75s, true);
  CHECK(rows_read([&] { return store->stand_in_line(request, 75s, true); }) < 10);
  CHECK(rows_read([&] { return store->see_line(request); }) < 10);
  CHECK(rows_read([&] { return store->try_acquire(request); }) < 20);
  CHECK(rows_read([&] { return store->list({}); }) < 10);
  CHECK(rows_read([&] { return store->list({{*Key::parse("waited/77")}, {}, false}); }) < 10);
  CHECK(rows_read([&] { return store->list({{}, "waited/1999", false}); }) < 40);  // 11 locks
  REQUIRE(store->release({request.key, {"owner"}, {}}, Actor::holder, {}));
  CHECK(rows_read([&] { return store->try_acquire(request); }) < 20);
  const auto before = t.database().number("SELECT COUNT(*) FROM dblock_waiter");
  CHECK(rows_read([&] {
          store->hold(LeaseStore::RenewedBy::another);
          return Result<void>{};
        }) < 10);
  CHECK(before - t.database().number("SELECT COUNT(*) FROM dblock_waiter") == 1);
}

// Freed rows stay for as long as their key is remembered.
TEST_CASE("mariadb: a holder renews and releases its own row without a look at the others of its key") {
  const Server own;
  MariadbUnderTest t(own.address());
  const auto store = t.open();
  auto request = request_for("k", "owner");
  request.sharing = GENERATE(Sharing{Mode::shared, 1}, Sharing{Mode::slot, 3000});
  const auto taken = store->try_acquire(request);
  REQUIRE(taken);
  REQUIRE(std::holds_alternative<Granted>(*taken));
  const LeaseRef ref = ref_to(std::get<Granted>(*taken).lease);
  const std::string columns =
      "lock_key,create_time,update_time,token,version,lock_count,kind,ttl_us,margin_us,"
      "holder_host,holder_pid,holder_user,holder_command,holder_note,mode,slots";
  const std::string now = "UTC_TIMESTAMP(6)";
  t.database().sql("INSERT INTO dblock_lock (" + columns + ",slot) SELECT 'k'," + now + "," + now +
                   ",1,1,0,'run',60000000,1000000,'',0,'','','','slot',3000,seq FROM " +
                   test::numbers(2, 2000));
  RowsRead rows_read(t.database().root());
  CHECK(rows_read([&] { return store->renew(ref, Actor::holder, 60s); }) < 10);
  auto inner = request;
  inner.outer = ref.owner;
  const auto nested = store->nest(inner);
  REQUIRE((nested && *nested));
  const LeaseRef nested_ref = ref_to(**nested);
  CHECK(rows_read([&] { return store->renew(nested_ref, Actor::holder, 60s); }) < 10);
  CHECK(rows_read([&] { return store->release(nested_ref, Actor::holder, {}); }) < 10);
  CHECK(rows_read([&] { return store->release(ref, Actor::holder, {}); }) < 20);
}

TEST_CASE("mariadb: the history is read and forgotten without a look at the rest of it") {
  const Server own;
  MariadbUnderTest t(own.address());
  t.keep_history(true);
  const auto store = t.open();
  const auto run = [&](const std::string& name) {
    const auto granted = store->try_acquire(request_for(name, "owner"));
    REQUIRE(granted);
    REQUIRE(std::holds_alternative<Granted>(*granted));
    REQUIRE(
        store->release(ref_to(std::get<Granted>(*granted).lease), Actor::holder, {RunOutcome::succeeded, 0}));
    store->end();
  };
  run("often");
  run("seldom");
  t.copy_history(20'000);
  REQUIRE(t.database().number("SELECT COUNT(*) FROM dblock_history") == 40'002);
  t.database().sql(
      "UPDATE dblock_history SET lock_key='often' WHERE recorded_at<(SELECT MAX(recorded_at) FROM "
      "(SELECT recorded_at FROM dblock_history WHERE lock_key='seldom') AS seldom)-INTERVAL 2 SECOND "
      "AND lock_key='seldom'");
  t.database().sql("ANALYZE TABLE dblock_history");
  const auto seldom = *Key::parse("seldom");
  RowsRead rows_read(t.database().root());
  REQUIRE(store->history({}));
  // One to each row shown, and what it takes to see whether the table is there.
  CHECK(rows_read([&] { return store->history({{}, {}, 10}); }) < 1000);
  CHECK(rows_read([&] { return store->history({{seldom}, {}, 10}); }) < 1000);
  CHECK(rows_read([&] { return store->history({{seldom}, 1h, 10}); }) < 1000);
  CHECK(rows_read([&] { return store->history({{}, 10s, 10}); }) < 1000);
  CHECK(rows_read([&] { return store->history({{}, 10s, 10, "none", RunOutcome::lost}); }) < 1000);
  CHECK(rows_read([&] { return store->history({{seldom}, {}, 10, "s", RunOutcome::succeeded}); }) < 1000);
  CHECK(rows_read([&] { return store->reap({false, 24h, 24h}); }) < 1000);
  CHECK(rows_read([&] { return store->reap({true, 24h, 24h}); }) < 1000);
}

TEST_CASE("mariadb: a run costs three statements, and a fourth after its release where a history is kept",
          "[once]") {
  const Server own;
  MariadbUnderTest t(own.address());
  const auto cost = [&] {
    await_sessions(t.database(), 0);
    Counter counter(t.database().root(), k_statements);
    const auto idle = counter.own_cost();
    const auto before = counter.read();
    const auto store = t.open();
    const auto granted = store->try_acquire(request_for("k", "owner"));
    REQUIRE(granted);
    REQUIRE(std::holds_alternative<Granted>(*granted));
    REQUIRE(
        store->release(ref_to(std::get<Granted>(*granted).lease), Actor::holder, {RunOutcome::succeeded, 0}));
    const auto until_released = counter.read() - before - idle;
    store->end();
    return std::pair(until_released, counter.read() - before - 2 * idle);
  };
  cost();  // makes the row
  CHECK(cost() == std::pair(3LL, 3LL));
  t.keep_history(true);
  CHECK(cost() == std::pair(3LL, 4LL));
  t.keep_history(false);
  CHECK(cost() == std::pair(3LL, 3LL));
}

TEST_CASE("mariadb: no run suffers from a history that cannot be written") {
  MariadbUnderTest t;
  t.keep_history(true);
  const auto run = [&] {
    const auto store = t.open();
    const auto granted = store->try_acquire(request_for("k", "owner"));
    REQUIRE(granted);
    REQUIRE(std::holds_alternative<Granted>(*granted));
    CHECK(std::get<Granted>(*granted).lease.token.value > 0);
    const auto done =
        store->release(ref_to(std::get<Granted>(*granted).lease), Actor::holder, {RunOutcome::succeeded, 0});
    REQUIRE(done);
    CHECK(std::holds_alternative<Released>(*done));
    store->end();
    CHECK(row_of(*store, *Key::parse("k")));  // the store is as good as before
  };
  run();
  REQUIRE(t.database().number("SELECT COUNT(*) FROM dblock_history") == 1);
  SECTION("not granted") {
    t.database().sql("REVOKE INSERT ON " + t.database().name() + ".dblock_history FROM app@'%'");
    run();
    CHECK(t.database().number("SELECT COUNT(*) FROM dblock_history") == 1);
  }
  SECTION("changed by hand") {
    t.database().sql("ALTER TABLE dblock_history DROP COLUMN outcome");
    run();
  }
  SECTION("gone") {
    t.database().sql("DROP TABLE dblock_history");
    run();
    const auto read = t.open()->history({});
    REQUIRE_FALSE(read);
    CHECK(read.error().code == Errc::denied);
    CHECK_THAT(read.error().message, Catch::Contains("--history on"));
    CHECK(t.open()->reap({false, 24h, 24h}));
    t.keep_history(true);
    run();
    CHECK(t.database().number("SELECT COUNT(*) FROM dblock_history") == 1);
  }
}

TEST_CASE("mariadb: listing what is held does not read what is free") {
  const Server own;
  MariadbUnderTest t(own.address());
  fill(t.database(), 20'000, 400);
  const auto store = t.open();
  REQUIRE(store->connect());
  Counter counter(t.database().root(), k_row_reads);
  const auto idle = counter.own_cost();
  const auto before = counter.read();
  const auto held = store->list({});
  REQUIRE(held);
  const auto count = static_cast<long long>(held->locks.size());
  CHECK(count == 50);
  CHECK(counter.read() - before - idle < 5 * count);
}

}  // namespace dblock::contract
