// Sessions on MariaDB: what breaks them, what a broken one means, and what global settings must not change.
#include <thread>

#include "contract/mariadb_store.hpp"
#include "contract/store_fixture.hpp"
#include "store/mariadb/sql.hpp"
#include "store/parameters.hpp"
#include "support/catch.hpp"
#include "support/proxy.hpp"

namespace dblock::contract {
namespace {

using test::Server;

std::chrono::milliseconds since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
}

bool cycle_works(MariadbUnderTest& under_test, const std::string& key) {
  const auto store = under_test.open();
  const Lease lease = grant(*store, request_for(key, "owner"));
  const auto renewed = store->renew({lease.key, lease.owner, lease.token}, Actor::holder, std::nullopt);
  if (!renewed) FAIL(renewed.error().message);
  const auto released = store->release({lease.key, lease.owner, lease.token}, Actor::holder, {});
  if (!released) FAIL(released.error().message);
  return std::holds_alternative<Renewed>(*renewed) && std::holds_alternative<Released>(*released);
}

// A session that keeps a key's row locked until it goes.
struct RowLock {
  RowLock(MariadbUnderTest& under_test, const std::string& key)
      : session(under_test.database().server(), "root", under_test.database().name()) {
    session.sql("BEGIN");
    session.sql("SELECT * FROM dblock_lock" + under_test.where(key) + " FOR UPDATE");
  }
  test::Connection session;
};

// A lease whose holder has settled down, as a run does while its job starts.
struct Holder {
  Holder(MariadbUnderTest& under_test, const std::string& connection, const std::string& key = "k")
      : t(under_test),
        store(MariadbUnderTest::open_at(under_test.database().url() + "&connection=" + connection)),
        lease(grant(*store, request_for(key, key))) {
    store->hold(LeaseStore::RenewedBy::this_store);
  }
  bool renews() {
    const auto renewed = store->renew(ref_to(lease), Actor::holder, std::nullopt);
    return renewed && std::holds_alternative<Renewed>(*renewed);
  }
  bool releases() {
    const auto released = store->release(ref_to(lease), Actor::holder, {});
    return released && std::holds_alternative<Released>(*released);
  }
  [[nodiscard]] bool has_no_session(std::chrono::milliseconds limit = test::patience()) {
    return test::wait_until([this] { return t.database().sessions().empty(); }, limit);
  }
  [[nodiscard]] bool rests_without_session() {
    store->rest();
    return has_no_session();
  }
  [[nodiscard]] bool rests_with_session() {
    store->rest();
    return !has_no_session(300ms);
  }

  MariadbUnderTest& t;
  std::unique_ptr<LockBook> store;
  Lease lease;
};

// Opens sessions, none of the jobs' account, until so many are connected to the server.
std::vector<test::Connection> fill(MariadbUnderTest& t, long long count) {
  std::vector<test::Connection> others;
  t.fill(
      others, count, [&] { return t.connected(); }, "root");
  return others;
}

}  // namespace

TEST_CASE("mariadb: a lost reply to a grant is indeterminate, and the row tells that it was done",
          "[safety]") {
  MariadbUnderTest t;
  test::Proxy proxy(t.database().server());
  const auto store = MariadbUnderTest::open_at(proxy.url(t.database().name()));
  const Lease first = grant(*store, request_for("k", "first"));
  REQUIRE(store->release({first.key, first.owner, first.token}, Actor::holder, {}));
  proxy.cut(test::Proxy::Cut::before_reply, test::containing("UPDATE dblock_lock"));
  const auto lost = store->try_acquire(request_for("k", "owner"));
  REQUIRE_FALSE(lost);
  CHECK(lost.error().code == Errc::indeterminate);
  const auto seen = row_of(*store, *Key::parse("k"));
  REQUIRE(seen);
  REQUIRE(seen->has_value());
  CHECK((*seen)->owner == "owner");
  const auto again = store->try_acquire(request_for("k", "owner"));
  REQUIRE(again);
  CHECK(std::get<Granted>(*again).lease.needs_renewal_proof);
}

