// Migrations on MariaDB, and how the other verbs meet a schema that does not fit.
#include <thread>

#include "contract/mariadb_store.hpp"
#include "store/mariadb/sql.hpp"
#include "store/sql_grant.hpp"
#include "support/catch.hpp"
#include "support/proxy.hpp"

namespace dblock::contract {
namespace {

using namespace std::chrono_literals;
using namespace lease;

Error refusal(MariadbUnderTest& t) {
  const auto connected = t.open()->connect();
  REQUIRE_FALSE(connected);
  CHECK(connected.error().code == Errc::schema);
  return connected.error();
}

}  // namespace

TEST_CASE("mariadb: migrating applies everything once, and nothing the second time") {
  MariadbUnderTest t(test::shared_server(), false);
  auto before = t.admin()->status();
  REQUIRE(before);
  CHECK(before->size() == store::mariadb::migrations().size());
  for (const auto& state : *before) CHECK_FALSE(state.applied_at);
  const auto first = t.admin()->apply();
  REQUIRE(first);
  CHECK(first->migrations.size() == store::mariadb::migrations().size());
  const auto second = t.admin()->apply();
  REQUIRE(second);
  CHECK(second->migrations.empty());
  CHECK(second->procedures.empty());
  const auto after = t.admin()->status();
  REQUIRE(after);
  for (const auto& state : *after) {
    REQUIRE(state.applied_at);
    CHECK(std::chrono::abs(Micros{test::realtime_micros()} - state.applied_at->since_epoch) <
          std::chrono::minutes{1});
  }
  CHECK(t.open()->connect());
}

TEST_CASE("mariadb: several hosts may migrate at once, and each migration is reported by one of them") {
  MariadbUnderTest t(test::shared_server(), false);
  std::atomic<std::size_t> applied{0};
  std::atomic<int> failed{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      const auto done = t.admin()->apply();
      if (done) {
        applied += done->migrations.size();
      } else {
        ++failed;
      }
    });
  }
  threads.clear();
  CHECK(failed == 0);
  CHECK(applied == store::mariadb::migrations().size());
}

TEST_CASE("mariadb: whoever migrates has taken the turn that others wait for") {
  MariadbUnderTest t(test::shared_server(), false);
  test::Proxy proxy(t.database().server());
  REQUIRE(store::open_schema(settings_of(proxy.url(t.database().name())), {})->apply());
  std::string taking;
  for (const auto& statement : proxy.statements())
    if (statement.starts_with("SELECT GET_LOCK")) taking = statement;
  REQUIRE_FALSE(taking.empty());
  CHECK(t.database().value(taking) == "1");
}

TEST_CASE("mariadb: a migration that died half-way is finished by the next") {
  MariadbUnderTest t;
  t.database().sql("DELETE FROM dblock_schema WHERE version=" +
                   std::to_string(store::mariadb::schema_version()));
  CHECK(refusal(t).message.find("dblock migrate") != std::string::npos);
  const auto applied = t.admin()->apply();
  REQUIRE(applied);
  CHECK(applied->migrations.size() == 1);
  CHECK(t.open()->connect());
}

TEST_CASE("mariadb: what dblock_now shows cannot steer a terminal") {
  MariadbUnderTest t;
  const auto store = t.open();
  REQUIRE(store->try_acquire(request_for("k", "owner")));
  const std::string plain = "\u00e9 \u6f22 'x' [a-z]\\ \U0001f600";
  for (const std::string& hidden :
       {std::string(1, '\0'), std::string("\x01"), std::string("\x1b"), std::string("\n"),
        std::string("\x7f"), std::string("\u0080"), std::string("\u009b"), std::string("\u00ad"),
        std::string("\u200b"), std::string("\u202e"), std::string("\u2066"), std::string("\ufeff"),
        std::string("\U000e0061")}) {
    const std::string text = store::mariadb::bytes_literal(plain + hidden + "[2J");
    t.database().sql("UPDATE dblock_lock SET lock_key=" + text + ", holder_note=" + text +
                     ", holder_user=" + text + ", holder_host=''");
    const std::string shown = plain + "?[2J";
    CAPTURE(text);
    CHECK(t.database().value("SELECT note FROM dblock_now") == shown);
    CHECK(t.database().value("SELECT lock_key FROM dblock_now") == shown);
    CHECK(t.database().value("SELECT holder FROM dblock_now") == shown + "@:1");
  }
}

