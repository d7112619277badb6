// The line on a server: who sleeps behind whom, who wakes, and what becomes of the order when sessions,
// processes or the server fail. Which request comes first is the contract's: line_suite.cpp.
#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "contract/mariadb_store.hpp"
#include "store/mariadb/sql.hpp"
#include "store/parameters.hpp"
#include "support/catch.hpp"
#include "support/config.hpp"
#include "support/proxy.hpp"

namespace dblock::contract {
namespace {

using namespace std::chrono_literals;
using namespace lease;
using test::Proxy;
using test::Server;

using Names = std::vector<std::string>;

std::chrono::milliseconds since(BootTime start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(BootClock::now() - start);
}

// The session of a request, which others can sleep behind, and which can sleep itself.
struct Request {
  Request(const std::string& url, const std::string& name)
      : own{name}, store(MariadbUnderTest::open_at(url)), wake_up(*store->wake_up()) {
    wake_up.announce(own);
    if (const auto connected = store->connect(); !connected) FAIL(connected.error().message);
  }
  Request(MariadbUnderTest& t, const std::string& name) : Request(t.database().url(), name) {}

  Slept sleep(const std::string& ahead, std::size_t before, Nanos time) {
    static const WakeEvent never;
    return wake_up.sleep_behind({ahead}, before, BootClock::now() + time, never);
  }
  // Goes to sleep behind another one, or sleeps on.
  bool sleeps(const std::string& ahead, std::size_t before = 0) {
    return sleep(ahead, before, 100ms) == Slept::not_yet;
  }
  // The sleep that is under way ends in time.
  bool wakes() { return wake_up.asleep() && sleep("", 0, test::patience()) == Slept::to_its_end; }

  OwnerId own;
  std::unique_ptr<LockBook> store;
  WakeUp& wake_up;
};

std::vector<std::unique_ptr<Request>> requests(MariadbUnderTest& t, const std::string& prefix, int count) {
  std::vector<std::unique_ptr<Request>> all;
  for (int i = 0; i < count; ++i) all.push_back(std::make_unique<Request>(t, prefix + std::to_string(i)));
  return all;
}

long long sessions(MariadbUnderTest& t) {
  return static_cast<long long>(t.database().sessions().size());
}

// The session that sleeps behind the request of this name.
std::string session_behind(MariadbUnderTest& t, const std::string& name) {
  return t.database().value(
      "SELECT id FROM information_schema.processlist WHERE state='User lock' AND db=DATABASE() AND "
      "info LIKE 'WITH RECURSIVE room%' AND LOCATE(\"" +
      store::mariadb::bytes_literal(name) + "\",info)>0");
}

// A session shows that the request of this name is there.
bool is_there(MariadbUnderTest& t, const std::string& name) {
  return t.database().value("SELECT IS_USED_LOCK(CONCAT('dblock.',LEFT(SHA2(CONCAT(DATABASE(),'/','" + name +
                            "'),256),48))) IS NOT NULL") == "1";
}

long long places(MariadbUnderTest& t) {
  return t.database().number("SELECT COUNT(*) FROM dblock_waiter");
}

std::size_t sent(const Proxy& proxy, const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(proxy.statements(), test::containing(text)));
}

constexpr const char* k_sleep = "WITH RECURSIVE room";

// A lock "k" that is held, and those who wait for it, who note their names when they have it.
struct Line {
  explicit Line(const test::ServerAddress& server = test::shared_server()) : t(server) {}

