// Waiting in a server's line: order of arrival, and what happens to the others when somebody in the line is
// stopped, killed or frozen.

#include "support/line.hpp"
#include "support/catch.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

class ServerLine : public LineBefore<ServerDatabase> {
 public:
  ServerLine() : LineBefore({"--ttl", "10s"}) {}

  // Returns once the server has the waiter in its line.
  Process& join(const std::string& name) {
    const auto before = database().newest_in_line();
    Process& waiter = start(name, {"--wait", "120s"});
    REQUIRE(wait_until([&] { return database().newest_in_line() > before; }));
    return waiter;
  }
};

TEST_CASE("fifty waiters on a server run in the order of their arrival", "[server]") {
  ServerLine line;
  check_order_of_arrival(line, 50);
  CHECK(wait_until([&] { return line.database().sessions().empty(); }));
}

TEST_CASE("a waiter in a server's line that is stopped or killed leaves nothing, and the order as it was",
          "[server][tsan][other-servers][asan-server]") {
  ServerLine line;
  check_stopped_and_killed_leave_nothing(line, [&] {
    CHECK(wait_until([&] { return line.database().waiting_in_line() == 3; }));
    CHECK(wait_until([&] { return line.database().sessions().size() == 4; }));
  });
}

TEST_CASE("a frozen waiter at the head of a server's line costs about two seconds and runs when it thaws",
          "[server][tsan][other-servers]") {
  ServerLine line;
  Process& frozen = line.join("frozen");
  Process& second = line.join("second");
  Process& third = line.join("third");
  frozen.freeze();
  line.release();
  // A line that is believed to stand still, the next best answer, would cost 43 s.
  CHECK(second.wait(10s * slowness()) == exited(0));
  CHECK(third.wait(10s * slowness()) == exited(0));
  CHECK(line.who_ran() == Words{"second", "third"});
  CHECK(frozen.running());
  frozen.signal(SIGCONT);
  CHECK(frozen.wait() == exited(0));
  CHECK(line.who_ran() == Words{"second", "third", "frozen"});
}

TEST_CASE("a holder's death wakes a server's line once its job is gone", "[server]") {
  ServerLine line;
  check_holders_death_wakes(line);
}

TEST_CASE("a server that restarts ends no wait", "[server][other-servers]") {
  Server server;
  ServerDatabase database(server.address());
  const std::string owner = take(database);
  Process first(dblock_spawn(database, run_words("k", {"--wait", "120s"}, {"true"})));
  Process second(dblock_spawn(database, run_words("k", {"--wait", "120s"}, {"true"})));
  REQUIRE(wait_until([&] { return database.waiting_in_line() == 1; }));
  server.stop_hard();
  server.start();
  CHECK(wait_until(
      [&] { return database.waiting_in_line() == 1; }));  // one leads again, the other is in line again
  release_lease(database, owner);
  CHECK(first.wait() == exited(0));
  CHECK(second.wait() == exited(0));
}

TEST_CASE("a wait in a server's line ends in time with the holder's name, and the line goes on", "[server]") {
  ServerLine line;
  check_wait_ends_in_time(line);
}

}  // namespace
}  // namespace dblock::test
