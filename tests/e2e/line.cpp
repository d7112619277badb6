// Waiting in a server's line: order of arrival, and what happens to the others when somebody in the line is
// stopped, killed or frozen.
#include <catch2/catch.hpp>

#include "support/line.hpp"

namespace dblock::test {
namespace {

using std::chrono::steady_clock;

class ServerLine : public LineBefore<ServerDatabase> {
 public:
  ServerLine() : LineBefore({"--ttl", "10s"}) {}

  [[nodiscard]] long long waiting() {
    return database().number("SELECT COUNT(*) FROM information_schema.processlist WHERE db='" +
                             database().name() + "' AND info LIKE 'SET SESSION %dblock waits%'");
  }
  [[nodiscard]] long long sessions() {
    return database().number("SELECT COUNT(*) FROM information_schema.processlist WHERE user='app' AND db='" +
                             database().name() + "'");
  }

  // Returns once the server has the waiter in its line.
  Process& join(const std::string& name) {
    const auto before = waiting();
    Process& waiter = start(name, {"--wait", "120s"});
    REQUIRE(wait_until([&] { return waiting() == before + 1; }));
    return waiter;
  }
};

TEST_CASE("fifty waiters on a server run in the order of their arrival", "[server]") {
  ServerLine line;
  std::vector<Process*> waiters;
  Words expected;
  for (int i = 0; i < 50; ++i) {
    expected.push_back("waiter-" + std::to_string(i));
    waiters.push_back(&line.join(expected.back()));
  }
  line.release();
  for (Process* waiter : waiters) CHECK(waiter->wait() == exited(0));
  CHECK(line.who_ran() == expected);
  CHECK(wait_until([&] { return line.sessions() == 0; }));
}

TEST_CASE("a waiter in a server's line that is stopped or killed leaves nothing, and the order as it was",
          "[server][tsan]") {
  ServerLine line;
  Process& first = line.join("first");
  Process& stopped = line.join("stopped");
  Process& second = line.join("second");
  Process& killed = line.join("killed");
  Process& third = line.join("third");
  const auto before = steady_clock::now();
  stopped.signal(SIGTERM);
  CHECK(stopped.wait() == killed_by(SIGTERM));
  CHECK(steady_clock::now() - before < 500ms * slowness());
  CHECK(stopped.tree().empty());
  killed.signal(SIGKILL);
  CHECK(killed.wait() == killed_by(SIGKILL));
  CHECK(wait_until([&] { return line.waiting() == 3; }));
  CHECK(wait_until([&] { return line.sessions() == 4; }));
  line.release();
  CHECK(first.wait() == exited(0));
  CHECK(second.wait() == exited(0));
  CHECK(third.wait() == exited(0));
  CHECK(line.who_ran() == Words{"first", "second", "third"});
  CHECK_FALSE(line.database().has_holder("k"));
}

TEST_CASE("a frozen waiter at the head of a server's line costs about two seconds and runs when it thaws",
          "[server][tsan]") {
  ServerLine line;
  Process& frozen = line.join("frozen");
  Process& second = line.join("second");
  Process& third = line.join("third");
  frozen.freeze();
  line.release();
  const auto released = steady_clock::now();
  CHECK(second.wait() == exited(0));
  CHECK(third.wait() == exited(0));
  CHECK(steady_clock::now() - released < 4s * slowness());
  CHECK(line.who_ran() == Words{"second", "third"});
  CHECK(frozen.running());
  frozen.signal(SIGCONT);
  CHECK(frozen.wait() == exited(0));
  CHECK(line.who_ran() == Words{"second", "third", "frozen"});
}

TEST_CASE("a holder's death wakes a server's line once its job is gone", "[server]") {
  ServerLine line;
  Process& first = line.join("first");
  Process& second = line.join("second");
  line.holder().signal(SIGKILL);
  CHECK(first.wait() == exited(0));
  CHECK(second.wait() == exited(0));
  CHECK(line.who_ran() == Words{"first", "second"});
}

TEST_CASE("a server that restarts ends no wait", "[server]") {
  Server server;
  ServerDatabase database(server.address());
  REQUIRE(dblock(database, {"acquire", "--key", "k", "--ttl", "60s"}).exit == exited(0));
  const std::string owner = database.column("k", "lock_value");
  Process first(dblock_spawn(database, run_words("k", {"--wait", "120s"}, {"true"})));
  Process second(dblock_spawn(database, run_words("k", {"--wait", "120s"}, {"true"})));
  const auto waiting = [&] {
    return database.number(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SET SESSION %dblock waits%'");
  };
  REQUIRE(wait_until([&] { return waiting() == 1; }));
  server.stop_hard();
  server.start();
  CHECK(wait_until([&] { return waiting() == 1; }));  // one leads again, the other is in line again
  REQUIRE(dblock(database, {"release", "--key", "k", "--owner", owner}).exit == exited(0));
  CHECK(first.wait() == exited(0));
  CHECK(second.wait() == exited(0));
}

TEST_CASE("a wait in a server's line ends in time with the holder's name", "[server]") {
  ServerLine line;
  Process& first = line.join("first");
  const auto before = steady_clock::now();
  const auto late = dblock(line.database(), run_words("k", {"--wait", "700ms"}, {"true"}));
  const auto took = steady_clock::now() - before;
  CHECK(late.exit == exited(75));
  CHECK(ends_with_exit_line(late.err, 75));
  CHECK(took >= 700ms);
  CHECK(took < 2s * slowness());
  line.release();
  CHECK(first.wait() == exited(0));
}

}  // namespace
}  // namespace dblock::test