  // Returns once the new waiter has its place and sleeps.
  WaitingRun& join(const std::string& name) {
    auto& waiter = join_at(t.database().url(), name);
    const auto count = static_cast<long long>(waiters.size());
    REQUIRE(test::wait_until([&] { return t.asleep() == count; }));
    return waiter;
  }
  // Returns once the new waiter has its place.
  WaitingRun& join_at(const std::string& url, const std::string& name) {
    const auto before = places(t);
    waiters.push_back(std::make_unique<WaitingRun>(url, request_for("k", name), [this, name](const Lease&) {
      const std::lock_guard lock(mutex);
      served.push_back(name);
    }));
    REQUIRE(test::wait_until([&] { return places(t) == before + 1 && waiters.back()->place() > 0; }));
    return *waiters.back();
  }
  Names order() {
    for (const auto& waiter : waiters) CHECK(waiter->granted());
    const std::lock_guard lock(mutex);
    return served;
  }

  MariadbUnderTest t;
  HoldingRun holder{t.database().url(), request_for("k", "holder")};
  std::mutex mutex;
  Names served;
  std::vector<std::unique_ptr<WaitingRun>> waiters;
};

}  // namespace

TEST_CASE("mariadb line: a request sleeps until the one before it is there no more, however that ends") {
  enum class End { closed, killed, vanished };
  const auto end = GENERATE(End::closed, End::killed, End::vanished);
  CAPTURE(static_cast<int>(end));
  MariadbUnderTest t;
  Proxy proxy(t.database().server());
  Request ahead(proxy.url(t.database().name()), "ahead");
  const auto session = t.database().sessions().front();
  Request waiter(t, "waiter");
  REQUIRE(waiter.sleeps("ahead"));
  CHECK(waiter.sleeps("ahead"));
  CHECK(t.asleep() == 1);
  switch (end) {
    case End::closed:
      ahead.wake_up.leave();
      break;
    case End::killed:
      REQUIRE(t.database().kill_session(session));
      break;
    case End::vanished:  // as when its process ends: no goodbye
      proxy.cut_all();
      break;
  }
  CHECK(waiter.wakes());
  CHECK_FALSE(waiter.wake_up.asleep());
  CHECK(waiter.sleep("ahead", 0, test::patience()) == Slept::to_its_end);  // nobody is there
}

TEST_CASE("mariadb line: each waiter sleeps behind the one before it, and no other wakes at its end") {
  MariadbUnderTest t;
  auto line = requests(t, "r", 4);
  for (std::size_t i = 1; i < line.size(); ++i) REQUIRE(line[i]->sleeps("r" + std::to_string(i - 1), i));
  line[1]->wake_up.leave();
  CHECK(line[2]->wakes());
  CHECK(line[3]->sleeps("r2", 2));
  line[2]->wake_up.leave();
  CHECK(line[3]->wakes());
  Request late(t, "late");
  CHECK(late.sleeps("r0"));
  line[0]->wake_up.leave();
  CHECK(late.wakes());
}

TEST_CASE("mariadb line: a request is there in its own schema alone, under its whole name") {
  MariadbUnderTest t;
  MariadbUnderTest other_schema;
  const Request ahead(t, "Ahead");
  CHECK(Request(other_schema, "a").sleep("Ahead", 0, test::patience()) == Slept::to_its_end);
  CHECK(Request(t, "b").sleep("ahead", 0, test::patience()) == Slept::to_its_end);
  CHECK(Request(t, "c").sleep("Ahead ", 0, test::patience()) == Slept::to_its_end);
  CHECK(Request(t, "d").sleeps("Ahead"));
}

