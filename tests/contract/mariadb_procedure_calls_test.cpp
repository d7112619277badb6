// What applications get from the procedures: whom a call grants a lock, whom it refuses, and what it leaves
// of the session that makes it.
#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "contract/application.hpp"
#include "contract/mariadb_store.hpp"
#include "contract/store_fixture.hpp"
#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/server_kind.hpp"

namespace dblock::contract {
namespace {

using test::says;
using test::Server;
using test::SqlError;

// Locks, an application that calls the procedures, and dblock beside it.
struct Called {
  explicit Called(const test::ServerAddress& server = test::shared_server()) : under_test(server) {}

  // All of the row but `version`, to tell whether a call has changed it.
  std::string row(const std::string& key, int slot = 0) {
    const auto rows = database.sql(
        "SELECT lock_value,create_time,update_time,expire_time,token,lock_count,kind,mode,ttl_us,margin_us,"
        "revoke_time,arrived_at,holder_host,holder_user,holder_note,last_outcome FROM dblock_lock" +
        under_test.where(key) + " AND slot=" + std::to_string(slot));
    std::string all;
    for (const auto& cell : rows.at(0)) all += cell + "|";
    return all;
  }
  void expire(const std::string& key) { under_test.age(key, 2min, false); }
  // The owner ids of the places that count in the line of the lock, in their order; "NULL": none.
  std::string line(const std::string& key = "k") {
    return value("SELECT GROUP_CONCAT(owner_id ORDER BY arrival,owner_id) FROM dblock_waiter" +
                 under_test.where(key) + " AND seen_until>UTC_TIMESTAMP(6)");
  }
  // Time passes in the line, but not for the lock.
  void age_places(Micros by) {
    const std::string earlier = "-INTERVAL " + std::to_string(by.count()) + " MICROSECOND";
    database.sql("UPDATE dblock_waiter SET arrival=arrival" + earlier + ",seen_until=seen_until" + earlier);
  }
  // The free lock has just been released, however slow this machine is; or that long ago.
  void set_free_for(const std::string& key, Micros time = -1h) {
    database.sql("UPDATE dblock_lock SET update_time=UTC_TIMESTAMP(6)-INTERVAL " +
                 std::to_string(time.count()) + " MICROSECOND" + under_test.where(key) + " AND slot=0");
  }
  // Releases the lock of an application, and nobody takes long to ask for it then.
  void hand_over(const std::string& key, const std::string& owner) {
    CHECK(application.release(key, owner).outcome == "released");
    set_free_for(key);
  }
  // A run that waits, with a place for an hour.
  LeaseRequest waiting(LeaseRequest request) {
    const auto arrival = store->stand_in_line(request, 1h, true);
    if (!arrival) FAIL(arrival.error().message);
    request.arrival = *arrival;
    return request;
  }
  [[nodiscard]] Application new_session() { return {database, user}; }
  std::string value(const std::string& sql) { return database.value(sql); }

  MariadbUnderTest under_test;
  test::ServerDatabase& database = under_test.database();
  const std::string user = database.application_account();
  std::unique_ptr<LockBook> store = under_test.open();
  Application application{database, user};
  Application other{database, user};
};

// The patience of an application that waits, for all of a case.
const AcquireArguments k_waits{.patience_ms = "3600000"};

// A caller for whom others come first: nobody has the lock.
bool comes_later(const ProcedureAnswer& answer) {
  return answer == ProcedureAnswer{"held", "NULL", "NULL", "NULL"};
}

// The procedures' own refusal of a call; empty where there is none.
std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const SqlError& refused) {
    return refused.sqlstate + " " + refused.what();
  }
  return {};
}
std::string refusal_of(Application& application, const std::string& call) {
  return refusal_of([&] { static_cast<void>(application.call(call)); });
}
// Of a call under a time limit.
std::string refusal_within(const std::string& seconds, Application& application, const std::string& call) {
  return refusal_of([&] {
    application.session().sql_in_session("SET STATEMENT max_statement_time=" + seconds + " FOR CALL " + call);
  });
}

const std::vector<std::string>& calls_that_write() {
  static const std::vector<std::string> all{"dblock_acquire('k','me',60000,NULL,NULL,NULL)",
                                            "dblock_renew('k','me',NULL)", "dblock_release('k','me')"};
  return all;
}

// The session's settings, but for those that each statement changes, and the clock.
std::map<std::string, std::string> settings_of(test::Connection& session) {
  static const std::vector<std::string> k_changing{
      "timestamp",         "last_insert_id",   "identity",      "insert_id",   "rand_seed1",
      "rand_seed2",        "error_count",      "warning_count", "last_gtid",   "gtid_binlog_pos",
      "gtid_binlog_state", "gtid_current_pos", "gtid_executed", "statement_id"};
  std::map<std::string, std::string> settings;
  for (const auto& row : session.sql_in_session("SHOW SESSION VARIABLES")) {
    if (std::ranges::find(k_changing, row.at(0)) == k_changing.end()) settings[row.at(0)] = row.at(1);
  }
  return settings;
}

std::string change_of(const std::map<std::string, std::string>& before,
                      const std::map<std::string, std::string>& after) {
  std::string changes;
  for (const auto& [name, value] : before) {
    const auto now = after.find(name);
    if (now == after.end() || now->second != value)
      changes += name + ": " + value + " -> " + (now == after.end() ? "?" : now->second) + "\n";
  }
  return changes;
}

std::uint64_t number_of(const std::string& token) {
  return std::stoull(token);
}

// Threads that begin together, each with a store and an application's session of its own. In each round of
// each thread `turn(number of the thread, store, application, owner id of the round)` is called.
template <typename Turn>
void race(Called& t, int racers, int rounds, const Turn& turn) {
  std::atomic<int> ready{0};
  std::vector<std::jthread> threads;
  for (int number = 0; number < racers; ++number) {
    threads.emplace_back([&, number] {
      const auto store = t.under_test.open();
      Application application = t.new_session();
      ++ready;
      while (ready < racers) std::this_thread::yield();
      for (int round = 0; round < rounds; ++round)
        turn(number, *store, application, std::to_string(number) + "-" + std::to_string(round));
    });
  }
}

}  // namespace

TEST_CASE(
    "mariadb procedures: a repeat under one owner id is told the same token, in any session, and grants "
    "nothing",
    "[safety]") {
  Called t;
  const auto first = t.application.acquire("k", "me", {.margin_ms = "1000", .note = "'first'"});
  CHECK(first.outcome == "granted");
  CHECK(first.remaining_ms == "60000");
  CHECK(first.holder == "me");
  t.under_test.age("k", 20s, false);
  const std::string before = t.row("k");
  for (auto* const session : {&t.application, &t.other}) {
    // Nor does it lengthen the lease, or change what the row says.
    const auto again = session->acquire("k", "me", {"120000", "60000", "NULL", "'again'"});
    CHECK(again.outcome == "granted");
    CHECK(again.token == first.token);
    CHECK(std::stoll(again.remaining_ms) <= 40000);
    CHECK(std::stoll(again.remaining_ms) > 10000);
    CHECK(t.row("k") == before);
    const auto refused = session->acquire("k", "another");
    CHECK(refused.outcome == "held");
    CHECK(refused.token == "NULL");
    CHECK(refused.holder == "me");
    CHECK(std::stoll(refused.remaining_ms) > 10000);
  }
  CHECK(t.row("k") == before);
  CHECK(t.other.release("k", "me").outcome == "released");
  const auto next = t.application.acquire("k", "me");
  CHECK(next.outcome == "granted");
  CHECK(number_of(next.token) > number_of(first.token));
}

TEST_CASE("mariadb procedures: a repeat while others wait for the lock is still told its token", "[safety]") {
  Called t;
  const auto first = t.application.acquire("k", "me");
  t.waiting(asks("k", "run"));
  CHECK(t.other.acquire("k", "another", k_waits).outcome == "held");
  CHECK(t.application.acquire("k", "me").token == first.token);
  CHECK(t.application.acquire("k", "me", k_waits).token == first.token);
  CHECK(t.line() == "run,another");
  CHECK(t.application.renew("k", "me").outcome == "renewed");
}

TEST_CASE(
    "mariadb procedures: an expired lease is in everybody's way for its margin, its own holder's too, and "
    "then "
    "gone",
    "[safety]") {
  Called t;
  const auto first = t.application.acquire("k", "me");
  t.under_test.age("k", 65s, false);
  const std::string before = t.row("k");
  for (const auto* const owner : {"me", "another"}) {
    const auto refused = t.application.acquire("k", owner);
    CHECK(refused.outcome == "held");
    CHECK(refused.holder == "me");
    CHECK(refused.remaining_ms == "0");
  }
  CHECK(t.application.renew("k", "me").outcome == "lost");
  CHECK(t.application.release("k", "me").outcome == "lost");
  CHECK(t.row("k") == before);
  t.under_test.age("k", 5s, false);
  // An owner id that is used again has a lease of its own, under a token of its own.
  const std::string next_owner = GENERATE("me", "another");
  CAPTURE(next_owner);
  const auto next = t.application.acquire("k", next_owner);
  CHECK(next.outcome == "granted");
  CHECK(number_of(next.token) > number_of(first.token));
  CHECK(t.value("SELECT last_outcome FROM dblock_lock") == "abandoned");
}

TEST_CASE("mariadb procedures: a renewal lasts for the lease's own TTL from now, and tells the token",
          "[safety]") {
  Called t;
  const auto granted = t.application.acquire("k", "web@shop", {"30000", "0"});
  t.under_test.age("k", 20s, false);
  const auto renewed = t.other.renew("k", "web@shop");
  CHECK(renewed == ProcedureAnswer{"renewed", granted.token, "30000", "web@shop"});
  CHECK(t.value("SELECT expire_time=update_time+INTERVAL 30 SECOND FROM dblock_lock") == "1");
}