TEST_CASE("mariadb: a new key has got a free row, and no more, where the reply to making it is lost",
          "[safety]") {
  MariadbUnderTest t;
  test::Proxy proxy(t.database().server());
  const auto store = MariadbUnderTest::open_at(proxy.url(t.database().name()));
  proxy.cut(test::Proxy::Cut::before_reply,
            test::containing(GENERATE("INSERT INTO dblock_lock", "INSERT INTO dblock_fence")));
  const auto lost = store->try_acquire(request_for("k", "owner"));
  REQUIRE_FALSE(lost);
  CHECK(lost.error().code == Errc::indeterminate);
  const auto seen = row_of(*store, *Key::parse("k"));
  REQUIRE(seen);
  REQUIRE(seen->has_value());
  CHECK((*seen)->state == State::free);
  const auto again = store->try_acquire(request_for("k", "owner"));
  REQUIRE(again);
  REQUIRE(std::holds_alternative<Granted>(*again));
  CHECK_FALSE(std::get<Granted>(*again).lease.needs_renewal_proof);
}

TEST_CASE(
    "mariadb: a statement that never arrived is indeterminate too, and the row tells that it was not done",
    "[safety]") {
  MariadbUnderTest t;
  test::Proxy proxy(t.database().server());
  const auto store = MariadbUnderTest::open_at(proxy.url(t.database().name()));
  proxy.cut(test::Proxy::Cut::before_statement, test::containing("INSERT INTO dblock_lock"));
  const auto lost = store->try_acquire(request_for("k", "owner"));
  REQUIRE_FALSE(lost);
  CHECK(lost.error().code == Errc::indeterminate);
  const auto seen = row_of(*store, *Key::parse("k"));
  REQUIRE(seen);
  CHECK_FALSE(seen->has_value());
}

TEST_CASE("mariadb: lost replies to renewals and releases are indeterminate, to reads unreachable",
          "[safety]") {
  MariadbUnderTest t;
  test::Proxy proxy(t.database().server());
  const auto store = MariadbUnderTest::open_at(proxy.url(t.database().name()));
  const Lease lease = grant(*store, request_for("k", "owner"));
  const LeaseRef ref{lease.key, lease.owner, lease.token};
  proxy.cut(test::Proxy::Cut::before_reply, test::containing("UPDATE dblock_lock"));
  const auto renewed = store->renew(ref, Actor::holder, std::nullopt);
  REQUIRE_FALSE(renewed);
  CHECK(renewed.error().code == Errc::indeterminate);
  proxy.cut(test::Proxy::Cut::before_reply, test::containing("SELECT lock_key"));
  const auto seen = row_of(*store, lease.key);
  REQUIRE_FALSE(seen);
  CHECK(seen.error().code == Errc::unreachable);
  proxy.cut(test::Proxy::Cut::before_reply, test::containing("UPDATE dblock_lock"));
  const auto released = store->release(ref, Actor::holder, {});
  REQUIRE_FALSE(released);
  CHECK(released.error().code == Errc::indeterminate);
  const auto again = store->release(ref, Actor::holder, {});
  REQUIRE(again);
  CHECK(std::get<NotOurs>(*again).why == NotOursWhy::free);
}

TEST_CASE("mariadb: no statement is ever sent twice by itself", "[safety]") {
  MariadbUnderTest t;
  test::Proxy proxy(t.database().server());
  const auto store = MariadbUnderTest::open_at(proxy.url(t.database().name()));
  REQUIRE(store->connect());
  proxy.cut(test::Proxy::Cut::before_reply, test::containing("UPDATE dblock_lock"));
  REQUIRE_FALSE(store->try_acquire(request_for("k", "owner")));
  int updates = 0;
  for (const auto& statement : proxy.statements()) updates += statement.find("UPDATE") != std::string::npos;
  CHECK(updates == 1);
}

TEST_CASE("mariadb: an idle session that the server closed is replaced without an error") {
  MariadbUnderTest t;
  const auto store = t.open();
  const Lease lease = grant(*store, request_for("k", "owner"));
  REQUIRE(t.database().kill_session(t.database().sessions().front()));
  REQUIRE(test::wait_until([&] { return t.database().sessions().empty(); }));
  const auto renewed = store->renew({lease.key, lease.owner, lease.token}, Actor::holder, std::nullopt);
  if (!renewed) FAIL(renewed.error().message);
  CHECK(std::holds_alternative<Renewed>(*renewed));
}