TEST_CASE("mariadb line: a sleep is one statement, and looks and renewals in between take another session") {
  MariadbUnderTest t;
  Proxy proxy(t.database().server());
  HoldingRun holder(t.database().url(), request_for("k", "holder"));
  Request waiter(proxy.url(t.database().name()), "waiter");
  auto request = request_for("k", "waiter");
  const auto arrival = waiter.store->stand_in_line(request, 75s, true);
  REQUIRE(arrival);
  request.arrival = *arrival;
  REQUIRE(waiter.sleeps("holder"));
  const std::string session = session_behind(t, "holder");
  const auto seen_until = [&] { return t.database().value("SELECT seen_until FROM dblock_waiter"); };
  for (int i = 0; i < 3; ++i) {
    const auto before = seen_until();
    const auto row = waiter.store->look(request);
    REQUIRE(row);
    CHECK(std::holds_alternative<Held>(*row));
    const auto line = waiter.store->see_line(request);
    REQUIRE(line);
    CHECK(line->size() == 1);
    REQUIRE(waiter.store->stand_in_line(request, 75s, true));
    CHECK(seen_until() > before);
    CHECK(waiter.sleeps("holder"));
    // A session that ends may be listed for a moment longer.
    CHECK(test::wait_until([&] { return sessions(t) == 2; }));
  }
  CHECK(sent(proxy, k_sleep) == 1);
  CHECK(session_behind(t, "holder") == session);
  SECTION("until it wakes, in the session that it slept in") {
    const int connections = proxy.connections();
    holder.end();
    CHECK(waiter.wakes());
    const auto granted = waiter.store->try_acquire(request);
    REQUIRE(granted);
    CHECK(std::holds_alternative<Granted>(*granted));
    CHECK(proxy.connections() == connections);
  }
  SECTION("until it tries to take the lock, which ends the sleep") {
    const auto refused = waiter.store->try_acquire(request);
    REQUIRE(refused);
    CHECK(std::holds_alternative<Held>(*refused));
    CHECK_FALSE(waiter.wake_up.asleep());
    CHECK(test::wait_until([&] { return t.asleep() == 0 && sessions(t) == 2; }));
    CHECK(waiter.sleeps("holder"));
  }
}

TEST_CASE("mariadb line: a cancelled wait ends at once, and leaves neither a session nor a place behind") {
  Line line;
  WaitingRun& cancelled = line.join("cancelled");
  line.join("other");
  const BootTime raised = BootClock::now();
  cancelled.cancel();
  REQUIRE(cancelled.outcome());
  CHECK(std::holds_alternative<Cancelled>(*cancelled.outcome()));
  CHECK(cancelled.decided_at() - raised < test::patience());  // of an hour
  CHECK(places(line.t) == 1);
  CHECK(test::wait_until([&] { return sessions(line.t) == 2; }));  // the holder's and the other waiter's
  line.holder.end();
  CHECK(line.waiters[1]->granted());
}

TEST_CASE("mariadb line: waiters get the lock in the order of their arrival, each woken by the one before") {
  Line line;
  Names expected;
  for (std::size_t i = 0; i < 12; ++i) {
    const std::string ahead = i == 0 ? "holder" : expected.back();
    expected.push_back("waiter-" + std::to_string(i));
    CHECK(line.join(expected.back()).place() == i + 1);
    CHECK_FALSE(session_behind(line.t, ahead).empty());
  }
  const BootTime released = BootClock::now();
  line.holder.end();
  CHECK(line.order() == expected);
  CHECK(since(released) < 15s * test::slowness());  // the first look of a sleeper's own comes after so long
  CHECK(places(line.t) == 0);
}

TEST_CASE("mariadb line: a release wakes the first waiter, though the holder's session goes on") {
  Line line;
  line.join("first");
  const BootTime released = BootClock::now();
  REQUIRE(line.holder.store().release(ref_to(line.holder.lease()), Actor::holder, {}));
  CHECK(line.order() == Names{"first"});
  CHECK(since(released) < 25s);  // a sleeper would look after 30 s
}

TEST_CASE("mariadb line: a request that gives back what it does not rely on is still there for others") {
  MariadbUnderTest t;
  Request ahead(t, "ahead");
  const auto taken = ahead.store->try_acquire(request_for("k", "ahead"));
  REQUIRE(taken);
  WaitingRun waiter(t.database().url(), request_for("k", "waiter"));
  REQUIRE(test::wait_until([&] { return t.asleep() == 1; }));
  REQUIRE(ahead.store->release(ref_to(std::get<Granted>(*taken).lease), Actor::holder, {}));
  CHECK(is_there(t, "ahead"));
  ahead.wake_up.leave();
  CHECK(waiter.granted());
}

