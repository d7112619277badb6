// What keeps a pause on a server: a grant looks at its row, which the pause has marked, and the first grant
// of a row also looks at the pauses; each of the two alone refuses it.
#include <chrono>
#include <future>

#include "contract/mariadb_store.hpp"
#include "support/catch.hpp"
#include "support/connection.hpp"

namespace dblock::contract {
namespace {

using namespace std::chrono_literals;
using namespace lease;

// A server of its own, so that nobody else's sessions wait for locks.
struct PausedServer {
  const test::Server server;
  MariadbUnderTest t{server.address()};
  std::unique_ptr<LockBook> store = t.open();
  std::unique_ptr<LockBook> desk = t.open();

  Result<Paused> pause(const PauseScope& scope) { return desk->pause({scope, Micros{1h}, "op@desk", ""}); }
  // Whether a try is refused by a pause alone.
  static bool refused(const Result<Answer>& answer) {
    if (!answer) FAIL(answer.error().message);
    const auto* const held = std::get_if<Held>(&*answer);
    return held != nullptr && held->status.only_paused();
  }
  // The owner ids of those who hold a lock.
  std::vector<std::string> holders() {
    const auto listing = desk->list({});
    if (!listing) FAIL(listing.error().message);
    std::vector<std::string> owners;
    for (const auto& lock : listing->locks) owners.push_back(lock.owner);
    return owners;
  }
  // Waits until some session stands before a lock that another one has.
  void await_lock_wait() {
    REQUIRE(test::wait_until([&] {
      return t.database().number("SELECT variable_value FROM " + test::status_table() +
                                 " WHERE variable_name='Innodb_row_lock_current_waits'") > 0;
    }));
  }
};

LeaseRequest request_for_all(const std::vector<std::string>& keys, const std::string& owner) {
  auto request = request_for(keys.front(), owner);
  for (std::size_t i = 1; i < keys.size(); ++i) request.further_keys.push_back(*Key::parse(keys[i]));
  return request;
}

std::vector<LeaseRequest> every_kind() {
  return {request_for("k", "o"), request_for("k", "o", {Mode::shared, 1}),
          request_for("k", "o", {Mode::slot, 2}), request_for_all({"k", "l"}, "o")};
}

}  // namespace

TEST_CASE(
    "mariadb: a grant that does not see the pause is refused by the lock's row, and the other way round") {
  PausedServer s;
  for (const auto& request : every_kind()) {
    CAPTURE(to_string(request.sharing.mode), request.further_keys.size());
    REQUIRE(s.store->try_acquire(request));
    REQUIRE(s.store->release(ref_to(request), Actor::holder, {}));
    REQUIRE(s.pause({"k", true}));
    // As a statement sees it whose snapshot is older than the pause.
    s.t.database().sql("DELETE FROM dblock_pause");
    CHECK(PausedServer::refused(s.store->try_acquire(request)));
    REQUIRE(s.pause({"k", true}));
    // As a lock's row that was added after the pause: its first grant reads the pauses.
    s.t.database().sql("UPDATE dblock_lock SET paused_until=NULL,token=0");
    CHECK(PausedServer::refused(s.store->try_acquire(request)));
    // A look at a lock without a row tells of no pause: the grant alone refuses.
    s.t.delete_row("k");
    CHECK(PausedServer::refused(s.store->try_acquire(request)));
    REQUIRE(s.desk->resume({"k", true}));
    s.t.delete_row("k");
  }
}

TEST_CASE(
    "mariadb: a grant that waits for its row while the pause comes is refused, or done before the pause "
    "returns",
    "[safety]") {
  PausedServer s;
  for (const auto& request : every_kind()) {
    CAPTURE(to_string(request.sharing.mode), request.further_keys.size());
    REQUIRE(s.store->try_acquire(request));
    REQUIRE(s.store->release(ref_to(request), Actor::holder, {}));
    test::Connection blocker(s.t.database().server(), "root", s.t.database().name());
    blocker.sql("BEGIN");
    blocker.sql("SELECT * FROM dblock_lock WHERE lock_key='k' FOR UPDATE");
    auto grant = std::async(std::launch::async, [&] { return s.store->try_acquire(request); });
    s.await_lock_wait();
    auto pause = std::async(std::launch::async, [&] { return s.pause({"k", false}); });
    REQUIRE(
        test::wait_until([&] { return s.t.database().number("SELECT COUNT(*) FROM dblock_pause") == 1; }));
    // The pause has not returned while the row may still be granted.
    CHECK(pause.wait_for(100ms) == std::future_status::timeout);
    blocker.sql_in_session("COMMIT");
    REQUIRE(pause.get());
    const bool listed = !s.holders().empty();
    const auto answer = grant.get();
    CHECK(listed == (answer && std::holds_alternative<Granted>(*answer)));
    CHECK(listed != PausedServer::refused(answer));
    REQUIRE(s.desk->resume({"k", false}));
    s.t.delete_row("k");
  }
}

TEST_CASE("mariadb: a pause waits for a grant that has changed the row, and shows its holder afterwards") {
  PausedServer s;
  REQUIRE(s.store->try_acquire(request_for("k", "o")));
  REQUIRE(s.store->release(ref_to(request_for("k", "o")), Actor::holder, {}));
  test::Connection other(s.t.database().server(), "root", s.t.database().name());
  other.sql("BEGIN");
  other.sql_in_session(
      "UPDATE dblock_lock SET lock_value='late',lock_count=1,expire_time=UTC_TIMESTAMP(6)+INTERVAL 1 HOUR "
      "WHERE lock_key='k'");
  auto pause = std::async(std::launch::async, [&] { return s.pause({"", true}); });
  s.await_lock_wait();
  CHECK(pause.wait_for(100ms) == std::future_status::timeout);
  other.sql_in_session("COMMIT");
  REQUIRE(pause.get());
  CHECK(s.holders() == std::vector<std::string>{"late"});
}

TEST_CASE("mariadb: of several keys one whose row is added while the grant waits for another is paused too") {
  PausedServer s;
  REQUIRE(s.store->try_acquire(request_for("b", "o")));
  REQUIRE(s.store->release(ref_to(request_for("b", "o")), Actor::holder, {}));
  REQUIRE(s.store->try_acquire(request_for("a", "o")));
  REQUIRE(s.store->release(ref_to(request_for("a", "o")), Actor::holder, {}));
  test::Connection blocker(s.t.database().server(), "root", s.t.database().name());
  blocker.sql(
      "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");  // no lock on the gap where "c" will be
  blocker.sql("BEGIN");
  blocker.sql("SELECT * FROM dblock_lock WHERE lock_key='b' FOR UPDATE");
  // Has read row "a", and with it the pauses; waits for "b"; comes to "c" in the end.
  auto grant = std::async(std::launch::async, [&] {
    return s.store->try_acquire(request_for_all({"a", "b", "c"}, "o"));
  });
  s.await_lock_wait();
  REQUIRE(s.pause({"c", true}));
  CHECK(PausedServer::refused(s.t.open()->try_acquire(request_for("c", "other"))));  // adds the row
  blocker.sql_in_session("COMMIT");
  CHECK(PausedServer::refused(grant.get()));
}

TEST_CASE("mariadb: a pause is written into every row that it covers, in batches") {
  PausedServer s;
  auto& database = s.t.database();
  database.sql(
      "INSERT INTO dblock_lock "
      "(lock_key,create_time,update_time,token,version,lock_count,kind,ttl_us,margin_us,"
      "holder_host,holder_pid,holder_user,holder_command,holder_note) SELECT "
      "CONCAT('p',seq),UTC_TIMESTAMP(6),"
      "UTC_TIMESTAMP(6),1,1,0,'run',1,1,'',0,'','','' FROM " +
      test::numbers(1, 450));
  database.sql("UPDATE dblock_lock SET lock_key='q' WHERE lock_key='p1'");
  const auto marked = [&] {
    return database.number(
        "SELECT COUNT(*) FROM dblock_lock WHERE paused_until=(SELECT end_time FROM dblock_pause)");
  };
  REQUIRE(s.pause({"p", true}));
  CHECK(marked() == 449);
  CHECK(database.number("SELECT COUNT(*) FROM dblock_lock WHERE paused_until IS NULL") == 1);
  REQUIRE(s.pause({"", true}));
  CHECK(database.number("SELECT COUNT(*) FROM dblock_lock WHERE paused_until IS NULL") == 0);
  REQUIRE(s.desk->resume({"", true}));
  CHECK(marked() == 449);
  REQUIRE(s.desk->resume({"p", true}));
  // It leaves the time of its end: the locks are free since then.
  CHECK(database.number("SELECT COUNT(*) FROM dblock_lock WHERE paused_until<=UTC_TIMESTAMP(6)") == 450);
}

TEST_CASE("mariadb: an application is refused by a pause, which it is told in the place of a holder") {
  PausedServer s;
  auto& database = s.t.database();
  const auto call = [&] {
    return database.sql("CALL dblock_acquire('k','app-1',60000,NULL,60000,'')").front();
  };
  const bool known = GENERATE(true, false);
  if (known) {
    CHECK(call().front() == "granted");
    database.sql("CALL dblock_release('k','app-1')");
  }
  REQUIRE(s.desk->pause({{"k", true}, Micros{1h}, "op@desk", "new\x1b[2J\u202edisks"}));
  const auto refused = call();
  CHECK(refused[0] == "held");
  CHECK(refused[3].starts_with("paused until 2"));
  CHECK(refused[3].ends_with("Z by op@desk: new?[2J?disks"));
  CHECK(std::stoll(refused[2]) > 3'500'000);
  REQUIRE(s.desk->resume({"k", true}));
  CHECK(call().front() == "granted");
  // A repeat of the same owner finds its own grant, paused or not.
  REQUIRE(s.pause({"k", true}));
  CHECK(call().front() == "granted");
  CHECK(database.sql("CALL dblock_renew('k','app-1',NULL)").front().front() == "renewed");
}

}  // namespace dblock::contract