TEST_CASE("mariadb: the server may drop a session that is idle for longer than was agreed") {
  MariadbUnderTest t;
  SystemClock clock;
  store::SessionOptions options;
  options.idle_timeout = 1s;
  const auto store = store::open_store(settings_of(t.database().url()), options, clock);
  const Lease lease = grant(*store, request_for("k", "owner"));
  CHECK(t.database().sessions().size() == 1);
  CHECK(test::wait_until([&] { return t.database().sessions().empty(); }));
  // The server takes a session off its list a moment before it hangs up: a call in between is lost with it.
  const auto renewed = [&] {
    return store->renew({lease.key, lease.owner, lease.token}, Actor::holder, std::nullopt).has_value();
  };
  CHECK(test::wait_until(renewed));
}

TEST_CASE("mariadb: connection=brief: a holder has no session but for its renewals and its release") {
  MariadbUnderTest t;
  Holder holder(t, "brief");
  CHECK(holder.has_no_session());
  for (int i = 0; i < 2; ++i) {
    CHECK(holder.renews());
    CHECK(holder.rests_without_session());
  }
  CHECK(holder.releases());
}

TEST_CASE("mariadb: connection=auto: holders end their sessions while more than four fifths are in use") {
  const Server own({"--max-connections=20"});
  MariadbUnderTest t(own.address());
  Holder usual(t, "auto");
  CHECK(usual.rests_with_session());
  auto others = fill(t, 18);
  CHECK(usual.rests_with_session());  // it asks once a minute
  usual.store->disconnect();
  REQUIRE(usual.has_no_session());
  Holder kept(t, "keep", "kept");
  CHECK(kept.rests_with_session());
  kept.store->disconnect();
  REQUIRE(kept.has_no_session());
  Holder brief(t, "auto", "brief");
  CHECK(brief.rests_without_session());
  CHECK(brief.renews());
  CHECK(brief.rests_without_session());
  CHECK(brief.releases());
}

TEST_CASE("mariadb: connection=auto: so do the holders of an account that may have few sessions") {
  MariadbUnderTest t;
  const std::string user = t.database().account("WITH MAX_USER_CONNECTIONS 5");
  std::vector<std::unique_ptr<LockBook>> stores;
  const auto of_account = [&] {
    return t.database().number("SELECT COUNT(*) FROM information_schema.processlist WHERE user='" + user +
                               "'");
  };
  for (int i = 0; i < 12; ++i) {
    const std::string key = "k" + std::to_string(i);
    stores.push_back(MariadbUnderTest::open_at(t.database().url(user)));
    grant(*stores.back(), request_for(key, key));
    stores.back()->hold(LeaseStore::RenewedBy::this_store);
    stores.back()->rest();
    REQUIRE(test::wait_until([&] { return of_account() <= 4; }));
  }
  CHECK(of_account() == 4);
}

TEST_CASE("mariadb: connection=auto: the holder of a short lease keeps its session") {
  const Server own({"--max-connections=20"});
  MariadbUnderTest t(own.address());
  SystemClock clock;
  for (const Micros renewal_timeout : {2s, 3s}) {
    CAPTURE(renewal_timeout.count());
    store::SessionOptions options;
    options.network_timeout = 3s;
    options.renewal_timeout = renewal_timeout;
    const auto store = store::open_store(settings_of(t.database().url()), options, clock);
    const std::string key = std::to_string(renewal_timeout.count());
    grant(*store, request_for(key, key));
    store->hold(LeaseStore::RenewedBy::this_store);
    const auto others = fill(t, 18);
    store->rest();
    const auto ends = [&] { return t.database().sessions().empty(); };
    if (renewal_timeout < options.network_timeout) {
      CHECK_FALSE(test::wait_until(ends, 300ms));
    } else {
      CHECK(test::wait_until(ends));
    }
    store->disconnect();
    REQUIRE(test::wait_until(ends));
  }
}

TEST_CASE("mariadb: connection=auto: a holder whose idle session was cut keeps none from then on") {
  MariadbUnderTest t;
  Holder holder(t, "auto");
  CHECK(holder.rests_with_session());
  REQUIRE(t.database().kill_session(t.database().sessions().front()));
  REQUIRE(holder.has_no_session());
  CHECK(holder.renews());
  CHECK(holder.rests_without_session());
  CHECK(holder.renews());
  CHECK(holder.rests_without_session());
  CHECK(holder.releases());
}