TEST_CASE("mariadb line: a release that fails after it woke a waiter gives away nothing", "[safety]") {
  Line line;
  line.join("first");
  line.t.database().sql(
      "CREATE TRIGGER refuse BEFORE UPDATE ON dblock_lock FOR EACH ROW BEGIN IF NEW.lock_value IS NULL THEN "
      "SIGNAL SQLSTATE '45000'; END IF; END");
  const LeaseRef lease = ref_to(line.holder.lease());
  LeaseRef other = lease;
  other.token = Token{1};
  CHECK(std::holds_alternative<NotOurs>(line.holder.store().release(other, Actor::holder, {}).value()));
  CHECK(is_there(line.t, "holder"));
  REQUIRE_FALSE(line.holder.store().release(lease, Actor::holder, {}));
  REQUIRE(test::wait_until([&] { return line.t.asleep() == 0; }));
  REQUIRE(line.holder.store().renew(lease, Actor::holder, std::nullopt));
  CHECK_FALSE(line.waiters.front()->ended());
  line.t.database().sql("DROP TRIGGER refuse");
  REQUIRE(line.holder.store().release(lease, Actor::holder, {}));
  CHECK(line.order() == Names{"first"});
}

TEST_CASE("mariadb line: a waiter that wakes before the release has committed is granted the lock after it",
          "[safety]") {
  Line line;
  auto& database = line.t.database();
  const auto session = database.sessions().front();
  line.join("first");
  test::Connection releasing(database.server(), "root", database.name());
  releasing.sql("BEGIN");
  releasing.sql(store::mariadb::render(
      store::Verb::release,
      store::ref_parameters(ref_to(line.holder.lease()), Actor::holder) + store::end_parameters({})));
  REQUIRE(database.kill_session(session));
  REQUIRE(test::wait_until([&] {
    return database.number(
               "SELECT COUNT(*) FROM information_schema.processlist WHERE db=DATABASE() AND info LIKE "
               "'UPDATE dblock_lock AS lease %STRAIGHT_JOIN%'") == 1;
  }));
  CHECK_FALSE(line.waiters.front()->ended());
  releasing.sql("COMMIT");
  CHECK(line.order() == Names{"first"});
}

TEST_CASE("mariadb line: waiters whose sessions are killed keep their places") {
  Line line;
  const Names names{"a", "b", "c", "d"};
  for (const auto& name : names) line.join(name);
  for (const auto* const ahead : {"holder", "b"}) {
    REQUIRE(line.t.database().kill_session(session_behind(line.t, ahead)));
    REQUIRE(test::wait_until([&] { return !session_behind(line.t, ahead).empty(); }, 30s * test::slowness()));
  }
  CHECK(places(line.t) == 4);
  line.holder.end();
  CHECK(line.order() == names);
}

// Servers take chains of about thirty sleepers for a deadlock.
TEST_CASE("mariadb line: a hundred waiters sleep at once, those far back not behind the next one",
          "[storm][once]") {
  const Server own({"--max-connections=600"});
  Line line(own.address());
  Names expected;
  for (int i = 0; i < 100; ++i) {
    expected.push_back("waiter-" + std::to_string(100 + i));
    line.join(expected.back());
  }
  line.holder.end();
  CHECK(line.order() == expected);
}

