#include "app/words/wait_display.hpp"

#include "base/text.hpp"
#include "support/catch.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;
using lease::LockStatus;
using lease::ServerTime;

constexpr ServerTime k_seen{1'000'000s};

LockStatus held() {
  LockStatus status;
  status.key = "k";
  status.state = lease::State::held;
  status.owner = "owner";
  status.holder = {.host = "host", .pid = 7, .user = "me", .command = "job", .note = ""};
  status.acquired_at = ServerTime{k_seen.since_epoch - 61s};
  status.expires_at = ServerTime{k_seen.since_epoch + 20s};
  status.margin = 3s;
  status.heartbeat = 15s;
  status.server_time = k_seen;
  return status;
}

std::string text(const LockStatus& status, Micros age = 0s, Micros waited = 0s) {
  return describe_wait(status, age, waited);
}

}  // namespace

TEST_CASE("waiting line: the holder's times go on from when they were seen") {
  CHECK(text(held()) == R"(waiting 0s for "k": held 1m1s by me@host:7, expires in 20s)");
  CHECK(text(held(), 5s, 90s) == R"(waiting 1m30s for "k": held 1m6s by me@host:7, expires in 15s)");
  CHECK(text(held(), 2900ms, 4900ms) == R"(waiting 4s for "k": held 1m3s by me@host:7, expires in 17s)");
}

TEST_CASE("waiting line: a lease that is renewed is not said to have expired because nobody looked") {
  CHECK(text(held(), 21s) == R"(waiting 0s for "k": held 1m22s by me@host:7)");
  auto status = held();
  status.heartbeat.reset();
  CHECK(text(status, 21s) == R"(waiting 0s for "k": held 1m22s by me@host:7, expired, free in 2s)");
  CHECK(text(status, 24s) == R"(waiting 0s for "k": held 1m25s by me@host:7, expired)");
}

TEST_CASE("waiting line: an expired lease and a cooldown name the time when they are over") {
  auto status = held();
  status.state = lease::State::expired;
  status.expires_at = ServerTime{k_seen.since_epoch - 1s};
  CHECK(text(status) == R"(waiting 0s for "k": held 1m1s by me@host:7, expired, free in 2s)");
  LockStatus cooling;
  cooling.key = "k";
  cooling.state = lease::State::cooldown;
  cooling.server_time = k_seen;
  cooling.hold_until = ServerTime{k_seen.since_epoch + 9s};
  CHECK(text(cooling, 1s) == R"(waiting 0s for "k": cooling down, free in 8s)");
  CHECK(text(cooling, 10s) == R"(waiting 0s for "k": cooling down)");
}

TEST_CASE("waiting line: the place in line where it is known") {
  const auto start = [](std::size_t number, std::size_t of) {
    auto status = held();
    status.position = {number, of};
    const std::string line = text(status);
    return line.substr(0, line.find(" for "));
  };
  CHECK(start(1, 1) == "waiting 0s, 1st of 1,");
  CHECK(start(2, 5) == "waiting 0s, 2nd of 5,");
  CHECK(start(3, 3) == "waiting 0s, 3rd of 3,");
  CHECK(start(4, 30) == "waiting 0s, 4th of 30,");
  CHECK(start(12, 30) == "waiting 0s, 12th of 30,");
  CHECK(start(20, 30) == "waiting 0s, 20th of 30,");
  CHECK(start(23, 30) == "waiting 0s, 23rd of 30,");
  CHECK(start(111, 130) == "waiting 0s, 111th of 130,");
}

TEST_CASE("waiting line: text from the row is escaped") {
  auto status = held();
  status.holder.user = "\x1b[2J\n";
  CHECK(text(status) == R"(waiting 0s for "k": held 1m1s by \x1b[2J\x0a@host:7, expires in 20s)");
}

TEST_CASE("waiting line: without a terminal there is none") {
  WaitDisplay line;
  line.begin();
  CHECK_FALSE(line.show(held()));
  line.end();
  line.end();
}

}  // namespace dblock::app