TEST_CASE(
    "mariadb procedures: a renewal with a TTL lengthens the lease, never shortens it, and holds for the next "
    "renewals",
    "[safety]") {
  Called t;
  const auto granted = t.application.acquire("k", "me", {"30000", "0"});
  const auto terms = [&] {
    return t.value(
        "SELECT CONCAT_WS(' ',ttl_us DIV 1000,expire_time=update_time+INTERVAL ttl_us MICROSECOND,"
        "heartbeat_us DIV 1000) FROM dblock_lock");
  };
  CHECK(t.other.renew("k", "me", "120000") == ProcedureAnswer{"renewed", granted.token, "120000", "me"});
  CHECK(terms() == "120000 1 40000");
  CHECK(t.other.renew("k", "me").remaining_ms == "120000");
  // The answer is the time that is left, as far as the client may count on it.
  const auto expires = t.value("SELECT expire_time FROM dblock_lock");
  const auto shorter = t.other.renew("k", "me", "1000");
  CHECK(shorter.outcome == "renewed");
  CHECK(std::stoll(shorter.remaining_ms) > 60000);
  CHECK(std::stoll(shorter.remaining_ms) <= 120000);
  CHECK(t.value("SELECT expire_time FROM dblock_lock") == expires);
  CHECK(t.other.renew("k", "me").outcome == "renewed");
  CHECK(t.value("SELECT expire_time FROM dblock_lock") == expires);
  t.under_test.age("k", 119500ms, false);
  CHECK(t.other.renew("k", "me").remaining_ms == "1000");
  CHECK(terms() == "1000 1 40000");

  const std::string before = t.row("k");
  for (const auto* const ttl : {"999", "0", "-1000", "2592000001", "9223372036854775807"}) {
    CAPTURE(ttl);
    CHECK(says(refusal_of([&] { t.application.renew("k", "me", ttl); }), "45000 dblock: the TTL must be"));
  }
  for (const auto* const ttl : {"9223372036854775808", "'long'"})
    CHECK(refusal_of([&] { t.application.renew("k", "me", ttl); }) != "");
  CHECK(t.row("k") == before);
  CHECK(t.application.renew("k", "me", "2592000000").remaining_ms == "2592000000");
}

TEST_CASE(
    "mariadb procedures: what is not an application's own running lease is neither renewed nor released",
    "[safety]") {
  Called t;
  t.application.acquire("another's", "another");
  t.application.acquire("expired", "me");
  t.under_test.age("expired", 65s, false);
  grant(*t.store, asks("run", "me"));
  grant(*t.store, asks("acquire", "me", Kind::acquire));
  grant(*t.store, reads("reader", "me"));
  t.application.acquire("free", "me");
  CHECK(t.application.release("free", "me").outcome == "released");
  for (const std::string key : {"another's", "expired", "run", "acquire", "reader", "free"}) {
    CAPTURE(key);
    const std::string before = t.row(key);
    const auto version = [&] {
      return t.value("SELECT SUM(version) FROM dblock_lock" + t.under_test.where(key));
    };
    const auto version_before = version();
    for (const auto* const owner : {"me", "ME", "me ", "m%", "nobody"}) {
      const auto renewed = t.application.renew(key, owner);
      CHECK(t.application.renew(key, owner, "600000").outcome == "lost");
      const auto released = t.application.release(key, owner);
      CHECK(renewed.outcome == "lost");
      CHECK(released.outcome == "lost");
      // Else it would be another's.
      const bool own =
          std::string_view(owner) == "me" && (key == "expired" || key == "run" || key == "acquire");
      CHECK((renewed.token != "NULL") == own);
      // A reader's name is in another row than the lock's own.
      CHECK((renewed.holder == "NULL") == (key == "free" || key == "reader"));
      CHECK(released.token == renewed.token);
      CHECK(released.holder == renewed.holder);
    }
    CHECK(t.row(key) == before);
    CHECK(version() == version_before);
  }
  CHECK(t.application.renew("no such lock", "me") == ProcedureAnswer{"lost", "NULL", "NULL", "NULL"});
  CHECK(t.application.release("no such lock", "me") == ProcedureAnswer{"lost", "NULL", "NULL", "NULL"});
  CHECK(t.value("SELECT COUNT(*) FROM dblock_lock WHERE lock_key='no such lock'") == "0");
}

TEST_CASE("mariadb procedures: a lease that dblock revokes is not renewed, runs on, and may be released",
          "[safety]") {
  Called t;
  const auto granted = t.application.acquire("k", "me");
  REQUIRE(t.store->revoke(key("k"), {number_of(granted.token)}, "op@desk"));
  const std::string before = t.row("k");
  const auto lost = t.application.renew("k", "me");
  CHECK(lost.outcome == "lost");
  CHECK(lost.holder == "me");
  // A repeat is no way around it.
  CHECK(t.application.acquire("k", "me").outcome == "held");
  CHECK(t.other.acquire("k", "another").outcome == "held");
  CHECK(t.row("k") == before);
  CHECK(t.application.release("k", "me").outcome == "released");
  CHECK(number_of(t.other.acquire("k", "another").token) > number_of(granted.token));
}

TEST_CASE("mariadb procedures: dblock frees an application's lease by force once two renewals are missing") {
  Called t;
  const Token token{number_of(t.application.acquire("k", "me").token)};
  const auto free = [&] {
    auto outcome = t.store->free_now(key("k"), token);
    if (!outcome) FAIL(outcome.error().message);
    return std::holds_alternative<Revoked>(*outcome);
  };
  t.under_test.age("k", 39s, false);  // renewed every 20 s, a third of the TTL
  CHECK_FALSE(free());
  const bool longer = GENERATE(false, true);
  CAPTURE(longer);
  if (longer) {
    CHECK(t.application.renew("k", "me", "180000").outcome == "renewed");
    t.under_test.age("k", 118s, false);
    CHECK_FALSE(free());
  }
  t.under_test.age("k", 2s, false);
  CHECK(free());
  CHECK(t.application.renew("k", "me").outcome == "lost");
  CHECK(t.application.release("k", "me").outcome == "lost");
}

TEST_CASE(
    "mariadb procedures: runs and applications race for a lock without an overlap, and their tokens "
    "increase",
    "[safety]") {
  Called t;
  std::atomic<int> holders{0}, overlaps{0}, by_applications{0}, by_runs{0};
  std::mutex inside;
  std::vector<std::uint64_t> tokens;
  std::string error;
  const auto hold = [&](std::uint64_t token) {
    if (++holders != 1) ++overlaps;
    {
      const std::lock_guard lock(inside);
      tokens.push_back(token);
    }
    std::this_thread::yield();
    --holders;
  };
  const auto fails = [&](const std::string& what) {
    const std::lock_guard lock(inside);
    error = what;
  };
  const auto run = [&](LockBook& store, const std::string& owner) {
    const auto outcome = store.try_acquire(asks("k", owner));
    if (!outcome) return fails(outcome.error().message);
    if (!std::holds_alternative<Granted>(*outcome)) return;
    const auto& lease = std::get<Granted>(*outcome).lease;
    hold(lease.token.value);
    ++by_runs;
    const auto done = store.release(ref_to(lease), Actor::holder, {});
    if (!done || !std::holds_alternative<Released>(*done)) fails("a run's release");
  };
  const auto apply = [&](Application& application, const std::string& owner) {
    // Its place has ended before another comes to wait for it, and it does not come back.
    const auto granted = application.acquire("k", owner, {.patience_ms = "1"});
    if (granted.outcome != "granted") return;
    if (application.acquire("k", owner).token != granted.token) fails("another token for a repeat");
    hold(number_of(granted.token));
    ++by_applications;
    ProcedureAnswer done;
    do done = application.release("k", owner);
    while (done.outcome == "busy");
    if (done.outcome != "released") fails("an application's release: " + done.outcome);
  };
  race(t, 16, 30, [&](int number, LockBook& store, Application& application, const std::string& owner) {
    try {
      number % 2 == 0 ? run(store, owner) : apply(application, owner);
    } catch (const std::exception& thrown) {
      fails(thrown.what());
    }
  });
  CHECK(error == "");
  CHECK(overlaps == 0);
  CHECK(by_runs > 0);
  CHECK(by_applications > 0);
  CHECK(std::ranges::adjacent_find(tokens, std::greater_equal{}) == tokens.end());
}

TEST_CASE("mariadb procedures: a call is refused in an open transaction, which goes on as it was",
          "[safety]") {
  Called t;
  t.application.acquire("k", "me");
  t.database.sql("CREATE TABLE effect (n INT PRIMARY KEY)");
  t.database.sql("GRANT SELECT,INSERT ON effect TO " + t.user);
  auto session = t.new_session();
  struct Opened {
    std::string by, end, undo, why;
  };
  const auto [by, end, undo, why] = GENERATE(
      Opened{"BEGIN", "COMMIT", "ROLLBACK", "a transaction is open"},
      Opened{"START TRANSACTION WITH CONSISTENT SNAPSHOT", "COMMIT", "ROLLBACK", "a transaction is open"},
      Opened{"SET autocommit=0", "COMMIT", "ROLLBACK", "autocommit is off"},
      Opened{"XA START 'x'", "XA END 'x'; XA COMMIT 'x' ONE PHASE", "XA END 'x'; XA ROLLBACK 'x'",
             "a transaction is open"});
  CAPTURE(by);
  const auto statements = [&](const std::string& all) {
    for (std::size_t from = 0; from < all.size();) {
      const auto to = std::min(all.find("; ", from), all.size());
      session.session().sql(all.substr(from, to - from));
      from = to + 2;
    }
  };
  const std::string before = t.row("k");
  if (by == "SET autocommit=0") {
    // Also where no statement has begun the transaction yet.
    auto fresh = t.new_session();
    fresh.session().sql(by);
    for (const auto& call : calls_that_write()) CHECK(says(refusal_of(fresh, call), why));
    fresh.session().sql("ROLLBACK");
    CHECK(t.row("k") == before);
  }
  int n = 0;
  for (const bool keep : {true, false}) {
    CAPTURE(keep);
    statements(by);
    session.session().sql("INSERT INTO effect VALUES (" + std::to_string(++n) + ")");
    const auto settings = settings_of(session.session());
    for (const auto& call : calls_that_write()) {
      const auto refused = refusal_of(session, call);
      CHECK(says(refused, "45000"));
      CHECK(says(refused, why));
    }
    CHECK(change_of(settings, settings_of(session.session())) == "");
    CHECK(t.value("SELECT COUNT(*) FROM effect WHERE n=" + std::to_string(n)) == "0");  // not committed by it
    statements(keep ? end : undo);
    CHECK(t.value("SELECT COUNT(*) FROM effect WHERE n=" + std::to_string(n)) == (keep ? "1" : "0"));
  }
  CHECK(t.row("k") == before);
}