TEST_CASE("mariadb line: as many sleep at once as a fifth of the sessions or threads that there may be") {
  struct Limit {
    std::vector<std::string> options;
    std::string account;
  };
  std::vector<Limit> limits{{{"--max-connections=20"}, ""}, {{}, "MAX_USER_CONNECTIONS 20"}};
  if (!test::mysql_run())
    limits.push_back({{"--thread-handling=pool-of-threads", "--thread-pool-max-threads=20"}, ""});
  for (const auto& limit : limits) {
    CAPTURE(limit.options, limit.account);
    const Server own(limit.options);
    MariadbUnderTest t(own.address());
    if (!limit.account.empty()) t.database().sql("ALTER USER app@'%' WITH " + limit.account);
    const Request ahead(t, "ahead");
    auto line = requests(t, "r", 5);
    for (std::size_t i = 0; i < 4; ++i) REQUIRE(line[i]->sleeps("ahead"));
    CHECK(line[4]->sleep("ahead", 0, test::patience()) == Slept::no_seat);
    CHECK(line[4]->wake_up.crowded());
    line[0]->wake_up.leave();
    CHECK(test::wait_until([&] { return line[4]->sleeps("ahead"); }));
    CHECK(t.asleep() == 4);
  }
}

TEST_CASE("mariadb line: a request with as many before it as there are seats asks for one but once",
          "[once]") {
  const Server own({"--max-connections=20"});
  MariadbUnderTest t(own.address());
  Proxy proxy(own.address());
  const Request ahead(t, "ahead");
  Request waiter(proxy.url(t.database().name()), "waiter");
  for (int i = 0; i < 3; ++i) CHECK(waiter.sleep("ahead", 4, test::patience()) == Slept::no_seat);
  CHECK(sent(proxy, k_sleep) == 1);
  CHECK_FALSE(waiter.wake_up.crowded());
  CHECK(waiter.sleeps("ahead", 3));
}

// A server of which an account, or else everybody together, may have twenty sessions.
struct TwentySessions {
  explicit TwentySessions(bool by_account)
      : of_account(by_account), own({by_account ? "--max-connections=100" : "--max-connections=20"}) {
    if (of_account) t.database().sql("ALTER USER app@'%' WITH MAX_USER_CONNECTIONS 20");
  }
  [[nodiscard]] auto in_use() { return of_account ? sessions(t) : t.connected(); }
  void fill(int count) {
    t.fill(others, count, [this] { return in_use(); });
  }

  const bool of_account;
  const Server own;
  MariadbUnderTest t{own.address()};
  std::vector<test::Connection> others;
};

TEST_CASE("mariadb line: nobody goes to sleep while more than four fifths of the sessions are in use") {
  const bool of_account = GENERATE(false, true);
  CAPTURE(of_account);
  TwentySessions s(of_account);
  const Request ahead(s.t, "ahead");
  Request waiter(s.t, "waiter");
  s.fill(17);
  CHECK(waiter.sleep("ahead", 0, test::patience()) == Slept::no_seat);
  CHECK(waiter.wake_up.crowded());
  s.others.pop_back();
  REQUIRE(test::wait_until([&] { return s.in_use() == 16; }));
  CHECK(waiter.sleeps("ahead"));
}

TEST_CASE(
    "mariadb line: a request that asks for no seat finds out whether sessions are scarce, but not often",
    "[once]") {
  const bool of_account = GENERATE(false, true);
  CAPTURE(of_account);
  TwentySessions s(of_account);
  const Proxy proxy(s.own.address());
  Request waiter(proxy.url(s.t.database().name()), "waiter");
  const auto asked = [&] { return sent(proxy, "0.8*@@max_connections"); };
  s.fill(16);
  CHECK_FALSE(waiter.wake_up.crowded());
  s.fill(17);
  CHECK_FALSE(waiter.wake_up.crowded());
  CHECK(asked() == 1);
  CHECK(test::wait_until([&] { return waiter.wake_up.crowded(); }));

  waiter.wake_up.leave();
  s.others.clear();
  REQUIRE(test::wait_until([&] { return s.in_use() < 17; }));
  CHECK(waiter.wake_up.crowded());  // it learns nothing while it has no session
  waiter.wake_up.announce(waiter.own);
  REQUIRE(waiter.store->connect());
  CHECK(waiter.wake_up.crowded());
  CHECK(test::wait_until([&] { return !waiter.wake_up.crowded(); }));
  CHECK(asked() == 3);
}