TEST_CASE("mariadb: interrupt ends a call that waits for a row lock", "[safety]") {
  MariadbUnderTest t;
  const auto store = t.open();
  const Lease lease = grant(*store, request_for("k", "owner"));
  const RowLock row_lock(t, "k");
  const std::jthread other([&] {
    (void)test::wait_until([&] { return !t.database().sessions("info LIKE 'UPDATE%'").empty(); });
    store->interrupt();
  });
  const auto renewed = store->renew({lease.key, lease.owner, lease.token}, Actor::holder, std::nullopt);
  REQUIRE_FALSE(renewed);
  CHECK(renewed.error().code == Errc::indeterminate);  // and not the end of the wait, which is definite
}

TEST_CASE("mariadb: a call that was broken off sends nothing more") {
  MariadbUnderTest t;
  const auto database = t.open_database();
  const store::Database::Call call(*database, "a test");
  REQUIRE(call.open());
  database->interrupt();
  const auto refused = database->run(store::Verb::server_time, {});
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message, Catch::EndsWith(": broken off"));
}

TEST_CASE("mariadb: a transaction whose session is lost runs no further statement", "[safety]") {
  MariadbUnderTest t;
  const auto database = t.open_database();
  const store::Database::Call call(*database, "a test");
  REQUIRE(call.open());
  const auto ask = [&] { return database->run(store::Verb::server_time, {}); };
  const auto done = database->in_transaction([&]() -> Result<void> {
    REQUIRE(ask());
    REQUIRE(t.database().kill_session(t.database().sessions().front()));
    CHECK_FALSE(ask());
    const auto after = ask();
    REQUIRE_FALSE(after);
    CHECK_THAT(after.error().message, Catch::EndsWith(": its transaction was rolled back"));
    return call.open();
  });
  REQUIRE_FALSE(done);
  CHECK_THAT(done.error().message, Catch::EndsWith(": its transaction was rolled back"));
}

// I4: the deadline counts from before the statement was sent. Counted from the reply, a slow answer would
// make the holder believe in its lease for longer than the server does.
TEST_CASE("mariadb: a slow reply does not lengthen what the holder may believe", "[safety][once]") {
  MariadbUnderTest t;
  test::Proxy proxy(t.database().server());
  const auto store = MariadbUnderTest::open_at(proxy.url(t.database().name()));
  SystemClock clock;
  REQUIRE(store->connect());
  proxy.delay(400ms);
  const Lease lease = grant(*store, request_for("k", "owner"));
  CHECK(clock.now() - lease.sent_at >= 400ms);
  const auto renewed = store->renew({lease.key, lease.owner, lease.token}, Actor::holder, std::nullopt);
  REQUIRE(renewed);
  CHECK(clock.now() - std::get<Renewed>(*renewed).sent_at >= 400ms);
}

TEST_CASE("mariadb: a row lock that is held for long makes a definite failure", "[safety]") {
  MariadbUnderTest t;
  const auto store = t.open();
  const Lease lease = grant(*store, request_for("k", "owner"));
  const RowLock row_lock(t, "k");
  const auto start = std::chrono::steady_clock::now();
  const auto renewed = store->renew({lease.key, lease.owner, lease.token}, Actor::holder, std::nullopt);
  REQUIRE_FALSE(renewed);
  CHECK(renewed.error().code == Errc::unreachable);
  CHECK(renewed.error().native == 1205);
  CHECK(since(start) < test::patience());  // of the 50 s that a server waits by itself
}

TEST_CASE("mariadb: a server that stops answering costs no more than the network timeout", "[safety]") {
  Server own;
  MariadbUnderTest t(own.address());
  const auto store = MariadbUnderTest::open_at(t.database().url(), 1s);
  const Lease lease = grant(*store, request_for("k", "owner"));
  const auto renew = [&] {
    return store->renew({lease.key, lease.owner, lease.token}, Actor::holder, std::nullopt);
  };
  CHECK(test::best_of_some(8s, [&] {  // the library waits for ten by itself
          own.freeze();
          const auto start = std::chrono::steady_clock::now();
          const auto renewed = renew();
          const auto took = since(start);
          own.thaw();
          REQUIRE_FALSE(renewed);
          CHECK(renewed.error().code == Errc::indeterminate);
          // A server that was frozen may need a moment before it answers within this timeout again.
          CHECK(test::wait_until([&] { return renew().has_value(); }));
          return took;
        }) < 8s);
}