TEST_CASE("mariadb procedures: neither a trigger nor a function takes, renews or releases a lock",
          "[safety]") {
  Called t;
  t.application.acquire("k", "me");
  t.database.sql("CREATE TABLE written (n INT)");
  const std::string before = t.row("k");
  // The server's own refusal ("feature not supported"): there it runs no dynamic SQL, and an answer has
  // nowhere to go.
  const auto has_no_place = [](const std::string& refusal) {
    INFO(refusal);
    CHECK(refusal.starts_with("0A000 "));
  };
  for (const auto& call : calls_that_write()) {
    CAPTURE(call);
    has_no_place(refusal_of([&] {
      t.database.sql("CREATE TRIGGER calls BEFORE INSERT ON written FOR EACH ROW CALL " + call);
      t.database.sql("INSERT INTO written VALUES (1)");
    }));
    t.database.sql("DROP TRIGGER IF EXISTS calls");
    has_no_place(refusal_of([&] {
      t.database.sql("CREATE FUNCTION calls() RETURNS INT BEGIN CALL " + call + "; RETURN 1; END");
      t.database.sql("SELECT calls()");
    }));
    t.database.sql("DROP FUNCTION IF EXISTS calls");
  }
  CHECK(t.value("SELECT COUNT(*) FROM written") == "0");
  CHECK(t.row("k") == before);
}

TEST_CASE(
    "mariadb procedures: no setting of the calling session decides anything, and each is as it was "
    "afterwards",
    "[safety]") {
  Called t;
  std::vector<std::string> all{"SET @nothing=1",
                               "SET timestamp=1",
                               "SET timestamp=UNIX_TIMESTAMP()+100000",
                               "SET time_zone='+13:00'",
                               "SET completion_type='CHAIN'",
                               "SET completion_type='RELEASE'",
                               "SET SESSION TRANSACTION READ ONLY",
                               "SET TRANSACTION READ ONLY",
                               "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
                               "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
                               "SET sql_safe_updates=1",
                               "SET sql_select_limit=0",
                               "SET sql_auto_is_null=1",
                               "SET unique_checks=0",
                               "SET foreign_key_checks=0",
                               "SET lc_time_names='ja_JP'",
                               "SET innodb_lock_wait_timeout=50",
                               "SET lock_wait_timeout=100",
                               "SET div_precision_increment=0",
                               "SET group_concat_max_len=4",
                               "SET collation_connection='utf8mb4_general_ci'",
                               "SET NAMES latin1",
                               "SET NAMES koi8r",
                               "SET NAMES binary",
                               "SET max_sort_length=64",
                               "SET big_tables=1",
                               "SET old_passwords=0",
                               "SET sql_quote_show_create=0",
                               test::mysql_run() ? "SET max_execution_time=1" : "SET max_statement_time=5",
                               test::mysql_run() ? "SET explicit_defaults_for_timestamp=1"
                                                 : "SET system_versioning_alter_history=KEEP"};
  for (const auto* const mode :
       {"", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "SIMULTANEOUS_ASSIGNMENT", "PAD_CHAR_TO_FULL_LENGTH",
        "PIPES_AS_CONCAT,IGNORE_SPACE,HIGH_NOT_PRECEDENCE,NO_UNSIGNED_SUBTRACTION",
        "ORACLE,EMPTY_STRING_IS_NULL", "NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,TRADITIONAL",
        "TIME_ROUND_FRACTIONAL"})
    all.push_back("SET sql_mode='" + test::known_sql_modes(mode) + "'");
  int number = 0;
  int tried = 0;
  for (const auto& setting : all) {
    CAPTURE(setting);
    auto session = t.new_session();
    const std::string key = "k" + std::to_string(++number);
    if (!refusal_of([&] { session.session().sql(setting); }).empty()) continue;  // another server's
    ++tried;
    const auto before = settings_of(session.session());
    const auto now = [&] {
      return std::stoll(t.value("SELECT TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))"));
    };
    const auto began = now();
    const auto granted = session.acquire(key, "me");
    CHECK(granted.outcome == "granted");
    CHECK(static_cast<long long>(number_of(granted.token)) >= began);
    CHECK(static_cast<long long>(number_of(granted.token)) <= now());
    CHECK(t.value("SELECT ABS(TIMESTAMPDIFF(SECOND,UTC_TIMESTAMP(6),expire_time)-60)<30 FROM dblock_lock" +
                  t.under_test.where(key)) == "1");
    CHECK(t.other.acquire(key, "another").outcome == "held");
    CHECK(session.acquire(key, "another").outcome == "held");
    CHECK(session.acquire(key, "waiter", k_waits).outcome == "held");
    CHECK(t.value("SELECT seen_until=arrival+INTERVAL 1 HOUR FROM dblock_waiter" + t.under_test.where(key)) ==
          "1");
    CHECK(session.acquire(key, "me").token == granted.token);
    CHECK(session.renew(key, "me").outcome == "renewed");
    CHECK(session.renew(key, "me", "90000").remaining_ms == "90000");
    CHECK(session.renew(key, "another").outcome == "lost");
    CHECK(says(refusal_of(session, "dblock_renew('','me',NULL)"), "must not be empty"));
    CHECK(session.release(key, "me").outcome == "released");
    t.set_free_for(key);
    CHECK(comes_later(session.acquire(key, "another")));
    CHECK(session.acquire(key, "waiter", k_waits).outcome == "granted");
    CHECK(session.release(key, "waiter").outcome == "released");
    CHECK(t.value("SELECT COUNT(*) FROM dblock_waiter") == "0");
    CHECK(t.value("SELECT COUNT(lock_value) FROM dblock_lock") == "0");
    // And by another call than all of these, a lock that was shared.
    const auto slot = grant(*t.store, takes_slot(key + "s", "slot", 2));
    CHECK(session.acquire(key + "s", "me").outcome == "held");
    REQUIRE(t.store->release(ref_to(slot), Actor::holder, {}));
    CHECK(session.acquire(key + "s", "me").outcome == "granted");
    CHECK(change_of(before, settings_of(session.session())) == "");
    CHECK(session.release(key + "s", "me").outcome == "released");
  }
  CHECK(tried > 30);
}

TEST_CASE("mariadb procedures: the same key is the same lock, whatever the character set of the session",
          "[safety]") {
  Called t;
  const auto granted =
      t.application.call("dblock_acquire('h\xc3\xa9','\xc3\xa9',60000,NULL,NULL,'\xc3\xa9')");
  CHECK(granted.outcome == "granted");
  struct Spelling {
    std::string set, key, owner;
  };
  for (const auto& [set, key, owner] : {Spelling{"SET NAMES latin1", "'h\xe9'", "'\xe9'"},
                                        Spelling{"SET NAMES utf8mb3", "'h\xc3\xa9'", "'\xc3\xa9'"},
                                        Spelling{"SET NAMES binary", "'h\xc3\xa9'", "'\xc3\xa9'"},
                                        Spelling{"SET NAMES koi8r", "_utf8mb4 x'68c3a9'", "_latin1 x'e9'"},
                                        Spelling{"SET NAMES cp850", "'h\x82'", "'\x82'"},
                                        Spelling{"SET NAMES utf8mb4", "_utf16 x'006800e9'", "x'c3a9'"}}) {
    CAPTURE(set);
    auto session = t.new_session();
    session.session().sql(set);
    CHECK(session.call("dblock_acquire(" + key + ",'another',60000,NULL,NULL,NULL)").outcome == "held");
    CHECK(session.call("dblock_acquire(" + key + "," + owner + ",60000,NULL,NULL,NULL)").token ==
          granted.token);
    CHECK(session.call("dblock_renew(" + key + "," + owner + ",NULL)").outcome == "renewed");
    session.session().sql_in_session("START TRANSACTION");
    CHECK(session.call("dblock_assert_held(" + key + "," + granted.token + ")").outcome == "held");
  }
  CHECK(t.value("SELECT GROUP_CONCAT(HEX(lock_key),' ',HEX(lock_value)) FROM dblock_lock") == "68C3A9 C3A9");
  CHECK(t.value("SELECT HEX(holder_note) FROM dblock_lock") == "C3A9");
  // Keys that only a collation would take for one.
  for (const auto* const other : {"'H\xc3\xa9'", "'he'", "'h\xc3\xa9 '", "'he\xcc\x81'", "' h\xc3\xa9'"})
    CHECK(t.application.call("dblock_acquire(" + std::string(other) + ",'x',60000,NULL,NULL,NULL)").outcome ==
          "granted");
}

// As from a session that sends UTF-8 and calls it latin1, and from a client that encodes its text twice.
TEST_CASE(
    "mariadb procedures: a key that is UTF-8 read as latin1 is refused, and so is no other key beyond ASCII",
    "[safety]") {
  Called t;
  auto mislabelled = t.new_session();
  mislabelled.session().sql("SET NAMES latin1");
  const auto calls_with = [](const std::string& key) {
    return std::vector<std::string>{"dblock_acquire(" + key + ",'me',60000,NULL,NULL,NULL)",
                                    "dblock_renew(" + key + ",'me',NULL)", "dblock_release(" + key + ",'me')",
                                    "dblock_assert_held(" + key + ",1)"};
  };
  const auto check_refused = [&](Application& session, const std::string& key) {
    CAPTURE(key);
    for (const auto& call : calls_with(key)) {
      const auto refused = refusal_of(session, call);
      CHECK(says(refused, "45000 dblock: "));
      CHECK(says(refused, "SET NAMES utf8mb4"));
    }
  };
  for (const auto* const key : {"b\xc3\xbcro", "\xc3\x9f", "\xc5\x81\xc3\xb3\x64\xc5\xba",
                                "d-\xf0\x9f\x9a\x80", "\xe5\xa4\x9c\xe9\x96\x93"})
    check_refused(mislabelled, "'" + std::string(key) + "'");
  check_refused(mislabelled, "REPEAT('\xc3\xbc',127)");
  check_refused(t.application, "'b\xc3\x83\xc2\xbcro'");
  check_refused(t.application, "'Stra\xc3\x83\xc2\x9f\x65'");  // by a latin1 that is no cp1252
  for (int late = 0x80; late <= 0xbf; ++late)
    CHECK(says(
        refusal_of(mislabelled, std::string("dblock_release('\xc3") + static_cast<char>(late) + "','me')"),
        "SET NAMES utf8mb4"));
  CHECK(t.value("SELECT COUNT(*) FROM dblock_lock") == "0");

  const auto granted = mislabelled.call("dblock_acquire('b\xfcro','me',60000,NULL,NULL,NULL)");
  CHECK(granted.outcome == "granted");
  CHECK(t.application.call("dblock_acquire('b\xc3\xbcro','me',60000,NULL,NULL,NULL)").token == granted.token);
  for (const auto* const key : {"\xc3\x87 \xc3\xa9t\xc3\xa9", "S\xc3\xa3o", "\xc3\x9cn\xc3\xaf",
                                "\xe2\x82\xac", "\xf0\x9f\x9a\x80", "\xc3\x83\xc2\xbc\xe5\xa4\x9c"})
    CHECK(
        t.application.call("dblock_acquire('" + std::string(key) + "','me',60000,NULL,NULL,NULL)").outcome ==
        "granted");
}