TEST_CASE("mariadb line: where sessions are scarce those who look often keep none between their looks",
          "[once]") {
  const auto options = GENERATE(Sharing{Mode::slot, 1}, Sharing{});
  CAPTURE(options.slots);
  const Server own({"--max-connections=20"});
  MariadbUnderTest t(own.address());
  HoldingRun holder(t.database().url(), request_for("k", "holder", options));
  std::vector<test::Connection> others;
  t.fill(others, 17, [&] { return t.connected(); });
  auto request = request_for("k", "waiter", options);
  request.replaces = options.mode == Mode::exclusive;
  WaitingRun waiter(t.database().url(), request);
  REQUIRE(test::wait_until([&] { return waiter.place() > 0; }));
  int without = 0;
  CHECK(test::wait_until([&] { return (without += t.connected() == 17 ? 1 : 0) == 20; }));
  holder.end();
  CHECK(waiter.granted());
}

TEST_CASE("mariadb line: where the server is short of connections those who come late wait without one") {
  const Server own({"--max-connections=20"});
  Line line(own.address());
  std::vector<test::Connection> others;
  line.t.fill(others, 17, [&] { return line.t.connected(); });
  auto& late = line.join_at(line.t.database().url(), "late");
  CHECK(test::wait_until([&] { return line.t.connected() == 17; }));
  CHECK(line.t.asleep() == 0);
  CHECK(places(line.t) == 1);
  others.clear();
  line.holder.end();
  CHECK(late.granted());
}

TEST_CASE("mariadb line: a waiter that finds no connection for a look sleeps on, and is woken") {
  const Server own({"--max-connections=20"});
  MariadbUnderTest t(own.address());
  HoldingRun holder(t.database().url(), request_for("k", "holder"));
  Request waiter(t, "waiter");
  REQUIRE(waiter.sleeps("holder"));
  std::vector<test::Connection> others;
  t.fill(others, 20, [&] { return t.connected(); });
  const auto seen = waiter.store->look(request_for("k", "waiter"));
  REQUIRE_FALSE(seen);
  CHECK(seen.error().code == Errc::unreachable);
  CHECK(seen.error().native == 1040);
  CHECK(waiter.sleeps("holder"));
  holder.end();
  CHECK(waiter.wakes());
  const auto granted = waiter.store->try_acquire(request_for("k", "waiter"));
  REQUIRE(granted);
  CHECK(std::holds_alternative<Granted>(*granted));
}

TEST_CASE("mariadb line: where nobody can sleep, waiters look at the lock themselves, in their order") {
  Line line;
  Proxy proxy(line.t.database().server());
  // Named locks are refused, or the sleep is, or whoever sleeps is cut off.
  const std::string refused = GENERATE(std::string("GET_LOCK"), std::string(k_sleep), std::string());
  CAPTURE(refused);
  if (refused.empty()) {
    proxy.cut(Proxy::Cut::before_statement, test::containing(k_sleep), 1000);
  } else {
    proxy.refuse_statements(test::containing(refused), 1235, "this is not supported here");
  }
  for (const auto* const name : {"first", "second"}) line.join_at(proxy.url(line.t.database().name()), name);
  CHECK(line.t.asleep() == 0);
  const BootTime released = BootClock::now();
  line.holder.end();
  CHECK(line.order() == Names{"first", "second"});
  CHECK(since(released) < 25s);  // a sleeper would look after 30 s
}

TEST_CASE("mariadb line: a holder whose session was lost is there again from its next renewal on") {
  MariadbUnderTest t;
  HoldingRun holder(t.database().url(), request_for("k", "holder"));
  const auto session = t.database().sessions().front();
  Request waiter(t, "waiter");
  REQUIRE(waiter.sleeps("holder"));
  REQUIRE(t.database().kill_session(session));
  CHECK(waiter.wakes());
  CHECK(waiter.sleep("holder", 0, test::patience()) == Slept::to_its_end);
  // The server takes a session off its list a moment before it hangs up: a renewal in between is lost with
  // it.
  REQUIRE(test::wait_until(
      [&] { return holder.store().renew(ref_to(holder.lease()), Actor::holder, std::nullopt).has_value(); }));
  CHECK(waiter.sleeps("holder"));
  holder.end();
  CHECK(waiter.wakes());
}