TEST_CASE("mariadb: hosts are tried in order until one answers") {
  MariadbUnderTest t;
  const auto& server = t.database().server();
  const std::string port = std::to_string(server.port);
  const auto store =
      MariadbUnderTest::open_at("mysql://app@127.0.0.1:1,127.0.0.1:" + port + "/" + t.database().name());
  const auto connected = store->connect();
  if (!connected) FAIL(connected.error().message);
  const auto nobody = MariadbUnderTest::open_at("mysql://app@127.0.0.1:1,127.0.0.1:2/x")->connect();
  REQUIRE_FALSE(nobody);
  CHECK(nobody.error().code == Errc::unreachable);
}

TEST_CASE("mariadb: a refused account, a missing database and a missing server are told apart") {
  MariadbUnderTest t;
  const auto& server = t.database().server();
  const auto code = [](const std::string& url) {
    const auto connected = MariadbUnderTest::open_at(url)->connect();
    REQUIRE_FALSE(connected);
    CHECK(connected.error().message.find("hunter2") == std::string::npos);
    return connected.error().code;
  };
  CHECK(code("mysql://app:hunter2@localhost/" + t.database().name() + "?socket=" + server.socket) ==
        Errc::denied);
  CHECK(code("mysql://app@localhost/mysql?socket=" + server.socket) == Errc::denied);
  CHECK(code("mysql://owner@localhost/t_missing?socket=" + server.socket) == Errc::config);
  // To an account without rights there the server does not say whether a database exists.
  CHECK(code("mysql://app@localhost/t_missing?socket=" + server.socket) == Errc::denied);
  CHECK(code("mysql://app@localhost/t_missing?socket=/nowhere.sock") == Errc::unreachable);
}

TEST_CASE("mariadb: a read-only server is named as such, and nothing is granted", "[safety]") {
  Server own;
  MariadbUnderTest t(own.address());
  t.database().sql("SET GLOBAL read_only=1");
  const auto refused = t.open()->try_acquire(request_for("k", "owner"));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::unreachable);
  CHECK(refused.error().message.find("read-only") != std::string::npos);
}

TEST_CASE("mariadb: no global sql_mode changes what the statements mean", "[safety]") {
  Server own;
  MariadbUnderTest t(own.address());
  int n = 0;
  for (const auto* const mode :
       {"", "ORACLE", "MSSQL", "ANSI", "TRADITIONAL", "SIMULTANEOUS_ASSIGNMENT",
        "NO_BACKSLASH_ESCAPES,ANSI_QUOTES,PIPES_AS_CONCAT,IGNORE_SPACE,HIGH_NOT_PRECEDENCE,REAL_AS_FLOAT",
        "EMPTY_STRING_IS_NULL,NO_UNSIGNED_SUBTRACTION,PAD_CHAR_TO_FULL_LENGTH,TIME_ROUND_FRACTIONAL"}) {
    CAPTURE(mode);
    t.database().sql("SET GLOBAL sql_mode='" + test::known_sql_modes(mode) + "'");
    CHECK(cycle_works(t, "mode " + std::to_string(++n)));
    CHECK(cycle_works(t, "mode " + std::to_string(n)));
  }
}

TEST_CASE("mariadb: a takeover records its predecessor the same way when assignments are simultaneous",
          "[mariadb]") {
  MariadbUnderTest t;
  grant(*t.open(), request_for("k", "owner-1"));
  t.age("k", 1h, false);
  const auto acquired = t.database().column("k", "create_time");
  // The store's own session cannot be given the mode, so its statement is run in one that has it.
  test::Proxy proxy(t.database().server());
  const auto store = MariadbUnderTest::open_at(proxy.url(t.database().name()));
  grant(*store, request_for("other", "owner-2"));
  std::string statement;
  for (const auto& seen : proxy.statements()) {
    if (seen.starts_with("UPDATE")) statement = seen;
  }
  const auto at = statement.rfind(test::sql_hex("other"));
  REQUIRE(at != std::string::npos);
  statement.replace(at, test::sql_hex("other").size(), test::sql_hex("k"));
  t.database().sql("SET sql_mode='SIMULTANEOUS_ASSIGNMENT'");
  t.database().sql(statement);
  CHECK(t.database().column("k", "lock_value") == "owner-2");
  CHECK(t.database().column("k", "last_outcome") == "abandoned");
  CHECK(t.database().column("k", "last_acquired_at") == acquired);
}

