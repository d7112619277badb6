// dblock_assert_held(): what it refuses, whom its transaction keeps out, and whom it must never keep waiting.
// Lock waits are counted by the server, so those cases have one to themselves.
#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

#include "contract/mariadb_store.hpp"
#include "contract/stepped_database.hpp"
#include "contract/store_fixture.hpp"
#include "store/mariadb/sql.hpp"
#include "store/parameters.hpp"
#include "support/catch.hpp"
#include "support/config.hpp"
#include "support/dblock.hpp"
#include "support/proxy.hpp"
#include "support/server_kind.hpp"

namespace dblock::contract {
namespace {

using test::says;
using test::Server;

constexpr Sharing k_alone{};
constexpr Sharing k_reading{Mode::shared, 1};
constexpr Sharing k_one_of_three{Mode::slot, 3};
constexpr Sharing k_one_of_two{Mode::slot, 2};
constexpr Sharing k_one_slot{Mode::slot, 1};

struct Fenced {
  explicit Fenced(const test::ServerAddress& server = test::shared_server()) : under_test(server) {}

  Lease grant(const LeaseRequest& request) { return contract::grant(*store, request); }
  LockStatus conflict(const LeaseRequest& request) { return contract::conflict(*store, request).status; }
  bool renewed(const Lease& lease) {
    const auto outcome = store->renew(ref_to(lease), Actor::holder, std::nullopt);
    if (!outcome) FAIL(outcome.error().message);
    return std::holds_alternative<Renewed>(*outcome);
  }
  void release(const Lease& lease) {
    const auto outcome = store->release(ref_to(lease), Actor::holder, {});
    if (!outcome) FAIL(outcome.error().message);
    REQUIRE(std::holds_alternative<Released>(*outcome));
  }
  void expire(const std::string& key) { under_test.age(key, 2min, false); }

  long long number(const std::string& sql) { return under_test.database().number(sql); }
  std::string token_in(const std::string& table, const std::string& key, int slot = 0) {
    return under_test.database().value("SELECT token FROM " + table + under_test.where(key) +
                                       " AND slot=" + std::to_string(slot));
  }
  long long slot_of(const Lease& lease) {
    return number("SELECT MAX(slot) FROM dblock_lock WHERE token=" + std::to_string(lease.token.value));
  }
  long long lock_waits() { return under_test.lock_waits(); }

  MariadbUnderTest under_test;
  std::unique_ptr<LockBook> store = under_test.open();
};

// The job's own session, under an account that may call the procedure and nothing else.
struct Job {
  explicit Job(Fenced& t, const std::string& isolation = "REPEATABLE READ")
      : user(account(t)), session(t.under_test.database().server(), user, t.under_test.database().name()) {
    session.sql("SET SESSION TRANSACTION ISOLATION LEVEL " + isolation);
  }
  // With `once` the next transaction alone has the level, which no procedure can read then.
  Job(Fenced& t, const std::string& isolation, bool once) : Job(t, once ? "READ COMMITTED" : isolation) {
    if (once) session.sql("SET TRANSACTION ISOLATION LEVEL " + isolation);
  }

  static std::string account(Fenced& t) {
    auto& database = t.under_test.database();
    const std::string user = database.account("", "USAGE");
    database.sql("GRANT EXECUTE ON PROCEDURE dblock_assert_held TO " + user);
    return user;
  }

  // Empty: it was let pass; else the server's words. In a transaction of its own where none is open.
  std::string asserts(const std::string& key, const std::string& token) {
    if (!is_open_) session.sql("START TRANSACTION");
    std::string refusal;
    try {
      session.sql("CALL dblock_assert_held(" + key + "," + token + ")");
    } catch (const std::exception& refused) {
      refusal = refused.what();
    }
    if (!is_open_) session.sql("ROLLBACK");
    return refusal;
  }
  std::string asserts(const Lease& lease) {
    return asserts(test::sql_hex(lease.key.bytes()), std::to_string(lease.token.value));
  }
  void begin() {
    session.sql("START TRANSACTION");
    is_open_ = true;
  }
  void begin_early(bool isolated) {
    // Not every server has it.
    if (session.sql("SHOW SESSION VARIABLES LIKE 'innodb_snapshot_isolation'").size() == 1)
      session.sql(std::string("SET SESSION innodb_snapshot_isolation=") + (isolated ? "ON" : "OFF"));
    session.sql("START TRANSACTION WITH CONSISTENT SNAPSHOT");
    is_open_ = true;
  }
  void commit() { end("COMMIT"); }
  void roll_back() { end("ROLLBACK"); }

  const std::string user;
  test::Connection session;