TEST_CASE("mariadb line: the first waiter behind a holder that has no session looks at the lock itself") {
  Line line;
  const bool later = GENERATE(false, true);
  CAPTURE(later);
  if (later) line.join("first");
  line.holder.store().disconnect();
  if (!later) line.join_at(line.t.database().url(), "first");
  REQUIRE(test::wait_until([&] { return line.t.asleep() == 0; }));
  line.join_at(line.t.database().url(), "second");
  REQUIRE(test::wait_until([&] { return !session_behind(line.t, "first").empty(); }));
  const BootTime released = BootClock::now();
  REQUIRE(line.t.open()->release(ref_to(line.holder.lease()), Actor::holder, {}));
  CHECK(line.order() == Names{"first", "second"});
  CHECK(since(released) < 25s);  // a sleeper would look after 30 s
}

// The server drops the frozen one's session, and what it is to the others. Its place counts for 150 s more,
// but a lock that nobody takes for three goes to whoever asks.
TEST_CASE(
    "mariadb line: a first waiter that is frozen when its turn comes costs those behind it three seconds",
    "[once]") {
  Line line;
  Proxy proxy(line.t.database().server());
  const bool asleep = GENERATE(true, false);
  CAPTURE(asleep);
  if (!asleep) line.holder.store().disconnect();
  line.join_at(proxy.url(line.t.database().name()), "frozen");
  const auto looks = sent(proxy, "SELECT");
  REQUIRE(
      test::wait_until([&] { return asleep ? line.t.asleep() == 1 : sent(proxy, "SELECT") > looks + 10; }));
  line.join_at(line.t.database().url(), "second");
  line.join_at(line.t.database().url(), "third");
  REQUIRE(test::wait_until([&] { return line.t.asleep() == (asleep ? 3 : 2); }));
  proxy.stall();
  const BootTime released = BootClock::now();
  REQUIRE(line.t.open()->release(ref_to(line.holder.lease()), Actor::holder, {}));
  line.holder.store().wake_up()->leave();
  const auto decided = line.waiters[1]->decided_at() - released;
  CHECK(decided > 2900ms);
  CHECK(decided < 10s * test::slowness());
  CHECK(line.waiters[2]->decided_at() - released < 10s * test::slowness());
  proxy.resume();
  CHECK(line.order() == Names{"second", "third", "frozen"});
}

TEST_CASE("mariadb line: a session with a lease may be idle for longer than a waiter's") {
  MariadbUnderTest t;
  HoldingRun holder(t.database().url(), request_for("k", "holder"));
  Request waiter(t, "waiter");
  REQUIRE(waiter.sleeps("holder"));
  holder.end();
  REQUIRE(waiter.wakes());
  REQUIRE(waiter.store->try_acquire(request_for("k", "waiter")));
  waiter.store->hold(LeaseStore::RenewedBy::this_store);
  std::this_thread::sleep_for(3s);  // the server would have dropped a waiter's after two
  CHECK(sessions(t) == 1);
  CHECK(Request(t, "next").sleeps("waiter"));
}