TEST_CASE("mariadb: the cooldown of a failure is recorded the same way when assignments are simultaneous",
          "[mariadb]") {
  MariadbUnderTest t;
  auto& database = t.database();
  const auto store = t.open();
  struct Cooldown {
    std::string left;  // microseconds; NULL: there is none
    std::string length;
  };
  const Cooldown asked{"3600000000", "3600000000"};
  const std::string longer = "7200000000";
  const std::string a_little_longer = "3602000000";
  struct Turn {
    Cooldown before;
    Cooldown after;
  };
  const std::vector<Turn> turns{{{"NULL", "NULL"}, asked},
                                {{"1800000000", "1800000000"}, asked},
                                {{longer, longer}, {longer, longer}},
                                {{longer, "NULL"}, {longer, "NULL"}},
                                {{longer, "1800000000"}, asked},
                                {{a_little_longer, "1800000000"}, asked},
                                {{a_little_longer, asked.length}, {a_little_longer, asked.length}}};
  database.sql("SET timestamp=UNIX_TIMESTAMP()");
  for (const auto* const mode : {"", "SIMULTANEOUS_ASSIGNMENT"}) {
    database.sql("SET sql_mode='" + std::string(mode) + "'");
    for (const auto& [before, after] : turns) {
      CAPTURE(mode, before.left, before.length);
      const Lease lease = grant(*store, request_for("k", "owner"));
      database.sql("UPDATE dblock_lock SET hold_until=UTC_TIMESTAMP(6)+INTERVAL " + before.left +
                   " MICROSECOND, hold_us=" + before.length);
      database.sql(store::mariadb::render(store::Verb::release,
                                          store::ref_parameters(ref_to(lease), Actor::holder) +
                                              store::end_parameters({RunOutcome::failed, 3, 1h})));
      CHECK(database.column("k", "lock_value") == "NULL");
      CHECK(
          database.value("SELECT TIMESTAMPDIFF(MICROSECOND,UTC_TIMESTAMP(6),hold_until) FROM dblock_lock") ==
          after.left);
      CHECK(database.column("k", "hold_us") == after.length);
      database.sql("UPDATE dblock_lock SET hold_until=NULL");
    }
  }
}

TEST_CASE("mariadb: session time zones, a DST instant and other global settings change nothing", "[safety]") {
  Server own({"--default-time-zone=-11:00"});
  MariadbUnderTest t(own.address());
  const std::string isolation =
      test::mysql_run() ? "transaction_isolation='SERIALIZABLE'" : "tx_isolation='SERIALIZABLE'";
  for (const auto* const setting :
       {"time_zone='+12:45'", "autocommit=0", isolation.c_str(), "sql_safe_updates=1",
        "innodb_lock_wait_timeout=100", "character_set_server='utf16'", "wait_timeout=1",
        "div_precision_increment=0", "max_join_size=1",
        // 01:30 local time exists twice in Berlin that night; the server's own zone is what NOW() would use
        "timestamp=1761438600.5"}) {
    CAPTURE(setting);
    const bool for_session_only = std::string(setting).starts_with("timestamp");
    t.database().sql((for_session_only ? "SET " : "SET GLOBAL ") + std::string(setting));
    CHECK(cycle_works(t, setting));
    const auto store = t.open();
    const Lease lease = grant(*store, request_for(setting, "owner"));
    const auto seen = row_of(*store, lease.key);
    REQUIRE(seen);
    // The server's UTC clock is this machine's, whatever any time zone says.
    CHECK(std::chrono::abs(Micros{test::realtime_micros()} - (*seen)->server_time.since_epoch) <
          test::patience());  // of an hour
    CHECK((*seen)->expires_at->since_epoch == (*seen)->acquired_at->since_epoch + 60s);
  }
}

TEST_CASE("mariadb: a server that logs statements and reads what is committed refuses, and is told why") {
  const Server own({"--log-bin", "--binlog-format=STATEMENT", "--server-id=1"});
  MariadbUnderTest t(own.address());
  t.database().sql(std::string("SET GLOBAL ") +
                   (test::mysql_run() ? "transaction_isolation" : "tx_isolation") + "='READ-COMMITTED'");
  for (const auto& sharing : {Sharing{}, Sharing{Mode::shared, 1}}) {
    auto request = request_for("k", "owner");
    request.sharing = sharing;
    const auto refused = t.open()->try_acquire(request);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::config);
    CHECK(refused.error().message.find("binlog_format=ROW or MIXED") != std::string::npos);
  }
}

}  // namespace dblock::contract