TEST_CASE(
    "mariadb procedures: values that are too long, malformed or out of bounds are refused, and nothing is "
    "cut to "
    "fit",
    "[safety]") {
  Called t;
  const std::string e = "_utf8mb4 x'c3a9'";
  struct Try {
    std::string arguments, why;   // empty: granted
    bool only_if_strict = false;  // else the server has replaced malformed bytes before the procedure begins
  };
  const auto rest = [](const std::string& ttl = "60000", const std::string& margin = "NULL",
                       const std::string& patience = "NULL") {
    return "," + ttl + "," + margin + "," + patience + ",NULL";
  };
  const std::vector<Try> tries{
      {"REPEAT('a',255),'me'" + rest(), ""},
      {"REPEAT('a',256),'me'" + rest(), "at most 255 bytes"},
      {"REPEAT(" + e + ",127),'me'" + rest(), ""},
      {"REPEAT(" + e + ",128),'me'" + rest(), "at most 255 bytes"},
      {"REPEAT(" + e + ",300),'me'" + rest(), "at most 255 bytes"},
      {"REPEAT('a',2000),'me'" + rest(), " "},
      {"REPEAT('a',100000),'me'" + rest(), " "},
      {"'owner',REPEAT('o',255)" + rest(), ""},
      {"'o1',REPEAT('o',256)" + rest(), "at most 255 bytes"},
      {"'o1',REPEAT(" + e + ",300)" + rest(), "at most 255 bytes"},
      {"'o1',REPEAT('o',5000)" + rest(), " "},
      {"NULL,'me'" + rest(), "the key must not be empty"},
      {"'','me'" + rest(), "the key must not be empty"},
      {"'o1',NULL" + rest(), "the owner id must not be empty"},
      {"'o1',''" + rest(), "the owner id must not be empty"},
      {"x'ff','me'" + rest(), " ", true},
      {"x'6fff','me'" + rest(), " ", true},
      {"x'6fc3','me'" + rest(), " ", true},
      {"x'6feda0bd','me'" + rest(), " ", true},
      {"'o1',x'6dff'" + rest(), " ", true},
      {"x'00','me'" + rest(), "control characters"},
      {"x'6f311f','me'" + rest(), "control characters"},
      {"x'6f310a','me'" + rest(), "control characters"},
      {"x'7f','me'" + rest(), "control characters"},
      {"x'c285','me'" + rest(), "control characters"},
      {"'o1',x'6d00'" + rest(), "control characters"},
      {"'o1',x'c29f6d'" + rest(), "control characters"},
      {"x'c3a02f','me'" + rest(), ""},  // bytes that look like one
      {"'t1','me'" + rest("999"), "the TTL must be"},
      {"'t2','me'" + rest("1000"), ""},
      {"'t3','me'" + rest("2592000000"), ""},
      {"'t1','me'" + rest("2592000001"), "the TTL must be"},
      {"'t1','me'" + rest("-1000"), "the TTL must be"},
      {"'t1','me'" + rest("NULL"), "the TTL must be"},
      {"'t1','me'" + rest("9223372036854775807"), "the TTL must be"},
      {"'t1','me'" + rest("9223372036854775808"), " "},
      {"'t1','me'" + rest("'many'"), " "},
      {"'t4','me'" + rest("60000", "0"), ""},
      {"'t5','me'" + rest("60000", "60000"), ""},
      {"'t1','me'" + rest("60000", "60001"), "the margin must be"},
      {"'t1','me'" + rest("60000", "-1"), "the margin must be"},
      {"'w1','me'" + rest("60000", "NULL", "0"), ""},
      {"'w2','me'" + rest("60000", "NULL", "3600000"), ""},
      {"'t1','me'" + rest("60000", "NULL", "3600001"), "the patience must be"},
      {"'t1','me'" + rest("60000", "NULL", "-1"), "the patience must be"},
      {"'t1','me'" + rest("60000", "NULL", "9223372036854775807"), "the patience must be"},
      {"'t1','me'" + rest("60000", "NULL", "9223372036854775808"), " "},
  };
  for (const auto* const mode : {"", "STRICT_ALL_TABLES"}) {
    auto session = t.new_session();
    session.session().sql("SET sql_mode='" + std::string(mode) + "'");
    for (const auto& [arguments, why, only_if_strict] : tries) {
      if (only_if_strict && mode[0] == '\0') continue;
      CAPTURE(mode, arguments);
      const auto refused = refusal_of(session, "dblock_acquire(" + arguments + ")");
      if (why.empty())
        CHECK(refused == "");
      else
        CHECK(says(refused, why));
    }
  }
  // Nothing but what was granted has a row.
  CHECK(t.value("SELECT COUNT(*) FROM dblock_lock") == "10");
  CHECK(t.value("SELECT COUNT(*) FROM dblock_waiter") == "0");
  CHECK(
      t.value("SELECT GROUP_CONCAT(margin_us ORDER BY lock_key) FROM dblock_lock WHERE lock_key LIKE 't%'") ==
      "100000,3000000,0,60000000");
}

TEST_CASE("mariadb procedures: a note is cut to what its column holds, and names become holders for people") {
  Called t;
  t.application.acquire("long", "me", {.note = "REPEAT(_utf8mb4 x'f09f9492',1500)"});
  CHECK(t.value("SELECT CHAR_LENGTH(holder_note) FROM dblock_lock WHERE lock_key='long'") == "1000");
  struct Name {
    std::string owner, user, host, shown;
  };
  const std::string random = "0123456789abcdef0123456789ABCDEF";
  const std::string uuid = "01234567-89ab-cdef-0123-456789abcdef";
  for (const auto& [owner, user, host, shown] :
       {Name{"web@shop-1:" + random, "web", "shop-1", "web@shop-1"}, Name{uuid, "", uuid, uuid},
        Name{"billing/" + uuid, "", "billing", "billing"}, Name{"a@b@c-" + uuid, "a", "b@c", "a@b@c"},
        Name{"@host", "", "host", "host"}, Name{"user@", "", "user@", "user@"},
        Name{"plain", "", "plain", "plain"}}) {
    CAPTURE(owner);
    const auto answer = t.application.acquire(owner, owner, {.note = "'of ' '\"me\"'"});
    CHECK(answer.holder == shown);
    CHECK(t.other.acquire(owner, "another").holder == shown);
    const auto row = row_of(*t.store, key(owner));
    REQUIRE((row && *row));
    CHECK((*row)->kind == Kind::sql);
    CHECK((*row)->owner == owner);
    CHECK((*row)->holder.user == user);
    CHECK((*row)->holder.host == host);
    CHECK((*row)->holder.pid == 0);
    CHECK((*row)->holder.note == "of \"me\"");
    CHECK((*row)->holder.command.starts_with("connection "));
    CHECK((*row)->heartbeat == Micros{20s});
    CHECK(display_holder((*row)->holder) == shown);
  }
}

TEST_CASE(
    "mariadb procedures: a read-only server grants nothing, although the procedures' owner may write there",
    "[safety]") {
  const Server own;
  Called t(own.address());
  // As if root had migrated.
  for (const std::string name : {"dblock_acquire", "dblock_renew", "dblock_release", "dblock_assert_held"}) {
    auto definition = t.database.sql("SHOW CREATE PROCEDURE " + name).at(0).at(2);
    const auto from = definition.find("DEFINER="), to = definition.find(" PROCEDURE");
    definition.replace(from, to - from, "DEFINER=root@'%'");
    t.database.sql("DROP PROCEDURE " + name);
    t.database.sql(definition);
    t.database.sql("GRANT EXECUTE ON PROCEDURE " + name + " TO " + t.user);
  }
  const auto granted = t.application.acquire("k", "me");
  CHECK(granted.outcome == "granted");
  t.application.session().sql("SET SESSION TRANSACTION READ ONLY");
  const auto settings = settings_of(t.application.session());
  t.database.sql("SET GLOBAL read_only=1");
  const std::string before = t.row("k");
  const std::string free = "dblock_acquire('free','me',60000,NULL,NULL,NULL)";
  for (auto calls = calls_that_write(); const auto& call : (calls.push_back(free), calls)) {
    CAPTURE(call);
    CHECK(says(refusal_of(t.application, call), "25006 dblock: this server is read-only"));
  }
  t.application.session().sql_in_session("START TRANSACTION");
  const std::string assertion = "dblock_assert_held('k'," + granted.token + ")";
  CHECK(says(refusal_of(t.application, assertion), "25006 dblock: this server is read-only"));
  t.application.session().sql_in_session("ROLLBACK");
  CHECK(t.row("k") == before);
  CHECK(t.value("SELECT COUNT(*) FROM dblock_lock") == "1");
  t.database.sql("SET GLOBAL read_only=0");
  t.database.sql("CREATE TABLE effect (n INT)");
  t.database.sql("GRANT INSERT ON effect TO " + t.user);
  // The session's next transaction writes no more than before, whether the call was refused or served.
  const auto reads_only = [&] {
    t.application.session().sql_in_session("START TRANSACTION");
    const auto refused =
        refusal_of([&] { t.application.session().sql_in_session("INSERT INTO effect VALUES (1)"); });
    t.application.session().sql_in_session("ROLLBACK");
    return says(refused, "READ ONLY");
  };
  CHECK(reads_only());
  CHECK(change_of(settings, settings_of(t.application.session())) == "");
  CHECK(t.application.renew("k", "me").outcome == "renewed");
  CHECK(reads_only());
  CHECK(t.application.release("k", "me").outcome == "released");
  CHECK(reads_only());
}

