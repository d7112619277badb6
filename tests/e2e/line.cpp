// Waiting in a server's line: order of arrival, and what happens to the others when somebody in the line is
// stopped, killed, frozen or cut off.

#include "support/line.hpp"

#include <algorithm>

#include "support/catch.hpp"
#include "support/proxy.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

class ServerLine : public LineBefore<ServerDatabase> {
 public:
  template <class... Of>
  explicit ServerLine(const Of&... of) : LineBefore({"--ttl", "10s"}, of...) {}
};

// A fifth of the server's sessions are for waiters that sleep: all of these can.
TEST_CASE("fifty waiters on a server run in the order of their arrival", "[server]") {
  const Server server({"--max-connections=400"});
  ServerLine line(server.address());
  check_order_of_arrival(line, 50);
  CHECK(wait_until([&] { return line.database().sessions().empty(); }));
}

// The others keep no session, and all have their turn.
TEST_CASE("no more than a fifth of a server's sessions belong to waiters that sleep", "[server]") {
  const Server server({"--max-connections=30"});
  ServerLine line(server.address());
  std::vector<Process*> waiters;
  Words first_six;
  for (int i = 0; i < 12; ++i) {
    const std::string name = "waiter-" + std::to_string(i);
    if (i < 6) first_six.push_back(name);
    waiters.push_back(&line.join(name));
  }
  CHECK(wait_until([&] { return line.database().sleepers().size() == 6; }));
  // The holder, the sleepers, and who looks just now.
  CHECK(wait_until([&] { return line.database().sessions().size() == 1 + 6; }));
  CHECK(line.database().line().size() == 12);
  line.release();
  for (Process* const waiter : waiters) CHECK(waiter->wait(30s * slowness()) == exited(0));
  const Words ran = line.who_ran();
  REQUIRE(ran.size() == 12);
  CHECK(Words(ran.begin(), ran.begin() + 6) == first_six);
}

TEST_CASE("a waiter in a server's line that is stopped or killed leaves nothing, and the order as it was",
          "[server][tsan][other-servers][asan-server]") {
  ServerLine line;
  check_stopped_and_killed_leave_nothing(
      line, [&] { CHECK(wait_until([&] { return line.database().sessions().size() == 4; })); });
}

TEST_CASE("waiters whose sessions are killed again and again keep their places", "[server]") {
  const Server server;  // on the shared one all seats may be taken
  ServerLine line(server.address());
  std::vector<Process*> waiters;
  for (const std::string name : {"first", "second", "third"}) waiters.push_back(&line.join(name));
  const auto places = line.database().line();
  Words sessions;        // of those that sleep, oldest first
  long long killed = 0;  // the highest id among them
  const auto all_asleep_again = [&] {
    sessions = line.database().sleepers();
    return sessions.size() == 3 && std::stoll(sessions.front()) > killed;
  };
  // One that finds the one before it between two connections tries to sleep again after five seconds, and
  // then ever later, up to a minute; on a busy machine that happens to two of them in turn.
  const auto limit = 240s * slowness();
  for (int round = 0; round < 3; ++round) {
    REQUIRE(wait_until(all_asleep_again, limit));
    // Also one that has been woken since: its session is the same.
    for (const auto& session : sessions) line.database().kill_session(session);
    killed = std::stoll(sessions.back());
  }
  REQUIRE(wait_until(all_asleep_again, limit));
  CHECK(line.database().line() == places);
  line.release();
  for (Process* const waiter : waiters) CHECK(waiter->wait() == exited(0));
  CHECK(line.who_ran() == Words{"first", "second", "third"});
}

TEST_CASE("waiters of two accounts stand in one line, which each of the accounts sees", "[server]") {
  ServerLine line;
  ServerDatabase& database = line.database();
  const Words urls{database.url(), database.url(database.account())};
  std::vector<Process> waiters;
  Words expected;
  for (std::size_t i = 0; i < 4; ++i) {
    expected.push_back("waiter-" + std::to_string(i));
    const Words job = sh("echo " + expected.back() + " >>" + line.file("log"));
    waiters.emplace_back(dblock_spawn_at(urls[i % 2], run_words("k", {"--wait", "120s"}, job)));
    REQUIRE(soon_in_line(database, i + 1));
  }
  for (const auto& url : urls) CHECK(waiters_shown(url) == pids_of(waiters));
  line.release();
  check_all_succeed(waiters);
  CHECK(line.who_ran() == expected);
}

TEST_CASE("the first waiter keeps its place though a proxy cuts its idle session again and again",
          "[server][asan-server]") {
  ServerLine line;
  Proxy proxy(line.database().server());
  const auto sleeps = [&] {
    return std::ranges::count_if(proxy.statements(), containing("GET_LOCK(CONCAT('dblock.seat.'"));
  };
  Process first(dblock_spawn_at(proxy.url(line.database().name()),
                                run_words("k", {"--wait", "120s"}, sh("echo first >>" + line.file("log")))));
  REQUIRE(wait_until([&] { return sleeps() == 1; }));
  Process& second = line.join("second");
  Process& third = line.join("third");
  for (int round = 2; round < 5; ++round) {
    proxy.cut_all();
    REQUIRE(wait_until([&] { return sleeps() >= round; }));
  }
  CHECK(line.database().line().size() == 3);
  line.release();
  CHECK(first.wait() == exited(0));
  CHECK(second.wait() == exited(0));
  CHECK(third.wait() == exited(0));
  CHECK(line.who_ran() == Words{"first", "second", "third"});
}

TEST_CASE("a frozen waiter at the head of a server's line costs about three seconds and runs when it thaws",
          "[server][tsan][other-servers]") {
  ServerLine line;
  check_frozen_waiter_is_passed(line);
}

TEST_CASE("a holder's death wakes a server's line once its job is gone", "[server]") {
  ServerLine line;
  check_holders_death_wakes(line);
}

TEST_CASE("a server that restarts ends no wait", "[server][other-servers]") {
  Server server;
  ServerDatabase database(server.address());
  const TempDir directory;
  const std::string owner = take(database);
  const auto waiter = [&](const std::string& name) {
    return waiting_run(database, {"--wait", "120s"}, sh("echo " + name + " >>" + directory.file("log")));
  };
  Process first = waiter("first");
  Process second = waiter("second");
  // Nobody can sleep behind a lease of `acquire`: the first waiter looks often, and the second sleeps.
  const auto second_sleeps = [&] { return database.sleepers().size() == 1; };
  REQUIRE(wait_until(second_sleeps));
  server.stop_hard();
  server.start();
  CHECK(wait_until(second_sleeps));
  release_lease(database, owner);
  CHECK(first.wait() == exited(0));
  CHECK(second.wait() == exited(0));
  CHECK(lines(read_file(directory.file("log"))) == Words{"first", "second"});
}

TEST_CASE("a wait in a server's line ends in time with the holder's name, and the line goes on", "[server]") {
  ServerLine line;
  check_wait_ends_in_time(line);
}

}  // namespace
}  // namespace dblock::test