 private:
  void end(const char* how) {
    session.sql(how);
    is_open_ = false;
  }
  bool is_open_ = false;
};

// A lease, and the request that a transaction grants after it.
struct FencedTurn {
  Sharing before;
  LeaseRequest next;
};

// Makes the row of the second of several keys: else it would be made between two looks.
std::vector<FencedTurn> fenced_turns(Fenced& t) {
  t.release(t.grant(request_for("l", "before")));
  auto several = request_for("k", "next");
  several.further_keys.push_back(key("l"));
  const auto as = [](const Sharing& sharing) { return request_for("k", "next", sharing); };
  return {{k_alone, several},          {k_alone, as(k_reading)},        {k_alone, as(k_one_of_three)},
          {k_reading, several},        {k_reading, as(k_alone)},        {k_reading, as(k_reading)},
          {k_one_of_two, as(k_alone)}, {k_one_of_two, as(k_one_of_two)}};
}

// Whether lock k is listed as kept by a transaction.
bool shown_as_kept(LockBook& store) {
  Selection selection{.keys = {key("k")}, .held_only = false};
  selection.with_pauses = selection.with_transactions = true;
  const auto listing = store.list(selection);
  if (!listing) throw std::runtime_error(listing.error().message);
  return std::ranges::any_of(listing->locks, &LockStatus::kept_by_transaction);
}

const char* const k_not_held = "is not held under this token";
constexpr std::array k_isolation_levels{"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ",
                                        "SERIALIZABLE"};

}  // namespace

TEST_CASE("mariadb: lock and fence have the same token after every grant", "[safety]") {
  Fenced t;
  const auto same = [&] {
    CHECK(t.token_in("dblock_fence", "k") == t.token_in("dblock_lock", "k"));
    return t.token_in("dblock_lock", "k");
  };
  const auto first = t.grant(request_for("k", "one"));
  CHECK(same() == std::to_string(first.token.value));
  t.release(first);
  const auto second = t.grant(request_for("k", "two"));
  CHECK(same() == std::to_string(second.token.value));
  t.expire("k");
  const auto third = t.grant(request_for("k", "three"));
  CHECK(same() == std::to_string(third.token.value));
  // The clock no longer helps: the next is one more than the last.
  t.under_test.database().sql("UPDATE dblock_lock SET token=token+1000000000000");
  t.expire("k");
  const auto fourth = t.grant(request_for("k", "three"));
  CHECK(same() == std::to_string(fourth.token.value));
  CHECK(fourth.token.value == third.token.value + 1'000'000'000'001);
}

TEST_CASE("mariadb: nobody waits for a protected transaction but who would take the lock over") {
  const Server own;
  Fenced t(own.address());
  const auto* const isolation = GENERATE(from_range(k_isolation_levels));
  const bool once = GENERATE(false, true);
  CAPTURE(isolation, once);
  const auto lease = t.grant(request_for("k", "holder"));
  Job job(t, isolation, once);
  job.begin();
  REQUIRE(job.asserts(lease).empty());
  // Once more, and by its snapshot the lease has expired since.
  job.session.sql("SET timestamp=UNIX_TIMESTAMP()+3600");
  REQUIRE(job.asserts(lease).empty());
  const auto waits = t.lock_waits();
  const auto status = t.conflict(request_for("k", "other"));
  CHECK_FALSE(status.kept_by_transaction);
  CHECK(status.owner == "holder");
  CHECK(t.renewed(lease));
  REQUIRE(t.store->look(request_for("k", "other")));
  REQUIRE(t.store->revoke(lease.key, lease.token, "op@desk"));
  CHECK(job.asserts(lease).empty());
  t.release(lease);
  CHECK(t.lock_waits() == waits);

  const auto kept_out = t.conflict(request_for("k", "other"));
  CHECK(kept_out.kept_by_transaction);
  CHECK(t.lock_waits() > waits);
  job.commit();
  CHECK(t.grant(request_for("k", "other")).token > lease.token);
}

TEST_CASE("mariadb: a call that is refused keeps nobody waiting while its transaction goes on") {
  const Server own;
  Fenced t(own.address());
  const auto* const isolation = GENERATE(from_range(k_isolation_levels));
  const bool once = GENERATE(false, true);
  CAPTURE(isolation, once);
  const auto past = t.grant(request_for("k", "past"));
  t.release(past);
  const auto free = t.grant(request_for("free", "past"));
  t.release(free);
  const auto lease = t.grant(request_for("k", "holder"));
  Job stranger(t, isolation, once);
  stranger.begin();
  const auto waits = t.lock_waits();
  CHECK(says(stranger.asserts(past), k_not_held));
  CHECK(says(stranger.asserts(free), "it was released"));
  CHECK(says(stranger.asserts("'k'", "18446744073709551615"), k_not_held));
  CHECK(t.renewed(lease));
  t.release(lease);
  t.grant(request_for("k", "next"));
  t.grant(request_for("free", "next"));
  CHECK(t.lock_waits() == waits);
}

TEST_CASE("mariadb: a refusal does not tell whether the lock's token is greater or smaller", "[safety]") {
  Fenced t;
  const auto lease = t.grant(request_for("k", "holder"));
  Job stranger(t);
  const auto refusal = [&](const std::string& key, const std::string& change) {
    const auto words = stranger.asserts(key, std::to_string(lease.token.value) + change);
    return words.substr(0, words.find(" in: CALL"));
  };
  const std::string smaller = refusal("'k'", "-1");
  CHECK(says(smaller, k_not_held));
  for (const auto* const change : {"+1", "-1000000", "*2"}) CHECK(refusal("'k'", change) == smaller);
  CHECK(refusal("'another key'", "") == smaller);
}

TEST_CASE("mariadb: a protected transaction holds a takeover off when its lease has long expired",
          "[safety]") {
  Fenced t;
  const auto* const isolation = GENERATE(from_range(k_isolation_levels));
  CAPTURE(isolation);
  const auto lease = t.grant(request_for("k", "holder"));
  Job job(t, isolation);
  job.begin();
  REQUIRE(job.asserts(lease).empty());
  t.expire("k");
  const auto kept_out = t.conflict(request_for("k", "other"));
  CHECK(kept_out.kept_by_transaction);
  CHECK(kept_out.owner == "holder");
  CHECK(kept_out.state == State::expired);
  job.commit();
  const auto next = t.grant(request_for("k", "other"));
  CHECK(says(job.asserts(lease), "granted again since"));
  CHECK(job.asserts(next).empty());
}

TEST_CASE("mariadb: outside of a transaction the call protects nothing, and is refused", "[safety]") {
  Fenced t;
  const auto lease = t.grant(request_for("k", "holder"));
  Job job(t);
  const std::string call = "CALL dblock_assert_held('k'," + std::to_string(lease.token.value) + ")";
  CHECK_THROWS_WITH(job.session.sql(call), Catch::Contains("no transaction is open"));
  // Without autocommit one is always open.
  job.session.sql("SET autocommit=0");
  CHECK_NOTHROW(job.session.sql_in_session(call));
  t.release(lease);
  CHECK(t.conflict(request_for("k", "next")).kept_by_transaction);
  job.session.sql_in_session("ROLLBACK");
  t.grant(request_for("k", "next"));
}

TEST_CASE("mariadb: a prepared XA transaction is protected until it ends, over a restart of the server too",
          "[safety]") {
  Server own;
  Fenced t(own.address());
  const auto* const isolation = GENERATE(from_range(k_isolation_levels));
  const bool restarts = GENERATE(false, true);
  CAPTURE(isolation, restarts);
  const auto lease = t.grant(request_for("k", "holder"));
  Job job(t, isolation);
  const auto step = [&](const std::string& statement) { job.session.sql_in_session(statement); };
  step("XA START 'job'");
  step("CALL dblock_assert_held('k'," + std::to_string(lease.token.value) + ")");
  step("XA END 'job'");
  step("XA PREPARE 'job'");
  t.release(lease);
  if (restarts) {
    own.stop_hard();
    own.start();
  }
  CHECK(t.conflict(request_for("k", "next")).kept_by_transaction);
  if (restarts)
    t.under_test.database().sql("XA COMMIT 'job'");
  else
    step("XA COMMIT 'job'");
  t.grant(request_for("k", "next"));
}

// The server undoes as a whole what an engine did that the transaction had not used before the savepoint, and
// gives its locks back.
TEST_CASE(
    "mariadb: after a rollback to a savepoint that was set before the call, another call finds out whether "
    "the lock "
    "was granted since",
    "[safety]") {
  Fenced t;
  auto& database = t.under_test.database();
  Job job(t);
  database.sql("CREATE TABLE effect (n INT PRIMARY KEY)");
  database.sql("GRANT SELECT ON effect TO " + job.user);
  const bool used_before = GENERATE(false, true);
  const bool granted_since = GENERATE(false, true);
  CAPTURE(used_before, granted_since);
  const auto lease = t.grant(request_for("k", "holder"));
  job.begin();
  if (used_before) job.session.sql_in_session("SELECT COUNT(*) FROM effect");
  job.session.sql_in_session("SAVEPOINT nested");
  REQUIRE(job.asserts(lease).empty());
  job.session.sql_in_session("ROLLBACK TO SAVEPOINT nested");
  t.expire("k");
  if (granted_since) {
    const auto next = t.store->try_acquire(request_for("k", "next"));
    REQUIRE(next);
    CHECK(std::holds_alternative<Granted>(*next) != used_before);
    if (!used_before) CHECK(says(job.asserts(lease), k_not_held));
  }
  if (used_before) {
    CHECK(job.asserts(lease).empty());
    CHECK(t.conflict(request_for("k", "next")).kept_by_transaction);
  } else if (!granted_since) {
    CHECK(says(job.asserts(lease), "its lease has expired"));
  }
}

// Its lock came before the savepoint.
TEST_CASE("mariadb: a rollback to a savepoint that was set after the call leaves the transaction protected",
          "[safety]") {
  Fenced t;
  const auto lease = t.grant(request_for("k", "holder"));
  Job job(t);
  job.begin();
  REQUIRE(job.asserts(lease).empty());
  job.session.sql_in_session("SAVEPOINT nested");
  job.session.sql_in_session("ROLLBACK TO SAVEPOINT nested");
  t.expire("k");
  CHECK(t.conflict(request_for("k", "next")).kept_by_transaction);
}

TEST_CASE("mariadb: whoever holds no lease any more, or never did, is refused with the reason", "[safety]") {
  Fenced t;
  const auto* const isolation = GENERATE(from_range(k_isolation_levels));
  CAPTURE(isolation);
  Job job(t, isolation);
  for (const auto& sharing : {k_alone, k_reading, k_one_of_three}) {
    CAPTURE(to_string(sharing.mode));
    const std::string mode(to_string(sharing.mode));
    const auto holder = [&](const std::string& key) {
      return t.grant(request_for(key + mode, "holder", sharing));
    };

    const auto lease = holder("k");
    const std::string held = test::sql_hex("k" + mode);
    const std::string token = std::to_string(lease.token.value);
    CHECK(job.asserts(lease).empty());
    CHECK(says(job.asserts(held, token + "+1"), k_not_held));
    CHECK(says(job.asserts(held, token + "-1"), "granted again since"));
    CHECK(says(job.asserts(held, "0"), k_not_held));
    CHECK(says(job.asserts(test::sql_hex("K" + mode), token), k_not_held));
    CHECK(says(job.asserts(test::sql_hex("k" + mode + " "), token), k_not_held));
    CHECK(says(job.asserts("NULL", token), "NULL"));
    CHECK(says(job.asserts(held, "NULL"), "NULL"));
    CHECK(job.asserts(held, "-1") != "");
    CHECK(job.asserts(held, "'" + token + "x'") != "");
    CHECK(job.asserts("REPEAT('k',256)", token) != "");
    CHECK(job.asserts(held, "'" + token + "'").empty());

    const auto expired = holder("expired");
    t.expire("expired" + mode);
    CHECK(says(job.asserts(expired), "its lease has expired"));
    const auto next = t.grant(request_for("expired" + mode, "next", sharing));
    CHECK(says(job.asserts(expired), "granted again since"));
    CHECK(job.asserts(next).empty());

    const auto revoked = holder("revoked");
    REQUIRE(t.store->revoke(revoked.key, revoked.token, "op@desk"));
    CHECK(says(job.asserts(revoked), "it was revoked"));

    const auto released = holder("released");
    t.release(released);
    CHECK(says(job.asserts(released), "it was released"));

    const auto reaped = holder("reaped");
    t.expire("reaped" + mode);
    REQUIRE(t.store->reap({false, 24h}));
    CHECK(says(job.asserts(reaped), "it was released"));
  }
}

// Job::begin_early() opens a transaction whose snapshot is of now, under either setting of
// innodb_snapshot_isolation: ON is the default from MariaDB 11.8 on, and refuses to lock what was changed
// after the snapshot.
TEST_CASE("mariadb: an old snapshot lets nobody pass whose lock was taken over", "[safety]") {
  Fenced t;
  const auto before = GENERATE(k_alone, k_reading, k_one_of_three);
  const auto after = GENERATE(k_alone, k_reading, k_one_of_three, k_one_of_two);
  const bool isolated = GENERATE(false, true);
  CAPTURE(isolated);
  const auto lease = t.grant(request_for("k", "frozen", before));
  Job job(t);
  job.begin_early(isolated);
  t.expire("k");
  const auto next = t.grant(request_for("k", "next", after));
  CHECK(says(job.asserts(lease), k_not_held));
  job.roll_back();
  CHECK(job.asserts(next).empty());
}

TEST_CASE("mariadb: an old snapshot keeps nobody out whose lease has been renewed since") {
  Fenced t;
  const auto sharing = GENERATE(k_alone, k_reading, k_one_of_three);
  const bool isolated = GENERATE(false, true);
  CAPTURE(isolated);
  auto& database = t.under_test.database();
  database.sql("CREATE TABLE effect (n INT PRIMARY KEY)");
  Job job(t);
  database.sql("GRANT SELECT,INSERT ON effect TO " + job.user);
  const auto lease = t.grant(request_for("k", "holder", sharing));
  // As after a transaction that is longer than the TTL: its snapshot shows the end of the lease as it was.
  database.sql("UPDATE dblock_lock SET expire_time=expire_time-INTERVAL 1 HOUR");
  job.begin_early(isolated);
  database.sql("UPDATE dblock_lock SET expire_time=expire_time+INTERVAL 1 HOUR");
  CHECK(t.renewed(lease));
  CHECK(job.asserts(lease).empty());
  CHECK(job.asserts(lease).empty());
  job.session.sql("INSERT INTO effect VALUES (1)");
  job.commit();
  CHECK(database.number("SELECT COUNT(*) FROM effect") == 1);
  CHECK(t.renewed(lease));

  database.sql("UPDATE dblock_lock SET expire_time=expire_time-INTERVAL 1 HOUR");
  job.begin_early(isolated);
  // That it has does not show in a snapshot. Nobody else is granted the lock, however.
  CHECK(job.asserts(lease).empty());
  CHECK(t.conflict(request_for("k", "other")).kept_by_transaction);
  job.roll_back();
  job.begin();
  CHECK(says(job.asserts(lease), "its lease has expired"));
}

TEST_CASE("mariadb: heartbeats and a transaction with an old snapshot do not disturb each other") {
  Fenced t;
  const auto sharing = GENERATE(k_alone, k_reading, k_one_of_three);
  const bool isolated = GENERATE(false, true);
  CAPTURE(isolated);
  const auto lease = t.grant(request_for("k", "holder", sharing));
  Job job(t);
  job.begin_early(isolated);
  for (int heartbeats = 0; heartbeats < 3; ++heartbeats) {
    CHECK(t.renewed(lease));
    CHECK(job.asserts(lease).empty());
  }
  CHECK(t.renewed(lease));
  job.commit();
}

// What it has read may be older than the last holder's work, and it is to go by what it has read.
TEST_CASE("mariadb: a transaction that began to read before the grant is refused", "[safety]") {
  Fenced t;
  const auto sharing = GENERATE(k_alone, k_reading, k_one_of_three);
  const bool isolated = GENERATE(false, true);
  const bool row_is_there = GENERATE(false, true);
  CAPTURE(isolated, row_is_there);
  if (row_is_there) t.release(t.grant(request_for("k", "before", sharing)));
  Job job(t);
  job.begin_early(isolated);
  const auto lease = t.grant(request_for("k", "holder", sharing));
  CHECK(says(job.asserts(lease), "after this transaction began to read"));
  job.roll_back();
  job.begin();
  CHECK(job.asserts(lease).empty());
  job.commit();
}

TEST_CASE("mariadb: a reader's or slot holder's transaction is in nobody's way but an exclusive holder's",
          "[safety]") {
  const Server own;
  Fenced t(own.address());
  const auto sharing = GENERATE(k_reading, k_one_of_three);
  const auto first = t.grant(request_for("k", "first", sharing));
  const auto second = t.grant(request_for("k", "second", sharing));
  Job job(t);
  job.begin();
  REQUIRE(job.asserts(first).empty());
  const auto waits = t.lock_waits();
  t.release(second);
  const auto third = t.grant(request_for("k", "third", sharing));
  CHECK(t.renewed(first));
  t.release(third);
  t.release(first);
  const auto other_place = t.grant(request_for("j", "other key", sharing));
  CHECK(t.lock_waits() == waits);
  CHECK(t.conflict(request_for("k", "writer")).kept_by_transaction);
  CHECK(t.conflict(request_for("k", "by another number", {Mode::slot, 2})).kept_by_transaction);
  job.commit();
  CHECK(t.grant(request_for("k", "writer")).token > third.token);
  CHECK(says(job.asserts(first), k_not_held));
}

TEST_CASE("mariadb: a grant that is stuck in its transaction keeps no living holder's transaction waiting") {
  Fenced t;
  const auto sharing = GENERATE(k_reading, k_one_of_three);
  const auto first = t.grant(request_for("k", "first", sharing));
  t.release(t.grant(request_for("k", "second", sharing)));
  auto& database = t.under_test.database();
  test::Connection stuck(database.server(), "root", database.name());
  stuck.sql("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
  stuck.sql("START TRANSACTION");
  const store::Parameters keys{{"keys", store::List{1, {key("k").bytes()}}}};
  CHECK(stuck.sql(store::mariadb::render(store::Verb::lock_rows, keys)).size() == 3);
  Job job(t);
  job.session.sql("SET SESSION innodb_lock_wait_timeout=1");
  job.begin();
  CHECK(job.asserts(first).empty());
}

TEST_CASE("mariadb: a slot whose last holder's transaction goes on is left to it, and the others are granted",
          "[safety]") {
  const Server own;
  Fenced t(own.address());
  const auto sharing = GENERATE(k_reading, k_one_of_three);
  const bool released = GENERATE(false, true);
  CAPTURE(to_string(sharing.mode), released);
  const auto first = t.grant(request_for("k", "first", sharing));
  const auto other = t.grant(request_for("k", "other", sharing));
  t.release(t.grant(request_for("k", "third", sharing)));
  Job job(t);
  job.begin();
  REQUIRE(job.asserts(first).empty());
  if (released) {
    t.release(first);
  } else {
    t.under_test.database().sql(
        "UPDATE dblock_lock SET expire_time=expire_time-INTERVAL 1 HOUR WHERE slot=1");
  }
  const auto waits = t.lock_waits();
  const auto next = t.grant(request_for("k", "next", sharing));
  CHECK(t.slot_of(next) == 3);
  if (sharing == k_reading) {
    t.release(t.grant(request_for("k", "one more", sharing)));
  } else {
    CHECK_FALSE(t.conflict(request_for("k", "one more", sharing)).kept_by_transaction);
  }
  t.release(other);
  t.release(next);
  CHECK(t.conflict(request_for("k", "writer")).kept_by_transaction);
  CHECK(t.lock_waits() == waits);
  job.commit();
  CHECK(t.slot_of(t.grant(request_for("k", "next", sharing))) == 1);
}

TEST_CASE("mariadb: while transactions of all who had a slot go on, the next is told so at once") {
  const Server own;
  Fenced t(own.address());
  const Sharing alone_in_a_slot{Mode::slot, 1};
  const auto first = t.grant(request_for("k", "first", alone_in_a_slot));
  Job job(t);
  job.begin();
  REQUIRE(job.asserts(first).empty());
  t.release(first);
  const auto waits = t.lock_waits();
  CHECK(t.conflict(request_for("k", "next", alone_in_a_slot)).kept_by_transaction);
  CHECK(t.lock_waits() == waits);
  job.commit();
  t.grant(request_for("k", "next", alone_in_a_slot));
}

TEST_CASE("mariadb: an exclusive holder's transaction keeps readers and slots out as well", "[safety]") {
  Fenced t;
  const auto sharing = GENERATE(k_reading, k_one_of_three);
  const auto writer = t.grant(request_for("k", "writer"));
  Job job(t);
  job.begin();
  REQUIRE(job.asserts(writer).empty());
  t.release(writer);
  CHECK(t.conflict(request_for("k", "reader", sharing)).kept_by_transaction);
  job.commit();
  const auto reader = t.grant(request_for("k", "reader", sharing));
  CHECK(job.asserts(reader).empty());
  CHECK(says(job.asserts(writer), k_not_held));
}

TEST_CASE("mariadb: a listing for an exclusive request tells of an open transaction, and waits for nobody") {
  const Server own;
  Fenced t(own.address());
  const auto sharing = GENERATE(k_alone, k_reading, k_one_of_three);
  const bool released = GENERATE(false, true);
  CAPTURE(to_string(sharing.mode), released);
  const auto lease = t.grant(request_for("k", "holder", sharing));
  const auto waits = t.lock_waits();
  Job job(t);
  job.begin();
  REQUIRE(job.asserts(lease).empty());
  CHECK_FALSE(shown_as_kept(*t.store));
  if (released) {
    t.release(lease);
  } else {
    t.expire("k");
  }
  CHECK(shown_as_kept(*t.store));
  CHECK(job.asserts(lease).empty());
  job.commit();
  CHECK_FALSE(shown_as_kept(*t.store));
  CHECK(t.lock_waits() == waits);
  t.grant(request_for("k", "next"));
}

TEST_CASE("mariadb: a look at the fences that meets a row which changes meanwhile looks again") {
  const auto error = GENERATE(std::uint16_t{1020}, std::uint16_t{1213});
  Fenced t;
  t.release(t.grant(request_for("k", "before")));
  test::Proxy proxy(t.under_test.database().server());
  const auto store = MariadbUnderTest::open_at(proxy.url(t.under_test.database().name()));
  std::atomic<int> refusals = 0;
  proxy.refuse_statements(
      [&refusals](const std::string& statement) {
        return statement.find("FOR UPDATE NOWAIT") != std::string::npos && ++refusals < 3;
      },
      error, "Record has changed since last read");
  CHECK_FALSE(shown_as_kept(*store));
  CHECK(refusals == 3);
}

TEST_CASE("mariadb: looks at the fences of a free lock do not see each other") {
  Fenced t;
  t.release(t.grant(request_for("k", "before", GENERATE(k_alone, k_reading))));
  std::vector<std::future<int>> looks;
  for (int i = 0; i < 4; ++i) {
    looks.push_back(std::async(std::launch::async, [store = t.under_test.open()] {
      int kept = 0;
      for (int n = 0; n < 200; ++n) kept += shown_as_kept(*store) ? 1 : 0;
      return kept;
    }));
  }
  for (auto& look : looks) CHECK(look.get() == 0);
}

TEST_CASE(
    "mariadb: a grant that meets a look at the fences waits for it, and a running lease's fence is left "
    "alone",
    "[safety]") {
  const Server own;
  Fenced t(own.address());
  const auto sharing = GENERATE(k_alone, k_reading, k_one_slot);
  CAPTURE(to_string(sharing.mode));
  t.release(t.grant(request_for("k", "before", sharing)));
  auto& database = t.under_test.database();
  test::Connection stuck(database.server(), "root", database.name());
  stuck.sql("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
  const auto look = [&] {
    stuck.sql("START TRANSACTION");
    stuck.sql(store::mariadb::render(store::Verb::ask_fences, store::key_parameters(key("k"))));
  };
  look();
  const auto waits = t.lock_waits();
  auto grant =
      std::async(std::launch::async, [&] { return t.store->try_acquire(request_for("k", "next", sharing)); });
  const auto answered = [&] { return grant.wait_for(0s) == std::future_status::ready; };
  CHECK(test::wait_until([&] { return t.lock_waits() > waits || answered(); }));
  CHECK_FALSE(answered());
  stuck.sql("COMMIT");
  const auto answer = grant.get();
  REQUIRE(answer);
  REQUIRE(std::holds_alternative<Granted>(*answer));

  look();
  Job job(t);
  job.session.sql("SET SESSION innodb_lock_wait_timeout=1");
  CHECK(job.asserts(std::get<Granted>(*answer).lease).empty());
}

TEST_CASE("mariadb: looks at fences refuse no grant, no release and no protected transaction", "[safety]") {
  Fenced t;
  const auto sharing = GENERATE(k_alone, k_reading, k_one_slot);
  CAPTURE(to_string(sharing.mode));
  t.release(t.grant(request_for("k", "before", sharing)));
  std::atomic<bool> over = false;
  Job job(t);
  std::vector<std::jthread> looks;
  for (int i = 0; i < 3; ++i) {
    looks.emplace_back([&over, store = t.under_test.open()] {
      while (!over) static_cast<void>(shown_as_kept(*store));
    });
  }
  int refused = 0;
  for (int n = 0; n < 100 && refused == 0; ++n) {
    const auto answer = t.store->try_acquire(request_for("k", "holder " + std::to_string(n), sharing));
    const auto* const granted = answer ? std::get_if<Granted>(&*answer) : nullptr;
    if (granted == nullptr || !job.asserts(granted->lease).empty()) ++refused;
    if (granted == nullptr) break;
    const auto released = t.store->release(ref_to(granted->lease), Actor::holder, {});
    if (!released || !std::holds_alternative<Released>(*released)) ++refused;
  }
  over = true;
  CHECK(refused == 0);
}

TEST_CASE("mariadb: where rows cannot be locked, a listing tells of no transaction, and is no error") {
  const Server own;
  Fenced t(own.address());
  const auto lease = t.grant(request_for("k", "holder"));
  Job job(t);
  job.begin();
  REQUIRE(job.asserts(lease).empty());
  t.release(lease);
  auto& database = t.under_test.database();
  static SystemClock clock;
  const auto reader = store::open_store(settings_of(database.url(database.account("", "SELECT"))),
                                        {.reads_only = true}, clock);
  // MariaDB lets an account that may read lock rows.
  const bool may_lock = !test::mysql_run();
  for (int looks = 0; looks < 2; ++looks) CHECK(shown_as_kept(*reader) == may_lock);
  CHECK(shown_as_kept(*t.store));
  const auto other = store::open_store(settings_of(database.url()), {.reads_only = true}, clock);
  database.sql("SET GLOBAL read_only=1");
  CHECK_FALSE(shown_as_kept(*other));
}

TEST_CASE("mariadb: of several keys each is fenced by itself, under the one token", "[safety]") {
  Fenced t;
  auto both = request_for("a", "both");
  both.further_keys.push_back(*Key::parse("b"));
  const auto lease = t.grant(both);
  Job job(t);
  const std::string token = std::to_string(lease.token.value);
  CHECK(job.asserts(test::sql_hex("a"), token).empty());
  job.begin();
  CHECK(job.asserts(test::sql_hex("b"), token).empty());
  CHECK(t.renewed(lease));
  t.release(lease);
  const auto first = t.grant(request_for("a", "alone"));
  CHECK(t.conflict(request_for("b", "alone")).kept_by_transaction);
  t.release(first);
  const auto kept_out = t.conflict(both);
  CHECK(kept_out.kept_by_transaction);
  CHECK(kept_out.key == "b");
  job.commit();
  t.grant(both);
  CHECK(says(job.asserts(test::sql_hex("b"), token), k_not_held));
}

TEST_CASE("mariadb: a transaction that comes to its fence after a grant has looked waits, and is refused",
          "[safety]") {
  const Server own;
  Fenced t(own.address());
  for (const auto& [before, next] : fenced_turns(t)) {
    CAPTURE(to_string(before.mode), to_string(next.sharing.mode), next.further_keys.size());
    const auto lease = t.grant(request_for("k", "holder", before));
    Job job(t);
    job.begin_early(false);  // by its snapshot the lease is held
    t.release(lease);
    std::future<std::string> refusal;
    bool waits = false;
    const auto store =
        open_stepped(t.under_test, once_before(k_steps_of_a_grant, [&] {
                       const auto waits_before = t.lock_waits();
                       refusal = std::async(std::launch::async, [&] { return job.asserts(lease); });
                       const auto passed = [&] { return refusal.wait_for(0s) == std::future_status::ready; };
                       CHECK(test::wait_until([&] { return t.lock_waits() > waits_before || passed(); }));
                       waits = !passed();
                     }));
    const auto granted = grant(*store, next);
    CHECK(waits);
    CHECK(says(refusal.get(), k_not_held));
    job.roll_back();
    t.release(granted);
  }
}

TEST_CASE(
    "mariadb: a transaction that ends after a grant has found its fence locked holds it off no longer") {
  const Server own;
  Fenced t(own.address());
  const bool grant_waits = GENERATE(false, true);
  CAPTURE(grant_waits);
  for (const auto& [before, next] : fenced_turns(t)) {
    if (before != k_alone)
      continue;  // the fence of a reader or a slot is seen to be locked, and respected then
    CAPTURE(to_string(next.sharing.mode));
    const auto lease = t.grant(request_for("k", "holder", before));
    Job job(t);
    job.begin();
    REQUIRE(job.asserts(lease).empty());
    t.release(lease);
    const auto waits = t.lock_waits();
    std::jthread ending;
    const auto store =
        open_stepped(t.under_test, once_before(k_steps_of_a_grant, [&] {
                       if (!grant_waits) return job.commit();
                       ending = std::jthread([&] {
                         static_cast<void>(test::wait_until([&] { return t.lock_waits() > waits; }));
                         job.commit();
                       });
                     }));
    const auto granted = grant(*store, next);
    if (ending.joinable()) ending.join();
    CHECK((t.lock_waits() > waits) == grant_waits);
    t.release(granted);
  }
}

TEST_CASE("mariadb: a fence that a grant found missing and that is locked before it writes refuses the grant",
          "[safety]") {
  Fenced t;
  t.release(t.grant(request_for("l", "before")));  // else its row would be made between two looks
  const Sharing one_slot{Mode::slot, 1};
  auto several = request_for("k", "next");
  several.further_keys.push_back(key("l"));
  const auto [before, next] = GENERATE_COPY(FencedTurn{k_alone, several}, FencedTurn{k_reading, several},
                                            FencedTurn{k_alone, request_for("k", "next", k_reading)},
                                            FencedTurn{k_reading, request_for("k", "next", k_reading)},
                                            FencedTurn{one_slot, request_for("k", "next", one_slot)});
  CAPTURE(to_string(before.mode), to_string(next.sharing.mode), next.further_keys.size());
  const auto lease = t.grant(request_for("k", "holder", before));
  Job job(t);
  job.begin_early(false);  // by its snapshot the lease is held, and has a fence
  t.release(lease);
  auto& database = t.under_test.database();
  const std::string its_own = t.under_test.where("k") + " AND token=" + std::to_string(lease.token.value);
  const auto fence = database.sql("SELECT slot FROM dblock_fence" + its_own);
  REQUIRE(fence.size() == 1);
  database.sql("DELETE FROM dblock_fence" + its_own);
  auto steps = k_steps_of_a_grant;
  steps.push_back(Verb::add_fence);
  const auto store =
      open_stepped(t.under_test, once_before(steps, [&] {
                     database.sql("INSERT INTO dblock_fence (lock_key,slot,token) VALUES ('k'," +
                                  fence[0][0] + "," + std::to_string(lease.token.value) + ")");
                     CHECK(job.asserts(lease).empty());
                   }));
  if (before == k_reading && next.sharing == k_reading) {
    // Beside a reader's transaction there is room, but not in its place.
    CHECK(t.slot_of(grant(*store, next)) == 2);
    return;
  }
  CHECK(conflict(*store, next).status.kept_by_transaction);
  CHECK(t.number("SELECT COUNT(lock_value) FROM dblock_lock") == 0);
  CHECK(job.asserts(lease).empty());
  job.commit();
  CHECK(grant(*store, next).token > lease.token);
  CHECK(says(job.asserts(lease), k_not_held));
}

TEST_CASE("mariadb: a grant of several keys of which a fence is deleted after the look is undone as a whole",
          "[safety]") {
  Fenced t;
  auto both = request_for("a", "both");
  both.further_keys.push_back(key("b"));
  const auto lease = t.grant(both);
  Job job(t);
  job.begin();
  const std::string token = std::to_string(lease.token.value);
  for (const auto* const name : {"a", "b"}) REQUIRE(job.asserts(test::sql_hex(name), token).empty());
  t.release(lease);
  const auto* const deleted = GENERATE("'a'", "'b'", "'a','b'");
  both.owner.text = "next";
  const auto store =
      open_stepped(t.under_test, once_before(k_steps_of_a_grant, [&] {
                     job.commit();
                     t.under_test.database().sql("DELETE FROM dblock_fence WHERE lock_key IN (" +
                                                 std::string(deleted) + ")");
                   }));
  const auto undone = store->try_acquire(both);
  REQUIRE_FALSE(undone);
  CHECK(undone.error().code == Errc::unreachable);
  CHECK(says(undone.error().message, "its rows changed while they were locked"));
  CHECK(t.number("SELECT COUNT(lock_value) FROM dblock_lock") == 0);
  CHECK(t.token_in("dblock_lock", "a") == token);
  const auto next = grant(*store, both);
  for (const auto* const name : {"a", "b"})
    CHECK(Job(t).asserts(test::sql_hex(name), std::to_string(next.token.value)).empty());
}

TEST_CASE("mariadb: a fence that is missing is put back by the next grant", "[safety]") {
  Fenced t;
  const auto sharing = GENERATE(k_alone, k_reading, k_one_of_three);
  const auto several = GENERATE(false, true);
  CAPTURE(several);
  auto request = request_for("k", "first", sharing);
  if (several) request.further_keys.push_back(*Key::parse("l"));
  Job job(t);
  const auto first = t.grant(request);
  const auto* const missing = GENERATE("", " WHERE slot=0", " WHERE slot>0");
  t.under_test.database().sql(std::string("DELETE FROM dblock_fence") + missing);
  const bool its_own =
      missing[0] == '\0' || (sharing == k_alone) == std::string_view(missing).ends_with("=0");
  CHECK(job.asserts(first).empty() != its_own);
  t.release(first);
  request.owner.text = "second";
  const auto second = t.grant(request);
  CHECK(second.token > first.token);
  CHECK(job.asserts(second).empty());
  CHECK(says(job.asserts(first), k_not_held));
  t.release(second);
  const auto third = t.grant(request_for("k", "third"));
  CHECK(job.asserts(third).empty());
  CHECK(third.token > second.token);
}

TEST_CASE("mariadb: forgetting a lock forgets its fences, and the tokens go on growing", "[safety]") {
  Fenced t;
  const auto sharing = GENERATE(k_alone, k_reading);
  const auto lease = t.grant(request_for("k", "owner", sharing));
  const auto kept = t.grant(request_for("kept", "owner", sharing));
  t.release(lease);
  t.under_test.age("k", 1000h, true);
  const auto reaped = t.store->reap({false, 48h});
  REQUIRE(reaped);
  CHECK(t.number("SELECT COUNT(*) FROM dblock_fence" + t.under_test.where("k")) == 0);
  CHECK(t.number("SELECT COUNT(*) FROM dblock_fence" + t.under_test.where("kept")) > 0);
  CHECK(Job(t).asserts(kept).empty());
  const auto again = t.grant(request_for("k", "owner-2"));
  CHECK(again.token > lease.token);
  CHECK(Job(t).asserts(again).empty());
}

// As where a reap is held up between its look and its DELETE, while another forgets the lock.
TEST_CASE(
    "mariadb: a lock that was made anew since it was found idle is not forgotten, though its version is the "
    "same",
    "[safety]") {
  Fenced t;
  const auto sharing = GENERATE(k_alone, k_reading);
  const auto lease = t.grant(request_for("k", "owner", sharing));
  const auto version = static_cast<std::uint64_t>(t.number("SELECT version FROM dblock_lock WHERE slot=0"));
  using store::List;
  using store::Scalar;
  const store::Parameters seen{{"keys", List{1, {Scalar(std::string("k"))}}},
                               {"rows", List{2, {Scalar(std::string("k")), Scalar(version)}}},
                               {"forget_after", Scalar(Micros(48h).count())}};
  const auto forget = [&] { t.under_test.database().sql(store::mariadb::render(store::Verb::forget, seen)); };
  forget();
  CHECK(t.number("SELECT COUNT(lock_value) FROM dblock_lock") == 1);
  t.release(lease);
  t.under_test.database().sql("UPDATE dblock_lock SET version=" + std::to_string(version));
  forget();
  CHECK(t.number("SELECT COUNT(*) FROM dblock_lock") > 0);
  t.under_test.age("k", 1000h, true);
  forget();
  CHECK(t.number("SELECT COUNT(*) FROM dblock_lock") == 0);
}

TEST_CASE("mariadb: a fence is not forgotten while its token is young", "[safety]") {
  Fenced t;
  const auto lease = t.grant(request_for("k", "owner"));
  t.release(lease);
  t.under_test.age("k", 1000h, false);
  t.under_test.database().sql("UPDATE dblock_lock SET token=token-200000000000");
  REQUIRE(t.store->reap({false, 48h}));
  CHECK(t.token_in("dblock_fence", "k") == std::to_string(lease.token.value));
}

TEST_CASE("mariadb: a trigger that calls the fence's procedure lets no write pass", "[mariadb][safety]") {
  Fenced t;
  const auto lease = t.grant(request_for("k", "holder", k_alone));
  auto& database = t.under_test.database();
  database.sql("CREATE TABLE written (n INT)");
  database.sql("CREATE TRIGGER fenced BEFORE INSERT ON written FOR EACH ROW CALL dblock_assert_held('k'," +
               std::to_string(lease.token.value) + ")");
  std::string refusal;
  try {
    database.sql("INSERT INTO written VALUES (1)");
  } catch (const std::exception& refused) {
    refusal = refused.what();
  }
  CHECK(says(refusal, "not allowed in stored function or trigger"));
  CHECK(database.number("SELECT COUNT(*) FROM written") == 0);
}

}  // namespace dblock::contract