// Each wait takes two seconds, so all are under way at once.
TEST_CASE(
    "mariadb procedures: a call that would have to wait is told so after two seconds, and its session is as "
    "before") {
  Called t;
  Called locked;  // tables of its own, which are locked
  struct Wait {
    std::string call;
    std::string end;   // what ends the wait
    std::string then;  // what the call is told afterwards
    test::Connection holder;
  };
  const auto root = [&](Called& of) {
    return test::Connection(of.database.server(), "root", of.database.name());
  };
  std::vector<std::pair<Called*, Wait>> waits;
  const auto wait = [&](Called& of, std::string call, std::string then,
                        const std::vector<std::string>& begin) {
    waits.emplace_back(&of, Wait{std::move(call), "COMMIT", std::move(then), root(of)});
    for (const auto& statement : begin) waits.back().second.holder.sql(statement);
  };
  const auto row_lock = [&](const std::string& key) {
    return std::vector<std::string>{
        "BEGIN", "SELECT 1 FROM dblock_lock" + t.under_test.where(key) + " AND slot=0 FOR UPDATE"};
  };
  for (const auto* const key : {"free", "renewed", "released", "repeated"}) t.application.acquire(key, "me");
  t.application.release("free", "me");
  wait(t, "dblock_acquire('free','me',60000,NULL,NULL,NULL)", "granted", row_lock("free"));
  wait(t, "dblock_renew('renewed','me',NULL)", "renewed", row_lock("renewed"));
  wait(t, "dblock_release('released','me')", "released", row_lock("released"));
  wait(t, "dblock_acquire('repeated','me',60000,NULL,NULL,NULL)", "granted", row_lock("repeated"));
  wait(t, "dblock_acquire('new','me',60000,NULL,NULL,NULL)", "granted",
       {"BEGIN", "INSERT INTO dblock_fence VALUES ('new',0,0,0)",
        "INSERT INTO dblock_lock (lock_key,create_time,"
        "update_time,token,version,lock_count,kind,ttl_us,margin_us,holder_host,holder_pid,holder_user,"
        "holder_command,holder_note) VALUES "
        "('new',UTC_TIMESTAMP(6),UTC_TIMESTAMP(6),0,0,0,'run',0,0,'',0,'','','')"});
  // A place before the locked one: what looks at another lock's line reads up to the next row.
  for (const auto* const owner : {"holder", "first", "me"}) t.application.acquire("lined", owner, k_waits);
  wait(t, "dblock_acquire('lined','me',60000,NULL,60000,NULL)", "held",
       {"BEGIN",
        "SELECT 1 FROM dblock_waiter" + t.under_test.where("lined") + " AND owner_id='me' FOR UPDATE"});
  wait(locked, "dblock_acquire('k','me',60000,NULL,NULL,NULL)", "granted", {"LOCK TABLES dblock_lock WRITE"});
  waits.back().second.end = "UNLOCK TABLES";
  // Transactions of holders whose leases have ended.
  const auto asserting = [&](const std::string& key, std::uint64_t token) {
    return std::vector<std::string>{"BEGIN",
                                    "CALL dblock_assert_held('" + key + "'," + std::to_string(token) + ")"};
  };
  wait(t, "dblock_acquire('fenced','another',60000,NULL,NULL,NULL)", "granted",
       asserting("fenced", number_of(t.application.acquire("fenced", "me").token)));
  t.expire("fenced");
  const auto slot = grant(*t.store, takes_slot("slots", "slot", 2));
  grant(*t.store, takes_slot("slots", "slot-2", 2));
  wait(t, "dblock_acquire('slots','me',60000,NULL,NULL,NULL)", "granted",
       asserting("slots", slot.token.value));
  t.expire("slots");

  std::vector<std::future<std::string>> told;
  for (auto& [of, one] : waits) {
    told.push_back(std::async(std::launch::async, [of = of, call = one.call] {
      auto session = of->new_session();
      for (const auto* const set : {"SET innodb_lock_wait_timeout=50", "SET lock_wait_timeout=100",
                                    "SET SESSION TRANSACTION READ ONLY", "SET completion_type='CHAIN'",
                                    "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE"})
        session.session().sql(set);
      const auto before = settings_of(session.session());
      const auto began = BootClock::now();
      const auto answer = session.call(call);
      const auto took = BootClock::now() - began;
      if (answer != ProcedureAnswer{"busy", "NULL", "NULL", "NULL"}) return call + ": " + answer.outcome;
      if (took < 1s || took > 25s) return call + " took another time than 2 s";
      return change_of(before, settings_of(session.session()));
    }));
  }
  for (std::size_t i = 0; i < told.size(); ++i) {
    CAPTURE(waits[i].second.call);
    CHECK(told[i].get() == "");
  }
  for (auto& [of, one] : waits) {
    CAPTURE(one.call);
    one.holder.sql(one.end);
    CHECK(of->application.call(one.call).outcome == one.then);
  }
}

TEST_CASE(
    "mariadb procedures: a call that is cut short while it waits has done nothing, and keeps no row locked",
    "[safety]") {
  Called t;
  t.application.acquire("k", "me");
  t.application.release("k", "me");
  const auto slot = grant(*t.store, takes_slot("slots", "slot", 2));
  test::Connection holder(t.database.server(), "root", t.database.name());
  holder.sql("BEGIN");
  holder.sql("CALL dblock_assert_held('slots'," + std::to_string(slot.token.value) + ")");
  holder.sql("SELECT 1 FROM dblock_lock" + t.under_test.where("k") + " AND slot=0 FOR UPDATE");
  t.expire("slots");
  struct Cut {
    std::string by, limit;
  };
  std::vector<Cut> cuts{{"KILL QUERY ", ""}, {"KILL ", ""}};
  if (!test::mysql_run()) cuts.push_back({"", "SET STATEMENT max_statement_time=1 FOR "});
  for (const auto& [by, limit] : cuts) {
    for (const auto& [key, waits_in] :
         {std::pair<std::string, std::string>{"k", "UPDATE dblock_lock AS lease"},
          {"slots", "UPDATE dblock_fence"}}) {
      CAPTURE(by, limit, key);
      auto session = t.new_session();
      const auto id = session.session().value("SELECT CONNECTION_ID()");
      const auto before = settings_of(session.session());
      const auto row = t.row(key);
      auto told = std::async(std::launch::async, [&session, call = limit + "CALL dblock_acquire('" + key +
                                                                   "','me',60000,NULL,NULL,NULL)"] {
        return refusal_of([&] { session.session().sql_in_session(call); });
      });
      if (!by.empty()) {
        REQUIRE(test::wait_until([&] {
          return t.database.number("SELECT COUNT(*) FROM information_schema.processlist WHERE id=" + id +
                                   " AND info LIKE '" + waits_in + "%'") == 1;
        }));
        t.database.sql(by + id);
      }
      CHECK(told.get() != "");
      CHECK(t.row(key) == row);
      CHECK(refusal_of([&] {
              t.database.sql("SELECT 1 FROM dblock_lock WHERE lock_key='slots' FOR UPDATE NOWAIT");
            }) == "");
      if (by == "KILL ") continue;
      // A server that is past its time limit runs no handler, and MySQL none in any call that is killed: then
      // the session keeps what the procedure has set.
      if (!test::mysql_run() && limit.empty()) CHECK(change_of(before, settings_of(session.session())) == "");
      CHECK(says(refusal_of(session, "dblock_renew('k','me',NULL)"), "08S01"));
      auto next = t.new_session();
      CHECK(refusal_of(next, "dblock_renew('k','me',NULL)") == "");
    }
  }
}

TEST_CASE(
    "mariadb procedures: a slot that is granted while an application waits for a past holder's transaction "
    "keeps "
    "the application out",
    "[safety]") {
  Called t;
  const auto past = grant(*t.store, takes_slot("k", "past", 2));
  REQUIRE(t.store->release(ref_to(grant(*t.store, takes_slot("k", "past, too", 2))), Actor::holder, {}));
  // Its holder is gone again, but not its cooldown.
  const bool cools_down = GENERATE(false, true);
  CAPTURE(cools_down);
  auto slot = takes_slot("k", "between", 2);
  if (cools_down) slot.promises.min_hold = 1h;
  for (;;) {
    test::Connection transaction(t.database.server(), "root", t.database.name());
    transaction.sql("BEGIN");
    transaction.sql("CALL dblock_assert_held('k'," + std::to_string(past.token.value) + ")");
    t.expire("k");
    const auto id = t.application.session().value("SELECT CONNECTION_ID()");
    auto told = std::async(std::launch::async, [&] { return t.application.acquire("k", "me"); });
    REQUIRE(test::wait_until([&] {
      return t.database.number("SELECT COUNT(*) FROM information_schema.processlist WHERE id=" + id +
                               " AND info LIKE 'UPDATE dblock_fence%'") == 1;
    }));
    const auto between = grant(*t.store, slot);
    const auto released = [&] { return t.store->release(ref_to(between), Actor::holder, {}).has_value(); };
    if (cools_down) REQUIRE(released());
    transaction.sql("COMMIT");
    const auto answer = told.get();
    if (answer.outcome == "busy") {  // this machine was too slow for its two seconds
      if (!cools_down) REQUIRE(released());
      t.database.sql("UPDATE dblock_lock SET hold_until=NULL");
      continue;
    }
    CHECK(answer.outcome == "held");
    if (cools_down) break;
    CHECK(answer.holder == "user@host:4711");
    CHECK(t.application.assert_held("k", std::to_string(between.token.value)).outcome == "held");
    CHECK(renewed(*t.store->renew(ref_to(between), Actor::holder, std::nullopt)));
    break;
  }
}

// Waiters and renewals write to the row of a lock. With innodb_snapshot_isolation, which is on since MariaDB
// 11.6, a statement that has read another table before it waits for that row fails.
TEST_CASE("mariadb procedures: a call that waits for a write to the lock's row does not answer busy") {
  Called t;
  test::Connection writer(t.database.server(), "root", t.database.name());
  const auto id = t.application.session().value("SELECT CONNECTION_ID()");
  const auto row = t.under_test.where("k") + " AND slot=0";
  t.application.acquire("k", "me");
  for (const std::string call : {"dblock_renew('k','me',NULL)", "dblock_release('k','me')",
                                 "dblock_acquire('k','me',60000,NULL,NULL,NULL)"}) {
    CAPTURE(call);
    std::string outcome;
    Nanos took{0};
    do {  // again, if this machine was too slow for the two seconds of a call
      writer.sql("BEGIN");
      writer.sql("UPDATE dblock_lock SET version=version+1" + row);
      const auto began = BootClock::now();
      auto told = std::async(std::launch::async, [&] { return t.application.call(call).outcome; });
      REQUIRE(test::wait_until([&] {
        return t.database.number("SELECT COUNT(*) FROM information_schema.processlist WHERE id=" + id +
                                 " AND info LIKE 'UPDATE dblock_lock%'") == 1;
      }));
      writer.sql("COMMIT");
      outcome = told.get();
      took = BootClock::now() - began;
    } while (outcome == "busy" && took > 2s);
    CHECK(outcome == (call.starts_with("dblock_renew")     ? "renewed"
                      : call.starts_with("dblock_release") ? "released"
                                                           : "granted"));
  }
}

