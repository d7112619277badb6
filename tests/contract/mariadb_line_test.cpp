// The line of named locks: order, what becomes of it when sessions, waiters or the server fail, and what it
// costs the server.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "contract/mariadb_store.hpp"
#include "lease/acquire.hpp"
#include "support/catch.hpp"
#include "support/proxy.hpp"

namespace dblock::contract {
namespace {

using namespace std::chrono_literals;
using namespace lease;
using test::Server;

std::chrono::milliseconds since(BootTime start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(BootClock::now() - start);
}

const Key& the_key() {
  static const Key key = *Key::parse("k");
  return key;
}

BootTime in(Nanos time) {
  return BootClock::now() + time;
}

// Sessions that wait in line, as the server sees them.
constexpr const char* k_waiting =
    " FROM information_schema.processlist WHERE state='User lock' AND info LIKE 'SET SESSION %dblock waits%'";

long long waiting(MariadbUnderTest& t) {
  return t.database().number(std::string("SELECT COUNT(*)") + k_waiting + " AND db='" + t.database().name() +
                             "'");
}

// In this database alone: cases run side by side on one server.
std::string session_waiting_as(MariadbUnderTest& t, int pid) {
  return t.database().value(std::string("SELECT id") + k_waiting + " AND db='" + t.database().name() +
                            "' AND info LIKE '% pid=" + std::to_string(pid) + " %'");
}

long long sessions(MariadbUnderTest& t) {
  return static_cast<long long>(t.database().sessions().size());
}

long long connected(MariadbUnderTest& t) {
  return t.database().number("SELECT variable_value FROM " + test::status_table() +
                             " WHERE variable_name='Threads_connected'");
}

// Takes the server's connections until `count` are taken.
void fill(MariadbUnderTest& t, std::vector<test::Connection>& others, long long count) {
  while (connected(t) < count) {
    others.emplace_back(t.database().server(), "app");
    others.back().sql("DO 1");
  }
}

// A store, and its place in the line of "k".
struct Place {
  explicit Place(const std::string& url, std::uint32_t pid = 1)
      : store(MariadbUnderTest::open_at(url)), line(*store->turnstile()) {
    line.approach(the_key(), {"host", pid, "user", "job", ""});
    const auto connected = store->connect();
    if (!connected) FAIL(connected.error().message);
    first = line.enter(the_key());
  }
  explicit Place(MariadbUnderTest& t, std::uint32_t pid = 1) : Place(t.database().url(), pid) {}

  std::unique_ptr<LeaseStore> store;
  Turnstile& line;
  Turn first = Turn::none;
};

// One who waits for his turn on a thread, notes his name when it comes, and leaves.
struct Waiter {
  Waiter(MariadbUnderTest& t, std::vector<int>& log, std::mutex& mutex, int name)
      : place(t, static_cast<std::uint32_t>(name)), thread([this, &log, &mutex, name] {
          turn = place.line.await(in(1h), cancel);
          if (turn.load() == Turn::ours) {
            const std::lock_guard lock(mutex);
            log.push_back(name);
          }
          left_at = BootClock::now();
          place.line.leave();
        }) {}
  ~Waiter() { cancel.raise(); }

  WakeEvent cancel;
  Place place;
  std::atomic<Turn> turn = Turn::not_yet;
  std::atomic<BootTime> left_at{};
  std::jthread thread;
};

struct Line {
  MariadbUnderTest t;
  Place holder{t};
  std::mutex mutex;
  std::vector<int> log;
  std::vector<std::unique_ptr<Waiter>> waiters;

