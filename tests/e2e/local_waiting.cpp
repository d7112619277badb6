// Waiting in the embedded store's line: order of arrival, and what happens to the others when somebody in the
// line is cancelled, killed or frozen.
#include <chrono>

#include "support/catch.hpp"
#include "support/line.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

struct Line : LineBefore<Database> {
  Line() : LineBefore({}) {}
};

TEST_CASE("ten waiters run in the order of their arrival", "[local][tsan]") {
  Line line;
  check_order_of_arrival(line, 10);
}

TEST_CASE("waiters that are cancelled or killed leave nothing behind and the order as it was",
          "[local][tsan][asan-local]") {
  Line line;
  check_stopped_and_killed_leave_nothing(line, [] {});
}

TEST_CASE("the head of the line cancelled or killed: the next one takes its place", "[local]") {
  for (const int number : {SIGTERM, SIGKILL}) {
    Line line;
    Process& head = line.join("head");
    Process& next = line.join("next");
    head.signal(number);
    CHECK(head.wait() == killed_by(number));
    line.release();
    CHECK(next.wait() == exited(0));
    CHECK(line.who_ran() == Words{"next"});
  }
}

TEST_CASE("a frozen waiter at the head delays the others for about three seconds and then runs too",
          "[local][tsan]") {
  Line line;
  check_frozen_waiter_is_passed(line);
}

TEST_CASE("a holder's death wakes the line once its job is gone", "[local]") {
  Line line;
  check_holders_death_wakes(line);
}

TEST_CASE("a wait in line ends in time with the holder's name, and the line goes on", "[local]") {
  Line line;
  check_wait_ends_in_time(line);
}

TEST_CASE("a lease that nobody renews is taken over when it ends, in order", "[local]") {
  const Database database;
  const TempDir directory;
  take(database, "k", {"--ttl", "1s", "--margin", "0"});
  const std::string log = directory.file("log");
  const auto wait_as = [&](const std::string& name) {
    return dblock_spawn(database, run_words("k", {"-v", "--wait", "60s"}, sh("echo " + name + " >>" + log)));
  };
  Process first(wait_as("first"));
  REQUIRE(soon_says(first, "waiting: "));
  Process second(wait_as("second"));
  CHECK(first.wait() == exited(0));
  CHECK(second.wait() == exited(0));
  CHECK(lines(read_file(log)) == Words{"first", "second"});
}

TEST_CASE("the job gets neither the line's descriptor nor another signal mask", "[local]") {
  Line line;
  const std::string seen = line.file("seen");
  Process waiter = waiting_run(line.database(), {"--wait", "60s"},
                               sh(print_signals() + " >" + seen + "; ls -l /proc/self/fd >>" + seen));
  line.release();
  REQUIRE(waiter.wait() == exited(0));
  const std::string text = read_file(seen);
  INFO(text);
  CHECK_FALSE(says(text, "-line"));
  CHECK(count_of(text, "0000000000000000") == 2);
}

}  // namespace
}  // namespace dblock::test