TEST_CASE("mariadb procedures: readers and applications race for a lock without an overlap", "[safety]") {
  Called t;
  std::atomic<int> readers{0}, writers{0}, overlaps{0}, reads_done{0}, writes_done{0};
  const auto read = [&](LockBook& store, const std::string& owner) {
    const auto outcome = store.try_acquire(reads("k", owner));
    if (!outcome || !std::holds_alternative<Granted>(*outcome)) return;
    ++readers;
    if (writers > 0) ++overlaps;
    std::this_thread::yield();
    --readers;
    ++reads_done;
    static_cast<void>(store.release(ref_to(std::get<Granted>(*outcome).lease), Actor::holder, {}));
  };
  const auto write = [&](Application& application, const std::string& owner) {
    while (application.acquire("k", owner).outcome != "granted") {
      if (writes_done > 0) return;  // before, it asks until the readers are done
    }
    if (++writers > 1 || readers > 0) ++overlaps;
    std::this_thread::yield();
    --writers;
    ++writes_done;
    while (application.release("k", owner).outcome == "busy") continue;
  };
  race(t, 12, 25, [&](int number, LockBook& store, Application& application, const std::string& owner) {
    number % 3 == 0 ? write(application, owner) : read(store, owner);
  });
  CHECK(overlaps == 0);
  CHECK(reads_done > 0);
  CHECK(writes_done > 0);
}

// A limit that passes between two statements of the procedure lets no handler of it run. Which limit does so
// is chance.
TEST_CASE("mariadb procedures: a time limit at any moment leaves no transaction open, and nothing granted",
          "[mariadb][safety]") {
  Called t;
  grant(*t.store, takes_slot("kept", "slot", 2));
  std::optional<Application> session;
  int cut = 0;
  const auto call = [&](const std::string& key, int number, const std::string& patience = "NULL") {
    if (!session) session.emplace(t.database, t.user).session().open_if_new();
    const auto seconds = std::to_string((1 + number % 100) * 0.00005);
    const auto refusal = refusal_within(
        seconds, *session, "dblock_acquire('" + key + "','me',60000,NULL," + patience + ",NULL)");
    CAPTURE(key, seconds, refusal);
    REQUIRE(session->session().sql_in_session("SELECT @@in_transaction").at(0).at(0) == "0");
    if (refusal.empty()) return true;
    ++cut;
    session.reset();  // a session is refused from then on
    return false;
  };
  for (int number = 0; number < 1500; ++number) call("kept", number, number % 2 == 0 ? "NULL" : "1000");
  CHECK(t.value("SELECT GROUP_CONCAT(lock_value) FROM dblock_lock") == "slot");
  for (int number = 0; number < 200; ++number) {
    const auto slot = grant(*t.store, takes_slot("abandoned", "slot", 2));
    t.expire("abandoned");
    const bool granted = call("abandoned", number);
    // Whatever was done of it, the next call does the rest, under a greater token.
    const auto next = t.application.acquire("abandoned", granted ? "me" : "next");
    const bool unknown = next.outcome == "held";  // by the call that was cut after the grant
    CHECK((next.outcome == "granted" || (unknown && next.holder == "me")));
    const auto token = t.value("SELECT token FROM dblock_lock WHERE lock_key='abandoned' AND slot=0");
    CHECK(number_of(token) > slot.token.value);
    CAPTURE(granted, next.outcome, number);
    CHECK(t.value("SELECT GROUP_CONCAT(slot, lock_value) FROM dblock_lock WHERE lock_key='abandoned'") ==
          (granted || unknown ? "0me" : "0next"));
    CHECK(t.value("SELECT SUM(token) FROM dblock_fence WHERE lock_key='abandoned' AND slot>0") == "0");
    CHECK_FALSE(renewed(*t.store->renew(ref_to(slot), Actor::holder, std::nullopt)));
    for (const auto* const owner : {"me", "next"}) t.application.release("abandoned", owner);
  }
  CHECK(cut > 0);
}

TEST_CASE("mariadb procedures: an assertion under a time limit says held only where it keeps the fence",
          "[mariadb][safety]") {
  Called t;
  const auto lease = grant(*t.store, asks("k", "holder"));
  std::optional<Application> session;
  int cut = 0;
  for (int number = 0; number < 1500; ++number) {
    if (!session) session.emplace(t.database, t.user).session().open_if_new();
    const auto seconds = std::to_string((1 + number % 50) * 0.00005);
    session->session().sql_in_session("START TRANSACTION");
    const auto refusal = refusal_within(seconds, *session,
                                        "dblock_assert_held('k'," + std::to_string(lease.token.value) + ")");
    CAPTURE(number, seconds, refusal);
    if (refusal.empty()) {
      CHECK(refusal_of([&] {
              t.database.sql("SELECT 1 FROM dblock_fence WHERE lock_key='k' FOR UPDATE NOWAIT");
            }) != "");
      session->session().sql_in_session("ROLLBACK");
    } else {
      ++cut;
      session.reset();
    }
  }
  CHECK(cut > 0);
}

TEST_CASE("mariadb procedures: a missing fence or row is put back, and tokens go on increasing", "[safety]") {
  Called t;
  auto last = number_of(t.application.acquire("k", "me").token);
  const std::string missing = GENERATE("dblock_fence", "dblock_lock", "both");
  CAPTURE(missing);
  for (int i = 0; i < 2; ++i) {
    if (missing != "dblock_lock") t.application.release("k", "me");
    for (const std::string table : {"dblock_fence", "dblock_lock"})
      if (missing == "both" || missing == table) t.database.sql("DELETE FROM " + table);
    const auto granted = t.application.acquire("k", "me");
    CHECK(granted.outcome == "granted");
    CHECK(number_of(granted.token) > last);
    last = number_of(granted.token);
    CHECK(t.application.assert_held("k", granted.token).outcome == "held");
    CHECK(t.value("SELECT lease.token=fence.token FROM dblock_lock AS lease JOIN dblock_fence AS fence "
                  "USING (lock_key,slot)") == "1");
  }
}

TEST_CASE(
    "mariadb procedures: readers and slot holders keep an application out until the last of them is gone",
    "[safety]") {
  Called t;
  const bool slots = GENERATE(false, true);
  CAPTURE(slots);
  const auto beside = [&](const std::string& owner) {
    return slots ? takes_slot("k", owner, 2) : reads("k", owner);
  };
  t.under_test.keep_history(true);
  const auto first = grant(*t.store, beside("first"));
  auto longer = beside("second");
  longer.terms.ttl = 10min;
  longer.holder.user = "longer";
  const auto second = grant(*t.store, longer);
  const auto refused = t.application.acquire("k", "me");
  CHECK(refused.outcome == "held");
  CHECK(refused.holder == "longer@host:4711");
  CHECK(std::stoll(refused.remaining_ms) > 500000);
  CHECK(t.application.renew("k", "first").outcome == "lost");
  CHECK(t.application.release("k", "first").outcome == "lost");
  REQUIRE(t.store->release(ref_to(first), Actor::holder, {RunOutcome::failed, 3}));
  CHECK(t.application.acquire("k", "me").outcome == "held");
  // The last one is abandoned: in its margin it still counts.
  t.under_test.age("k", 605s, false);
  CHECK(t.application.acquire("k", "me").holder == "longer@host:4711");
  t.under_test.age("k", 5s, false);
  const auto granted = t.application.acquire("k", "me");
  CHECK(granted.outcome == "granted");
  CHECK(number_of(granted.token) > second.token.value);
  // Of the two the first ended last.
  CHECK(t.value("SELECT CONCAT(mode,slots,last_outcome,last_exit_code) FROM dblock_lock WHERE slot=0") ==
        "exclusive1failed3");
  CHECK(t.value("SELECT COUNT(*) FROM dblock_lock WHERE slot>0 AND lock_value IS NOT NULL") == "0");
  CHECK_FALSE(renewed(*t.store->renew(ref_to(second), Actor::holder, std::nullopt)));
  CHECK(says(refusal_of([&] { t.application.assert_held("k", std::to_string(second.token.value)); }),
             "granted again"));
  CHECK(t.value("SELECT GROUP_CONCAT(lock_value,outcome) FROM dblock_history WHERE lock_value='second'") ==
        "secondabandoned");
  CHECK(t.application.release("k", "me").outcome == "released");
  grant(*t.store, beside("next"));
}

TEST_CASE(
    "mariadb procedures: each lease of an application that ends is in the history once, and a lost history "
    "harms no "
    "release") {
  Called t;
  const auto recorded = [&] {
    return t.value(
        "SELECT GROUP_CONCAT(lock_key,'/',kind,'/',mode,'/',outcome,'/',lock_value,'/',holder_note,'/',"
        "acquired_at<=released_at ORDER BY token SEPARATOR ' ') FROM dblock_history");
  };
  CHECK(t.application.acquire("before", "me").outcome == "granted");
  CHECK(t.application.release("before", "me").outcome == "released");
  t.under_test.keep_history(true);
  CHECK(t.application.acquire("k", "me", {.note = "'why'"}).outcome == "granted");
  CHECK(t.application.release("k", "me").outcome == "released");
  CHECK(t.application.release("k", "me").outcome == "lost");
  t.application.acquire("expired", "me");
  t.expire("expired");
  CHECK(t.application.release("expired", "me").outcome == "lost");
  CHECK(recorded() == "k/sql/exclusive/released/me/why/1");
  CHECK(t.value("SELECT GROUP_CONCAT(last_outcome) FROM dblock_lock WHERE lock_key='k'") == "released");
  t.database.sql("DROP TABLE dblock_history");
  CHECK(t.application.acquire("k", "me").outcome == "granted");
  CHECK(t.application.release("k", "me").outcome == "released");
  CHECK(t.value("SELECT COUNT(lock_value) FROM dblock_lock WHERE lock_key='k'") == "0");
}