  Waiter& join() {
    const auto before = waiting(t);
    waiters.push_back(std::make_unique<Waiter>(t, log, mutex, static_cast<int>(waiters.size())));
    REQUIRE(test::wait_until([&] { return waiting(t) == before + 1; }));
    return *waiters.back();
  }
  std::string session_of(int name) { return session_waiting_as(t, name); }
  void wait_for_all() {
    for (const auto& waiter : waiters) {
      if (waiter->thread.joinable()) waiter->thread.join();
    }
  }
};

}  // namespace

TEST_CASE("mariadb line: whoever comes first has the turn at once, and others after he has left") {
  MariadbUnderTest t;
  Place first(t);
  CHECK(first.first == Turn::ours);
  Place second(t);
  CHECK(second.first == Turn::not_yet);
  const WakeEvent never;
  CHECK(second.line.await(in(50ms), never) == Turn::not_yet);
  CHECK(second.line.await(in(50ms), never) == Turn::not_yet);
  const std::jthread leaver([&] {
    std::this_thread::sleep_for(100ms);
    first.line.leave();
  });
  CHECK(second.line.await(in(20s), never) == Turn::ours);
  CHECK(second.line.await(in(0s), never) == Turn::ours);
}

TEST_CASE("mariadb line: lines of different keys and of different schemas are different lines") {
  MariadbUnderTest t;
  MariadbUnderTest other_schema;
  const Place first(t);
  CHECK(Place(other_schema).first == Turn::ours);
  const auto store = t.open();
  REQUIRE(store->connect());
  CHECK(store->turnstile()->enter(*Key::parse("K")) == Turn::ours);
  CHECK(store->turnstile()->enter(*Key::parse("k ")) == Turn::ours);
  CHECK(Place(t).first == Turn::not_yet);
}

TEST_CASE("mariadb line: waiters get their turns in the order of their arrival") {
  Line line;
  std::vector<int> expected;
  for (int i = 0; i < 12; ++i) {
    line.join();
    expected.push_back(i);
  }
  line.holder.line.leave();
  line.wait_for_all();
  CHECK(line.log == expected);
}

TEST_CASE("mariadb line: a wait that is looked up from now and then keeps its place") {
  MariadbUnderTest t;
  Place holder(t);
  Place impatient(t);
  const WakeEvent never;
  CHECK(impatient.line.await(in(10ms), never) == Turn::not_yet);
  REQUIRE(test::wait_until([&] { return waiting(t) == 1; }));
  Place patient(t);
  std::atomic<Turn> patients = Turn::not_yet;
  std::jthread other([&] { patients = patient.line.await(in(60s), never); });
  REQUIRE(test::wait_until([&] { return waiting(t) == 2; }));
  for (int i = 0; i < 5; ++i) {
    CHECK(impatient.store->peek(the_key()));
    CHECK(impatient.line.await(in(10ms), never) == Turn::not_yet);
  }
  holder.line.leave();
  CHECK(impatient.line.await(in(20s), never) == Turn::ours);
  // A server that has answered may list the statement for a moment longer.
  CHECK(test::wait_until([&] { return waiting(t) == 1; }));
  CHECK(patients.load() == Turn::not_yet);
  impatient.line.leave();
  other.join();
  CHECK(patients.load() == Turn::ours);
}

TEST_CASE("mariadb line: a waiter looks at the row every 25 to 50 seconds") {
  MariadbUnderTest t;
  const Place waiter(t);
  CHECK(waiter.line.look_schedule().interval == 50s);  // half of it at least: "where looks cost something …"
}

TEST_CASE("mariadb line: a session that is killed costs the others nothing, be it waiting or first") {
  Line line;
  line.join();
  Waiter& killed = line.join();
  line.join();
  REQUIRE(line.t.database().kill_session(line.session_of(1)));
  killed.thread.join();
  CHECK(killed.turn.load() != Turn::ours);
  REQUIRE(line.t.database().kill_session(line.t.database().sessions("command = 'Sleep'").front()));
  line.waiters[0]->thread.join();
  line.waiters[2]->thread.join();
  CHECK(line.log == std::vector<int>{0, 2});
}

TEST_CASE("mariadb line: a waiter whose session was killed stands at the end of the line again") {
  MariadbUnderTest t;
  Place holder(t);
  Place waiter(t, 7);
  const WakeEvent never;
  CHECK(waiter.line.await(in(10ms), never) == Turn::not_yet);
  std::string session;
  REQUIRE(test::wait_until([&] { return !(session = session_waiting_as(t, 7)).empty(); }));
  t.database().sql("KILL " + session);
  for (Turn turn = Turn::ours; turn != Turn::not_yet || waiting(t) != 1;)
    turn = waiter.line.await(in(20ms), never);
  holder.line.leave();
  CHECK(waiter.line.await(in(20s), never) == Turn::ours);
}

TEST_CASE("mariadb line: a cancelled wait ends at once and leaves no session behind") {
  Line line;
  Waiter& cancelled = line.join();
  line.join();
  const BootTime raised = BootClock::now();
  cancelled.cancel.raise();
  cancelled.thread.join();
  CHECK(cancelled.turn.load() == Turn::cancelled);
  CHECK(cancelled.left_at.load() - raised < test::patience());     // of an hour
  CHECK(test::wait_until([&] { return sessions(line.t) == 2; }));  // the holder's and the other waiter's
  line.holder.line.leave();
  line.wait_for_all();
  CHECK(line.log == std::vector<int>{1});
}

TEST_CASE(
    "mariadb line: a waiter that is frozen when its turn comes costs two seconds, and the order stays") {
  MariadbUnderTest t;
  test::Proxy proxy(t.database().server());
  Place holder(t);
  const WakeEvent never;
  Place frozen(proxy.url(t.database().name()));
  CHECK(frozen.line.await(in(10ms), never) == Turn::not_yet);
  REQUIRE(test::wait_until([&] { return waiting(t) == 1; }));
  std::vector<int> log;
  std::mutex mutex;
  Waiter second(t, log, mutex, 2);
  REQUIRE(test::wait_until([&] { return waiting(t) == 2; }));
  Waiter third(t, log, mutex, 3);
  REQUIRE(test::wait_until([&] { return waiting(t) == 3; }));
  proxy.stall();
  const BootTime left = BootClock::now();
  holder.line.leave();
  second.thread.join();
  third.thread.join();
  CHECK(log == std::vector<int>{2, 3});
  CHECK(since(left) > 1500ms);
  CHECK(since(left) < 10s * test::slowness());  // of an hour
  proxy.resume();
}

// A lease of `acquire` has no session, so its waiters are led by one who polls.
TEST_CASE("mariadb line: a leader that is frozen while it waits costs two seconds as well") {
  MariadbUnderTest t;
  test::Proxy proxy(t.database().server());
  Place frozen(proxy.url(t.database().name()));
  REQUIRE(frozen.first == Turn::ours);
  frozen.line.lead();
  std::vector<int> log;
  std::mutex mutex;
  Waiter second(t, log, mutex, 2);
  REQUIRE(test::wait_until([&] { return waiting(t) == 1; }));
  proxy.stall();
  const BootTime stalled = BootClock::now();
  second.thread.join();
  CHECK(second.turn.load() == Turn::ours);
  CHECK(since(stalled) < 10s * test::slowness());  // of an hour
  proxy.resume();
}

TEST_CASE("mariadb line: a session with a lease may be idle for longer than a waiter's") {
  MariadbUnderTest t;
  Place holder(t);
  Place waiter(t);
  const WakeEvent never;
  const std::jthread leaver([&] {
    REQUIRE(test::wait_until([&] { return waiting(t) == 1; }));
    holder.line.leave();
  });
  CHECK(waiter.line.await(in(20s), never) == Turn::ours);
  REQUIRE(waiter.store->try_acquire(request_for("k", "owner")));
  waiter.store->settle();
  std::this_thread::sleep_for(3s);  // the server would have dropped it after two
  CHECK(sessions(t) == 1);
  CHECK(waiter.line.await(in(0s), never) == Turn::ours);
}

TEST_CASE("mariadb line: a turn that was lost with its session is known to be lost") {
  MariadbUnderTest t;
  Place first(t);
  REQUIRE(first.first == Turn::ours);
  CHECK_FALSE(first.line.lost_turn());
  REQUIRE(t.database().kill_session(t.database().sessions().front()));
  REQUIRE(test::wait_until([&] { return sessions(t) == 0; }));
  const Place second(t);
  CHECK(second.first == Turn::ours);
  REQUIRE(first.store->connect());
  CHECK(first.line.lost_turn());
  CHECK(first.line.enter(the_key()) == Turn::not_yet);
}

TEST_CASE("mariadb line: where the named lock cannot be had there is no line, and the lock works without") {
  MariadbUnderTest t;
  test::Proxy proxy(t.database().server());
  proxy.refuse_statements(test::containing("GET_LOCK"), 1235, "named locks are not supported here");
  const Place place(proxy.url(t.database().name()));
  CHECK(place.first == Turn::none);
  const WakeEvent never;
  CHECK(place.line.await(in(1s), never) == Turn::none);
  const auto granted = place.store->try_acquire(request_for("k", "owner"));
  REQUIRE(granted);
  CHECK(std::holds_alternative<Granted>(*granted));
}

TEST_CASE("mariadb line: a wait that the server keeps ending is given up, not repeated for ever") {
  MariadbUnderTest t;
  test::Proxy proxy(t.database().server());
  Place holder(t);
  Place waiter(proxy.url(t.database().name()));
  REQUIRE(waiter.first == Turn::not_yet);
  proxy.cut(test::Proxy::Cut::before_statement, test::containing("dblock waits"), 100);
  const WakeEvent never;
  const BootTime start = BootClock::now();
  while (waiter.line.await(in(10s), never) != Turn::none) REQUIRE(since(start) < test::patience());
  CHECK(proxy.cuts() <= 3);
}

TEST_CASE("mariadb line: the wait asks for the named lock once, however often it is looked up from") {
  MariadbUnderTest t;
  test::Proxy proxy(t.database().server());
  Place holder(t);
  Place waiter(proxy.url(t.database().name()));
  const WakeEvent never;
  for (int i = 0; i < 5; ++i) {
    CHECK(waiter.line.await(in(10ms), never) == Turn::not_yet);
    CHECK(waiter.store->peek(the_key()));
  }
  int asked = 0;
  for (const auto& statement : proxy.statements()) asked += test::containing("dblock waits")(statement);
  CHECK(asked == 1);
  CHECK(test::wait_until([&] { return sessions(t) == 2; }));
}

// Where the lease is one of `acquire`, whose session is gone, the first in line polls. Returns when a waiter
// that came later than all others has done so ten times.
void see_polling(MariadbUnderTest& t) {
  auto acquired = request_for("polled", "script");
  acquired.kind = Kind::acquire;
  acquired.terms.ttl = 1h;
  REQUIRE(t.open()->try_acquire(acquired));
  test::Proxy proxy(t.database().server());
  WakeEvent cancel;
  std::jthread polling([&] {
    SystemClock clock;
    const auto store = MariadbUnderTest::open_at(proxy.url(t.database().name()));
    static_cast<void>(lease::acquire(*store, clock, request_for("polled", "run"), {1h}, {}, cancel));
  });
  const auto looks = [&] { return std::ranges::count_if(proxy.statements(), test::containing("SELECT")); };
  CHECK(test::wait_until([&] { return looks() > 10; }));
  cancel.raise();
}

TEST_CASE("mariadb line: an acquisition that waits takes the lock when it is given back, by being woken") {
  MariadbUnderTest t;
  test::Proxy proxy(t.database().server());
  SystemClock clock;
  const WakeEvent never;
  const auto holder = t.open();
  const auto held = lease::acquire(*holder, clock, request_for("k", "owner-1"), {}, {}, never);
  REQUIRE(held);
  const auto waiter = MariadbUnderTest::open_at(proxy.url(t.database().name()));
  std::optional<Result<AcquireOutcome>> outcome;
  BootTime granted_at{};
  std::jthread thread([&] {
    outcome = lease::acquire(*waiter, clock, request_for("k", "owner-2"), {1h}, {}, never);
    granted_at = BootClock::now();
  });
  REQUIRE(test::wait_until([&] { return waiting(t) == 1; }));
  const auto statements = proxy.statements().size();
  see_polling(t);
  CHECK(proxy.statements().size() == statements);  // it does not poll
  REQUIRE(holder->release({the_key(), {"owner-1"}, std::nullopt}, Actor::holder, {}));
  const BootTime released = BootClock::now();
  holder->turnstile()->leave();
  thread.join();
  REQUIRE(outcome->has_value());
  CHECK(std::holds_alternative<Lease>(**outcome));
  CHECK(granted_at - released < 10s * test::slowness());  // its own first look comes 25 s after its arrival
  CHECK(proxy.statements().size() == statements + 1);     // the grant
  waiter->settle();
  CHECK(proxy.statements().size() == statements + 2);  // the session's usual idle time
}

TEST_CASE("mariadb line: an acquisition without contention costs three statements, place in line included") {
  const Server own;
  MariadbUnderTest t(own.address());
  SystemClock clock;
  const WakeEvent never;
  const auto statements = [&] {
    return t.database().number("SELECT SUM(variable_value) FROM " + test::status_table() +
                               " WHERE variable_name IN "
                               "('Questions','Com_stmt_prepare')");
  };
  for (const auto& limit : {std::optional<Micros>(0s), std::optional<Micros>(10s)}) {
    for (int round = 0; round < 2; ++round) {
      const auto before = statements();
      const auto store = t.open();
      const auto granted = lease::acquire(*store, clock, request_for("k", "owner"), {limit}, {}, never);
      REQUIRE(granted);
      REQUIRE(store->release({the_key(), {"owner"}, std::nullopt}, Actor::holder, {}));
      const auto after = statements();
      CHECK(store->turnstile()->await(in(0s), never) == Turn::ours);
      if (round > 0) CHECK(after - before - 1 == 3);
      store->turnstile()->leave();
      REQUIRE(test::wait_until([&] { return sessions(t) == 0; }));
    }
  }
}

// Twenty connections: whoever comes when more than sixteen are taken keeps none, and is granted the lock all
// the same.
TEST_CASE("mariadb line: where the server is short of connections those who come late wait without one") {
  const Server own({"--max-connections=20"});
  MariadbUnderTest t(own.address());
  SystemClock clock;
  const Place holder(t);
  REQUIRE(holder.store->try_acquire(request_for("k", "owner")));
  std::vector<test::Connection> others;
  fill(t, others, 16);
  const WakeEvent never;
  std::optional<Result<AcquireOutcome>> outcome;
  std::atomic<bool> seen = false;
  const AcquireObserver observer{
      .on_conflict = [&](const LockStatus&) { seen = true; }, .on_trouble = {}, .on_send = {}};
  std::jthread waiter([&] {
    const auto store = t.open();
    outcome = lease::acquire(*store, clock, request_for("k", "late"), {60s}, observer, never);
  });
  REQUIRE(test::wait_until([&] { return seen.load(); }));
  REQUIRE(test::wait_until([&] { return connected(t) == 16; }));
  CHECK(waiting(t) == 0);
  REQUIRE(holder.store->release({the_key(), {"owner"}, std::nullopt}, Actor::holder, {}));
  holder.line.leave();
  others.clear();
  waiter.join();
  REQUIRE(outcome->has_value());
  CHECK(std::holds_alternative<Lease>(**outcome));
}

TEST_CASE("mariadb line: a waiter that finds no connection for a look keeps its place and gets its turn") {
  const Server own({"--max-connections=20"});
  MariadbUnderTest t(own.address());
  Place holder(t);
  REQUIRE(holder.store->try_acquire(request_for("k", "owner")));
  Place waiter(t);
  const WakeEvent never;
  REQUIRE(waiter.store->peek(the_key()));
  REQUIRE(waiter.line.await(in(10ms), never) == Turn::not_yet);
  std::vector<test::Connection> others;
  fill(t, others, 20);
  const auto full = MariadbUnderTest::open_at(t.database().url())->connect();
  REQUIRE_FALSE(full);
  CHECK(full.error().code == Errc::unreachable);
  CHECK(full.error().native == 1040);
  const auto seen = waiter.store->peek(the_key());
  REQUIRE(seen);
  CHECK((*seen)->owner == "owner");
  holder.line.leave();
  CHECK(waiter.line.await(in(20s), never) == Turn::ours);
}

TEST_CASE("mariadb line: a listing names those who wait for each lock, in order") {
  MariadbUnderTest t;
  Place holder(t);
  REQUIRE(holder.store->try_acquire(request_for("k", "owner")));
  REQUIRE(t.open()->try_acquire(request_for("other", "owner")));
  const WakeEvent never;
  Place first(t, 11);
  CHECK(first.line.await(in(10ms), never) == Turn::not_yet);
  REQUIRE(test::wait_until([&] { return waiting(t) == 1; }));
  Place second(t, 12);
  CHECK(second.line.await(in(10ms), never) == Turn::not_yet);
  REQUIRE(test::wait_until([&] { return waiting(t) == 2; }));
  const auto listing = t.open()->list({});
  REQUIRE(listing);
  REQUIRE(listing->locks.size() == 2);
  const auto& waiters = listing->locks[0].waiters;
  REQUIRE(waiters);
  REQUIRE(waiters->size() == 2);
  CHECK(waiters->at(0).pid == 11);
  CHECK(waiters->at(1).pid == 12);
  CHECK(waiters->at(0).host == "host");
  CHECK(waiters->at(0).user == "user");
  CHECK(waiters->at(0).since <= listing->server_time);
  CHECK(listing->server_time.since_epoch - waiters->at(0).since.since_epoch < test::patience());
  REQUIRE(listing->locks[1].waiters);
  CHECK(listing->locks[1].waiters->empty());
}

TEST_CASE("mariadb line: a look from the line tells the place there, before it is taken and later") {
  MariadbUnderTest t;
  Place holder(t);
  REQUIRE(holder.store->try_acquire(request_for("k", "owner")));
  const WakeEvent never;
  using Pair = std::pair<std::size_t, std::size_t>;
  // The server does not show a statement's text while it is busy with it.
  const auto gets = [](Place& waiter, Pair expected) {
    return test::wait_until([&] {
      const auto seen = waiter.store->look_with_position(request_for("k", "other"));
      REQUIRE(seen);
      REQUIRE(std::holds_alternative<Held>(*seen));
      const auto& position = std::get<Held>(*seen).status.position;
      return position && Pair(position->number, position->of) == expected;
    });
  };
  Place first(t, 11);
  CHECK(gets(first, Pair{1, 1}));
  CHECK(first.line.await(in(10ms), never) == Turn::not_yet);
  REQUIRE(test::wait_until([&] { return waiting(t) == 1; }));
  Place second(t, 12);
  CHECK(gets(second, Pair{2, 2}));
  CHECK(second.line.await(in(10ms), never) == Turn::not_yet);
  REQUIRE(test::wait_until([&] { return waiting(t) == 2; }));
  CHECK(gets(first, Pair{1, 2}));
  CHECK(gets(second, Pair{2, 2}));
  const auto plain = second.store->peek(the_key());
  REQUIRE(plain);
  CHECK_FALSE((*plain)->position);
  first.line.leave();
  CHECK(gets(second, {1, 1}));
  holder.line.leave();
  CHECK(second.line.await(in(20s), never) == Turn::ours);
}

// The head polls, since the lease is one of `acquire`, whose session is gone; the others look now and then.
TEST_CASE("mariadb line: a hundred idle waiters of one key ask the server twenty things a second at most",
          "[mariadb][storm]") {
  const Server own;
  MariadbUnderTest t(own.address());
  SystemClock clock;
  auto acquired = request_for("k", "owner");
  acquired.kind = Kind::acquire;
  acquired.terms.ttl = 1h;
  REQUIRE(t.open()->try_acquire(acquired));
  WakeEvent cancel;
  std::vector<std::jthread> waiters;
  std::atomic<int> cancelled = 0;
  for (int i = 0; i < 100; ++i) {
    waiters.emplace_back([&, i] {
      const auto store = t.open();
      const auto name = "waiter-" + std::to_string(i);
      const auto outcome = lease::acquire(*store, clock, request_for("k", name), {{}, {}}, {}, cancel);
      if (outcome && std::holds_alternative<Cancelled>(*outcome)) ++cancelled;
    });
  }
  REQUIRE(test::wait_until([&] { return waiting(t) == 99; }));
  const BootTime queued = BootClock::now();
  std::this_thread::sleep_for(27s);  // the first looks come 25 to 50 seconds after the arrival
  const auto questions = [&] {
    return t.database().number("SELECT variable_value FROM " + test::status_table() +
                               " WHERE variable_name='Questions'");
  };
  const BootTime start = BootClock::now();
  const auto before = questions();
  std::this_thread::sleep_for(14s);
  const auto asked = static_cast<double>(questions() - before);
  const auto seconds = std::chrono::duration<double>(BootClock::now() - start).count();
  INFO("statements a second: " << asked / seconds << ", measured " << since(queued).count() << " ms");
  CHECK(asked / seconds <= 20.0);
  CHECK(asked / seconds >= 7.0);  // less would mean that nobody looks or polls
  CHECK(waiting(t) == 99);
  cancel.raise();
  waiters.clear();
  CHECK(cancelled == 100);
}

}  // namespace dblock::contract