TEST_CASE("mariadb: dblock_now tells of each lock that is held how many wait for it") {
  MariadbUnderTest t;
  const auto store = t.open();
  for (const auto* const key : {"k", "other"}) REQUIRE(store->try_acquire(request_for(key, "owner")));
  for (const auto& [owner, length] :
       std::vector<std::pair<std::string, Micros>>{{"a", 75s}, {"b", 75s}, {"ended", 1us}})
    REQUIRE(store->stand_in_line(request_for("k", owner), length, true));
  CHECK(t.database().number("SELECT waiters FROM dblock_now WHERE lock_key='k'") == 2);
  CHECK(t.database().number("SELECT waiters FROM dblock_now WHERE lock_key='other'") == 0);
}

TEST_CASE("mariadb: migrating again what is there does no harm, and leases go on") {
  MariadbUnderTest t;
  const auto store = t.open();
  const auto granted = store->try_acquire(request_for("k", "owner"));
  REQUIRE(granted);
  t.database().sql("DELETE FROM dblock_schema WHERE version>2");
  const auto applied = t.admin()->apply();
  REQUIRE(applied);
  CHECK(applied->migrations.size() == store::mariadb::schema_version() - 2);
  t.database().sql("DROP VIEW dblock_now");
  t.database().sql("DELETE FROM dblock_schema WHERE version>2");
  REQUIRE(t.admin()->apply());
  CHECK(t.database().value("SELECT holder FROM dblock_now WHERE lock_key='k'") == "user@host:1");
  const auto& lease = std::get<Granted>(*granted).lease;
  const auto renewed = t.open()->renew(ref_to(lease), Actor::holder, std::nullopt);
  REQUIRE(renewed);
  CHECK(std::holds_alternative<Renewed>(*renewed));
}

TEST_CASE("mariadb: the count of failures begins at 0 in rows of an older dblock, which goes on beside it") {
  MariadbUnderTest t;
  const auto store = t.open();
  REQUIRE(store->try_acquire(request_for("k", "owner")));
  t.database().sql(
      "ALTER TABLE dblock_lock DROP COLUMN failures, DROP COLUMN job_ended_at, DROP COLUMN job_ended_token");
  t.database().sql("DELETE FROM dblock_schema WHERE version>6");
  REQUIRE(t.admin()->apply());
  CHECK(t.database().number("SELECT failures FROM dblock_lock") == 0);
  CHECK(t.database().number("SELECT MAX(serves) FROM dblock_schema WHERE version>6") == 6);
  REQUIRE(store->release({*Key::parse("k"), {"owner"}, {}}, Actor::holder, {RunOutcome::failed, 1}));
  CHECK(t.database().number("SELECT failures FROM dblock_lock") == 1);
}

TEST_CASE("mariadb: a history that is kept is no version of the tables, and a migration leaves it as it is") {
  MariadbUnderTest t;
  const auto is_kept = [&] { return t.admin()->keeps_history().value(); };
  CHECK_FALSE(is_kept());
  t.keep_history(true);
  t.keep_history(true);
  CHECK(is_kept());
  CHECK(t.database().number("SELECT COUNT(*) FROM dblock_schema") ==
        static_cast<long long>(store::mariadb::migrations().size()));
  CHECK(t.database().number("SELECT MIN(version) FROM dblock_schema") == 1);
  t.database().sql("DELETE FROM dblock_schema WHERE version>1");
  REQUIRE(t.admin()->apply());
  CHECK(is_kept());
  t.keep_history(false);
  CHECK_FALSE(is_kept());
}