TEST_CASE(
    "mariadb procedures: locks are those of the procedures' database, whichever database the session is in",
    "[safety]") {
  Called t;
  test::ServerDatabase elsewhere(t.database.server(), test::Database::Schema::none);
  elsewhere.sql("GRANT SELECT ON " + elsewhere.name() + ".* TO " + t.user);
  elsewhere.sql("CREATE TABLE dblock_lock (lock_key INT)");
  for (const std::string& name : {elsewhere.name(), std::string()}) {
    CAPTURE(name);
    test::Connection session(t.database.server(), t.user, name);
    const std::string call = "CALL " + t.database.name() + ".dblock_";
    const auto granted = session.sql(call + "acquire('k','me',60000,NULL,NULL,NULL)").at(0);
    CHECK(granted.at(0) == "granted");
    CHECK(t.other.acquire("k", "another").outcome == "held");
    session.sql("START TRANSACTION");
    CHECK(session.sql(call + "assert_held('k'," + granted.at(1) + ")").at(0).at(0) == "held");
    session.sql("COMMIT");
    CHECK(session.sql(call + "renew('k','me',NULL)").at(0).at(0) == "renewed");
    CHECK(session.sql(call + "release('k','me')").at(0).at(0) == "released");
  }
}

TEST_CASE("mariadb procedures: by the binary protocol a prepared call returns the same row") {
  Called t;
  auto& session = t.application.session();
  session.open_if_new();
  const auto prepared = [&](const std::string& call, const std::vector<std::optional<std::string>>& values) {
    const auto rows = session.sql_prepared("CALL " + call, values);
    REQUIRE(rows.size() == 1);
    return rows.front();
  };
  const auto granted = prepared("dblock_acquire(?,?,?,?,?,?)",
                                {"k\xc3\xa9", "me@here", "60000", std::nullopt, "60000", "note"});
  CHECK(granted == test::Row{"granted", granted.at(1), "60000", "me@here"});
  CHECK(prepared("dblock_acquire(?,?,?,?,?,?)",
                 {"k\xc3\xa9", "me@here", "60000", std::nullopt, "60000", "note"})
            .at(1) == granted.at(1));
  session.sql_in_session("START TRANSACTION");
  CHECK(prepared("dblock_assert_held(?,?)", {"k\xc3\xa9", granted.at(1)}).at(1) == granted.at(1));
  session.sql_in_session("COMMIT");
  CHECK(prepared("dblock_renew(?,?,?)", {"k\xc3\xa9", "me@here", std::nullopt}) ==
        test::Row{"renewed", granted.at(1), "60000", "me@here"});
  CHECK(prepared("dblock_release(?,?)", {"k\xc3\xa9", "me@here"}) ==
        test::Row{"released", granted.at(1), "NULL", "NULL"});
  CHECK(says(refusal_of([&] { prepared("dblock_renew(?,?,?)", {std::nullopt, "me", "60000"}); }), "45000"));
}

TEST_CASE(
    "mariadb procedures: dblock_assert_held tells token, time and holder of the lease, of a run's as well") {
  Called t;
  const auto granted = t.application.acquire("k", "web@shop");
  const auto held = t.application.assert_held("k", granted.token);
  CHECK(held.outcome == "held");
  CHECK(held.token == granted.token);
  CHECK(held.holder == "web@shop");
  CHECK(std::stoll(held.remaining_ms) <= 60000);
  CHECK(std::stoll(held.remaining_ms) > 30000);
  const auto run = grant(*t.store, asks("run", "run"));
  CHECK(t.application.assert_held("run", std::to_string(run.token.value)).holder == "user@host:4711");
  for (const auto* const token :
       {"0", "1", "9223372036854775807", "9223372036854775808", "18446744073709551615"}) {
    CAPTURE(token);
    CHECK(says(refusal_of([&] { t.application.assert_held("k", token); }), "not held under this token"));
  }
  for (const auto* const token : {"-1", "18446744073709551616", "'x'", "NULL"}) {
    CAPTURE(token);
    CHECK(refusal_of([&] { t.application.assert_held("k", token); }) != "");
  }
  CHECK(t.application.release("k", "web@shop").outcome == "released");
  CHECK(says(refusal_of([&] { t.application.assert_held("k", granted.token); }), "released"));
}

TEST_CASE("mariadb procedures: where no greater token is left a lock is not granted", "[safety]") {
  Called t;
  t.application.acquire("k", "me");
  t.application.release("k", "me");
  const auto with_token = [&](const std::string& token) {
    t.database.sql("UPDATE dblock_lock SET token=" + token);
    t.database.sql("UPDATE dblock_fence SET token=" + token);
  };
  with_token("18014398509481982");  // the last but one that LAST_INSERT_ID() brings back
  const auto last = t.application.acquire("k", "me");
  CHECK(last.token == "18014398509481983");
  CHECK(t.application.acquire("k", "me").token == last.token);
  t.application.release("k", "me");
  // An error, too, leaves the session as it was, and fit for the next call.
  t.application.session().sql("SET innodb_lock_wait_timeout=50");
  const auto settings = settings_of(t.application.session());
  for (const char* const token : {"18014398509481983", "18446744073709551615"}) {
    with_token(token);
    const auto refusal = refusal_of([&] { t.application.acquire("k", "me"); });
    CHECK(refusal != "");
    CHECK_FALSE(says(refusal, "cut short"));
    CHECK(change_of(settings, settings_of(t.application.session())) == "");
  }
  CHECK(t.value("SELECT COUNT(lock_value) FROM dblock_lock") == "0");
}

TEST_CASE(
    "mariadb procedures: under statement-based logging the locks are the same, and no statement is called "
    "unsafe",
    "[safety]") {
  const Server own({"--log-bin", "--binlog-format=STATEMENT", "--server-id=1"});
  Called t(own.address());
  t.under_test.keep_history(true);
  auto& session = t.application.session();
  const auto warnings = [&] {
    std::string all;
    for (const auto& row : session.sql_in_session("SHOW WARNINGS")) all += row.at(2) + "\n";
    return all;
  };
  const auto granted = t.application.acquire("k", "me");
  CHECK(granted.outcome == "granted");
  CHECK(warnings() == "");
  CHECK(t.other.acquire("k", "another").outcome == "held");
  CHECK(t.application.acquire("k", "me").token == granted.token);
  CHECK(warnings() == "");
  CHECK(t.application.renew("k", "me").outcome == "renewed");
  CHECK(warnings() == "");
  CHECK(t.application.release("k", "me").outcome == "released");
  CHECK(warnings() == "");
  grant(*t.store, takes_slot("k", "slot", 2));
  CHECK(t.application.acquire("k", "me", k_waits).outcome == "held");
  CHECK(warnings() == "");
  CHECK(t.other.acquire("k", "another", k_waits).outcome == "held");
  t.expire("k");
  CHECK(t.application.acquire("k", "me", k_waits).outcome == "granted");
  CHECK(warnings() == "");
  CHECK(t.application.renew("k", "me", "90000").outcome == "renewed");
  CHECK(warnings() == "");
  CHECK(t.value("SELECT COUNT(*) FROM dblock_history") == "2");
}

TEST_CASE(
    "mariadb procedures: who is refused and has patience has a place in the line, which each repeat renews") {
  Called t;
  t.application.acquire("k", "holder");
  const std::string owner = "web@shop-1:0123456789abcdef0123456789abcdef";
  const auto waits = [&](Application& session, const std::string& patience) {
    return session.acquire("k", owner, {.patience_ms = patience});
  };
  const auto refused = waits(t.other, "30000");
  CHECK(refused.outcome == "held");
  CHECK(refused.holder == "holder");
  CHECK(t.value("SELECT CONCAT_WS(' ',owner_id,mode,slots,line,waiter_host,waiter_pid,waiter_user,"
                "seen_until=arrival+INTERVAL 30 SECOND) FROM dblock_waiter") ==
        owner + " exclusive 1 fifo shop-1 0 web 1");
  const auto listing = t.store->list({});
  REQUIRE(listing);
  const auto& waiters = listing->locks.at(0).waiters;
  REQUIRE((waiters && waiters->size() == 1));
  CHECK(waiters->front().user == "web");
  CHECK(waiters->front().host == "shop-1");
  CHECK(waiters->front().pid == 0);

  t.age_places(20s);
  const auto arrival = t.value("SELECT arrival FROM dblock_waiter");
  const auto seconds_left = [&] {
    CHECK(t.value("SELECT GROUP_CONCAT(arrival) FROM dblock_waiter") == arrival);
    CHECK(t.value("SELECT line_until>=seen_until FROM dblock_lock JOIN dblock_waiter USING (lock_key)") ==
          "1");
    return t.database.number("SELECT TIMESTAMPDIFF(SECOND,UTC_TIMESTAMP(6),seen_until) FROM dblock_waiter");
  };
  // Any session may repeat the call: the owner id makes it the same caller.
  CHECK(waits(t.application, "90000").outcome == "held");
  CHECK(seconds_left() > 60);
  CHECK(waits(t.other, "3600000").outcome == "held");
  CHECK(seconds_left() > 3570);
  CHECK(waits(t.other, "20000").outcome == "held");
  CHECK(seconds_left() < 20);
}

// Such calls come several times a second from each application that waits, and each would write the row of
// the lock's holder, too.
TEST_CASE("mariadb procedures: a repeat with the rest of the patience writes nothing") {
  Called t;
  t.application.acquire("k", "holder");
  t.other.acquire("k", "me", k_waits);
  const auto versions = [&] {
    return t.value(
        "SELECT CONCAT(dblock_lock.version,' ',dblock_waiter.version) FROM dblock_lock JOIN "
        "dblock_waiter USING (lock_key)");
  };
  const auto before = versions();
  t.age_places(600s);
  t.database.sql("UPDATE dblock_lock SET line_until=line_until-INTERVAL 600 SECOND");
  CHECK(t.other.acquire("k", "me", {.patience_ms = "3000000"}).outcome == "held");
  CHECK(versions() == before);
  // As a grant leaves it that came at the same moment as the place.
  t.database.sql("UPDATE dblock_lock SET line_until=NULL");
  CHECK(t.other.acquire("k", "me", {.patience_ms = "3000000"}).outcome == "held");
  CHECK(t.value("SELECT line_until>=seen_until FROM dblock_lock JOIN dblock_waiter USING (lock_key)") == "1");
}

TEST_CASE("mariadb procedures: who has no patience has no place, and comes after those who have one") {
  Called t;
  const auto arguments = GENERATE(AcquireArguments{}, AcquireArguments{.patience_ms = "0"});
  CAPTURE(arguments.patience_ms);
  t.application.acquire("k", "holder");
  CHECK(t.other.acquire("k", "impatient", arguments).outcome == "held");
  CHECK(t.line() == "NULL");
  CHECK(t.other.acquire("k", "patient", k_waits).outcome == "held");
  t.hand_over("k", "holder");
  CHECK(comes_later(t.other.acquire("k", "impatient", arguments)));
  CHECK(t.line() == "patient");
  CHECK(t.application.acquire("k", "patient", k_waits).outcome == "granted");
  CHECK(t.line() == "NULL");
  t.hand_over("k", "patient");
  CHECK(t.other.acquire("k", "impatient", arguments).outcome == "granted");
}