TEST_CASE("mariadb line: a sleeper's second session does not tell again why the first had no password") {
  MariadbUnderTest t;
  HoldingRun holder(t.database().url(), request_for("k", "holder"));
  const test::TempDir directory;
  const std::string mark = directory.file("mark");
  const std::string user = t.database().account("IDENTIFIED BY 'pw'");
  const auto store = MariadbUnderTest::open_at(t.database().url(user) + "&password-command=[%20-e%20" + mark +
                                               "%20]||{%20touch%20" + mark + ";exit%203;};echo%20pw");
  auto& wake_up = *store->wake_up();
  wake_up.announce({"waiter"});
  const auto failed = store->connect();
  REQUIRE_FALSE(failed);
  CHECK_THAT(failed.error().message, Catch::Contains("failed with exit status 3"));
  REQUIRE(store->connect());
  static const WakeEvent never;
  REQUIRE(wake_up.sleep_behind({"holder"}, 0, BootClock::now() + 100ms, never) == Slept::not_yet);
  const auto seen = store->look(request_for("k", "waiter"));
  INFO((seen ? "" : seen.error().message));
  CHECK(seen);
}

TEST_CASE("mariadb line: waiters are listed in their order, to another session and to another account") {
  MariadbUnderTest t;
  const auto store = t.open();
  REQUIRE(store->try_acquire(request_for("k", "owner")));
  REQUIRE(store->try_acquire(request_for("other", "owner")));
  std::uint32_t pid = 10;
  for (const auto& [owner, length] :
       std::vector<std::pair<std::string, Micros>>{{"b", 75s}, {"a", 75s}, {"c", 1us}}) {
    auto request = request_for("k", owner);
    request.holder.pid = ++pid;
    REQUIRE(store->stand_in_line(request, length, true));
  }
  for (const auto& user : {std::string("app"), t.database().account("", "SELECT")}) {
    const auto other = MariadbUnderTest::open_at(t.database().url(user));
    for (const bool from_primary : {false, true}) {
      CAPTURE(user, from_primary);
      Selection all;
      all.from_primary = from_primary;
      const auto listing = other->list(all);
      REQUIRE(listing);
      REQUIRE(listing->locks.size() == 2);
      const auto& waiters = listing->locks[0].waiters;
      REQUIRE(waiters);
      REQUIRE(waiters->size() == 2);
      CHECK(waiters->at(0).pid == 11);
      CHECK(waiters->at(1).pid == 12);
      CHECK(waiters->at(0).host == "host");
      CHECK(waiters->at(0).user == "user");
      CHECK(waiters->at(0).since <= waiters->at(1).since);
      CHECK(waiters->at(1).since <= listing->server_time);
      REQUIRE(listing->locks[1].waiters);
      CHECK(listing->locks[1].waiters->empty());
    }
  }
}

// Nobody replicates what is written on an old primary, and its replication would break on it later.
TEST_CASE("mariadb line: on a server that has turned read-only no place is taken, kept or given up",
          "[safety]") {
  const Server own;
  MariadbUnderTest t(own.address());
  t.database().sql("GRANT ALL ON *.* TO app@'%'");  // it may write on read-only servers
  HoldingRun holder(t.database().url(), request_for("k", "holder"));
  Request waiter(t, "waiter");
  Request new_one(t, "new one");
  const auto leaver = t.open();
  REQUIRE(leaver->connect());
  auto request = request_for("k", "waiter");
  const auto arrival = waiter.store->stand_in_line(request, 75s, true);
  REQUIRE(arrival);
  request.arrival = *arrival;
  const bool asleep = GENERATE(false, true);
  CAPTURE(asleep);
  if (asleep) REQUIRE(waiter.sleeps("holder"));
  const auto state = [&] {
    return t.database().row("k") +
           t.database().value("SELECT GROUP_CONCAT(owner_id,seen_until) FROM dblock_waiter");
  };
  const auto before = state();
  t.database().sql("SET GLOBAL read_only=1");
  const auto kept = waiter.store->stand_in_line(request, 75s, true);
  REQUIRE_FALSE(kept);
  CHECK(kept.error().code == Errc::unreachable);
  const auto taken = new_one.store->stand_in_line(request_for("k", "new one"), 75s, true);
  REQUIRE_FALSE(taken);
  CHECK(taken.error().code == Errc::unreachable);
  leaver->leave_line(request);
  CHECK(state() == before);
}

}  // namespace dblock::contract