TEST_CASE("mariadb: a missing, empty, older or newer schema is refused with the way out") {
  MariadbUnderTest t(test::shared_server(), false);
  CHECK(refusal(t).message.find("dblock migrate") != std::string::npos);
  REQUIRE(t.admin()->apply());
  t.database().sql("UPDATE dblock_schema SET version=version+1000,serves=serves+1000");
  const auto newer = refusal(t);
  CHECK(newer.message.find("newer") != std::string::npos);
  CHECK(newer.message.find("upgrade dblock") != std::string::npos);
  const auto migrated = t.admin()->apply();
  REQUIRE_FALSE(migrated);
  CHECK(migrated.error().code == Errc::schema);
  CHECK_FALSE(t.admin()->status());
  // Of two newer versions one served this dblock, and the other no longer does.
  t.database().sql("UPDATE dblock_schema SET version=version-1000,serves=serves-1000");
  t.database().sql(
      "INSERT INTO dblock_schema (version,serves,name,applied_at) "
      "VALUES (1001,1001,'a',UTC_TIMESTAMP()),(1002,1,'b',UTC_TIMESTAMP())");
  CHECK(refusal(t).message.find("upgrade dblock") != std::string::npos);
  CHECK_FALSE(t.admin()->apply());
  t.database().sql("DELETE FROM dblock_schema");
  CHECK(refusal(t).message.find("dblock migrate") != std::string::npos);
}

TEST_CASE("mariadb: the table refuses rows that contradict themselves") {
  MariadbUnderTest t;
  REQUIRE(t.open()->try_acquire(request_for("k", "owner")));
  for (const std::string change : {"lock_value=NULL", "expire_time=NULL", "lock_count=0", "mode='other'"}) {
    CAPTURE(change);
    CHECK_THROWS(t.database().sql("UPDATE dblock_lock SET " + change));
  }
  CHECK_THROWS(t.database().sql("UPDATE dblock_lock SET slot=1"));
  CHECK(t.database().number("SELECT COUNT(*) FROM dblock_lock WHERE lock_value='owner' AND slot=0") == 1);
}

TEST_CASE("mariadb: a table that lost a column is a schema error") {
  MariadbUnderTest t;
  t.database().sql("ALTER TABLE dblock_lock DROP COLUMN holder_note");
  const auto refused = t.open()->try_acquire(request_for("k", "owner"));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::schema);
}

TEST_CASE("mariadb: the printed grants are enough for everything but migrating") {
  MariadbUnderTest t;
  const std::string user = t.database().name();
  t.database().sql("CREATE USER " + user);
  const auto grants = store::grants_for(user, t.database().name());
  REQUIRE(grants);
  for (const auto& grant : *grants) t.database().sql(grant);
  const std::string url = t.database().url(user);
  const auto store = MariadbUnderTest::open_at(url);
  const auto outcome = store->try_acquire(request_for("k", "owner"));
  if (!outcome) FAIL(outcome.error().message);
  const Lease lease = std::get<Granted>(*outcome).lease;
  const LeaseRef ref{lease.key, lease.owner, lease.token};
  CHECK(store->renew(ref, Actor::holder, std::nullopt));
  CHECK(store->revoke(lease.key, lease.token, "op@desk"));
  CHECK(store->release(ref, Actor::holder, {}));
  auto reader = request_for("k", "reader");
  reader.sharing.mode = Mode::shared;
  const auto shared = store->try_acquire(reader);
  if (!shared) FAIL(shared.error().message);
  CHECK(store->release(ref_to(std::get<Granted>(*shared).lease), Actor::holder, {}));
  CHECK(store->list({{}, {}, false}));
  const auto places = [&] { return t.database().number("SELECT COUNT(*) FROM dblock_waiter"); };
  auto waiter = request_for("k", "waiter");
  for (int i = 0; i < 2; ++i) {
    const auto arrival = store->stand_in_line(waiter, 75s, true);
    if (!arrival) FAIL(arrival.error().message);
    waiter.arrival = *arrival;
  }
  CHECK(store->see_line(waiter));
  CHECK(places() == 1);
  store->leave_line(waiter);
  CHECK(places() == 0);
  t.age("k", std::chrono::hours{1000}, true);
  const auto reaped = store->reap({false, std::chrono::hours{48}});
  REQUIRE(reaped);
  CHECK(reaped->forgotten == 2);

  const auto status = store::open_schema(settings_of(url), {})->status();
  CHECK(status);
  t.database().sql("DROP TABLE dblock_lock");
  t.database().sql("DELETE FROM dblock_schema WHERE version>1");
  const auto denied = store::open_schema(settings_of(url), {})->apply();
  REQUIRE_FALSE(denied);
  CHECK(denied.error().code == Errc::denied);
  CHECK(denied.error().message.find("CREATE") != std::string::npos);
  t.database().sql("DROP USER " + user);
}

}  // namespace dblock::contract