TEST_CASE("mariadb procedures: applications that wait are granted the lock in the order of their arrival") {
  Called t;
  const std::vector<std::string> order{"c", "a", "b"};
  t.application.acquire("k", "holder");
  for (const auto& owner : order) CHECK(t.other.acquire("k", owner, k_waits).outcome == "held");
  std::string last = "holder";
  for (const auto& next : order) {
    CAPTURE(next);
    t.hand_over("k", last);
    for (const auto& owner : order)
      if (owner != next && t.line().find(owner) != std::string::npos)
        CHECK(comes_later(t.other.acquire("k", owner, k_waits)));
    CHECK(comes_later(t.other.acquire("k", "new", {})));
    CHECK(t.other.acquire("k", next, k_waits).outcome == "granted");
    CHECK(t.line().find(next) == std::string::npos);
    last = next;
  }
  CHECK(t.line() == "NULL");
}

TEST_CASE("mariadb procedures: runs and applications that wait stand in one line") {
  Called t;
  const bool run_is_first = GENERATE(false, true);
  CAPTURE(run_is_first);
  t.application.acquire("k", "holder");
  const auto application_waits = [&] { return t.other.acquire("k", "me", k_waits); };
  if (!run_is_first) CHECK(application_waits().outcome == "held");
  const auto run = t.waiting(asks("k", "run"));
  CHECK(application_waits().outcome == "held");
  CHECK(t.line() == (run_is_first ? "run,me" : "me,run"));
  t.hand_over("k", "holder");
  if (run_is_first) {
    CHECK(comes_later(application_waits()));
  } else {
    CHECK(conflict(*t.store, run).status.waited_for);
    CHECK(application_waits().outcome == "granted");
    t.hand_over("k", "me");
  }
  const auto lease = grant(*t.store, run);
  t.store->hold(LeaseStore::RenewedBy::another);
  if (run_is_first) {
    CHECK(t.line() == "me");
    REQUIRE(t.store->release(ref_to(lease), Actor::holder, {}));
    t.set_free_for("k");
    CHECK(application_waits().outcome == "granted");
  }
  CHECK(t.line() == "NULL");
}

TEST_CASE("mariadb procedures: a caller that releases while it waits leaves the line, and it alone") {
  Called t;
  t.application.acquire("k", "holder");
  t.application.acquire("other lock", "holder");
  for (const auto* const owner : {"first", "second"}) t.other.acquire("k", owner, k_waits);
  t.other.acquire("other lock", "first", k_waits);
  CHECK(t.application.release("k", "nobody").outcome == "lost");
  CHECK(t.line() == "first,second");
  const auto left = t.application.release("k", "first");
  CHECK(left.outcome == "lost");
  CHECK(left.holder == "holder");
  CHECK(t.line() == "second");
  CHECK(t.line("other lock") == "first");
  CHECK(t.application.release("k", "first").outcome == "lost");
  t.hand_over("k", "holder");
  CHECK(t.line() == "second");
  CHECK(t.other.acquire("k", "second", k_waits).outcome == "granted");
}

TEST_CASE("mariadb procedures: a place ends with the patience, and so does its turn") {
  Called t;
  t.application.acquire("k", "holder");
  CHECK(t.other.acquire("k", "first", {.patience_ms = "1"}).outcome == "held");
  CHECK(t.other.acquire("k", "second", {.patience_ms = "600000"}).outcome == "held");
  CHECK(test::wait_until([&] { return t.line() == "second"; }));
  t.hand_over("k", "holder");
  CHECK(comes_later(t.other.acquire("k", "third")));
  t.age_places(10min);
  CHECK(t.line() == "NULL");
  CHECK(t.other.acquire("k", "third").outcome == "granted");
}

TEST_CASE("mariadb procedures: a lock that has been free for three seconds goes to whoever asks") {
  Called t;
  t.application.acquire("k", "holder");
  for (const auto* const owner : {"dead", "gone", "last"})
    CHECK(t.other.acquire("k", owner, k_waits).outcome == "held");
  const auto run = t.waiting(asks("k", "run"));
  t.hand_over("k", "holder");
  const std::string asker = GENERATE("last", "new");
  CAPTURE(asker);
  const auto arguments = asker == "last" ? k_waits : AcquireArguments{};
  CHECK(comes_later(t.other.acquire("k", asker, arguments)));
  t.set_free_for("k", 3s);
  CHECK(t.other.acquire("k", asker, arguments).outcome == "granted");
  // Those whom it has passed are not waited for again. One that is there after all is the last then.
  CHECK(t.line() == (asker == "last" ? "run" : "NULL"));
  if (asker == "last") {
    CHECK(t.other.acquire("k", "gone", k_waits).outcome == "held");
    CHECK(t.line() == "run,gone");
  }
  t.hand_over("k", asker);
  grant(*t.store, run);
}

TEST_CASE("mariadb procedures: whoever passes the line leaves the places of those who came after the grant") {
  Called t;
  t.application.acquire("k", "holder");
  CHECK(t.other.acquire("k", "dead", k_waits).outcome == "held");
  t.hand_over("k", "holder");
  t.set_free_for("k", 3s);
  // The grant takes a while, and somebody comes meanwhile.
  const std::string gate = "'" + t.database.name() + "'";
  test::Connection keeper(t.database.server(), "root", t.database.name());
  keeper.sql("DO GET_LOCK(" + gate + ",0)");
  t.database.sql("CREATE TRIGGER slow AFTER UPDATE ON dblock_lock FOR EACH ROW DO GET_LOCK(" + gate + ",60)");
  auto told = std::async(std::launch::async, [&] { return t.application.acquire("k", "me"); });
  REQUIRE(test::wait_until([&] {
    return t.database.number(
               "SELECT COUNT(*) FROM information_schema.processlist WHERE db=DATABASE() AND "
               "state='User lock'") == 1;
  }));
  const std::string others =
      ",seen_until,version,mode,slots,waits_elsewhere,line,waiter_host,waiter_pid,waiter_user";
  t.database.sql("INSERT INTO dblock_waiter (lock_key,owner_id,arrival" + others +
                 ") SELECT lock_key,'later',UTC_TIMESTAMP(6)" + others + " FROM dblock_waiter");
  keeper.sql("DO RELEASE_LOCK(" + gate + ")");
  CHECK(told.get().outcome == "granted");
  CHECK(t.line() == "later");
}

TEST_CASE("mariadb procedures: while an application with patience waits, no new reader comes in") {
  Called t;
  const auto reader = grant(*t.store, reads("k", "reader"));
  CHECK(t.application.acquire("k", "me").outcome == "held");
  const auto beside = grant(*t.store, reads("k", "beside"));  // it had no patience
  CHECK(t.application.acquire("k", "me", k_waits).outcome == "held");
  CHECK(t.value("SELECT mode FROM dblock_waiter") == "exclusive");
  CHECK(conflict(*t.store, reads("k", "new")).status.waited_for);
  CHECK(renewed(*t.store->renew(ref_to(reader), Actor::holder, std::nullopt)));
  for (const auto& lease : {reader, beside}) REQUIRE(t.store->release(ref_to(lease), Actor::holder, {}));
  t.set_free_for("k");
  conflict(*t.store, reads("k", "new"));
  CHECK(t.application.acquire("k", "me", k_waits).outcome == "granted");
  const auto waiting = t.waiting(reads("k", "new"));
  CHECK(t.other.acquire("k", "another", k_waits).outcome == "held");
  t.hand_over("k", "me");
  CHECK(comes_later(t.other.acquire("k", "another", k_waits)));
  grant(*t.store, waiting);
}

TEST_CASE("mariadb procedures: while an application with patience waits, no slot of two is granted anew") {
  Called t;
  const auto slot = grant(*t.store, takes_slot("k", "slot", 2));
  CHECK(t.application.acquire("k", "me", k_waits).outcome == "held");
  CHECK(conflict(*t.store, takes_slot("k", "new", 2)).status.waited_for);
  REQUIRE(t.store->release(ref_to(slot), Actor::holder, {}));
  CHECK(t.application.acquire("k", "me", k_waits).outcome == "granted");
}

// The lock's own row, which the application goes by in the end, is older than that.
TEST_CASE(
    "mariadb procedures: of a lock that readers have just left, an application takes no turn of those who "
    "wait",
    "[safety]") {
  Called t;
  const auto reader = grant(*t.store, reads("k", "reader"));
  const auto writer = t.waiting(asks("k", "writer"));
  t.under_test.age("k", 20s, false);
  const bool abandoned = GENERATE(false, true);
  CAPTURE(abandoned);
  if (abandoned)
    t.database.sql(
        "UPDATE dblock_lock SET expire_time=UTC_TIMESTAMP(6)-INTERVAL margin_us MICROSECOND "
        "WHERE lock_value='reader'");
  else
    REQUIRE(t.store->release(ref_to(reader), Actor::holder, {}));
  CHECK(comes_later(t.application.acquire("k", "me")));
  CHECK(t.value("SELECT mode FROM dblock_lock WHERE slot=0") == "exclusive");
  t.set_free_for("k", 3s);
  CHECK(t.application.acquire("k", "me").outcome == "granted");
  CHECK(t.line() == "NULL");
}

TEST_CASE("mariadb procedures: a place counts before its lock has been granted for the first time") {
  Called t;
  grant(*t.store, asks("a", "holder"));
  auto waits_for_both = asks("a", "run");
  waits_for_both.further_keys = {key("b")};
  t.waiting(waits_for_both);
  CHECK(comes_later(t.application.acquire("b", "me")));
  CHECK(comes_later(t.application.acquire("b", "me", k_waits)));
  CHECK(t.line("b") == "run,me");
  t.store->leave_line(waits_for_both);
  CHECK(t.application.acquire("b", "me", k_waits).outcome == "granted");
  CHECK(t.line("b") == "NULL");
}

TEST_CASE("mariadb procedures: a missing fence is put back where others wait, too") {
  Called t;
  t.application.acquire("k", "holder");
  t.other.acquire("k", "first", k_waits);
  t.waiting(asks("k", "run"));
  t.hand_over("k", "holder");
  t.database.sql("DELETE FROM dblock_fence");
  CHECK(comes_later(t.other.acquire("k", "new")));
  CHECK(t.other.acquire("k", "first", k_waits).outcome == "granted");
}

}  // namespace dblock::contract
