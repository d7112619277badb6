#include "app/words/describe.hpp"
#include "app/words/wait_display.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "app/words/session_reports.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "child.hpp"
#include "lease_fakes.hpp"
#include "support/catch.hpp"
#include "temp_directory.hpp"

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

constexpr const char* k_waiting_child = "waiting child";

// What k_waiting_child writes to stderr, a line each. A process of its own, because the log binds itself to a
// process's stderr once.
std::vector<std::string> lines_of_waiting_child() {
  const TempDirectory directory;
  const std::string file = directory.file("stderr");
  const int ended = code_of_child([&file] {
    ::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
    ::dup2(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600), STDERR_FILENO);
    ::execl("/proc/self/exe", "unit_tests", k_waiting_child, nullptr);
    return -1;
  });
  CHECK(ended == 0);
  std::vector<std::string> lines;
  std::ifstream written(file);
  for (std::string line; std::getline(written, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("waiting child", "[.]") {
  log::configure({.verbose = true});
  test::FakeClock clock;
  const auto events = with_reports(lease::WaitPolicy{1h}, {}, clock);
  for (int second = 0; second < 150; ++second) {
    auto status = held();
    status.holder.user = "holder-" + std::to_string(second);
    events.acquiring.on_conflict(status);
    clock.tick(1s);
  }
  SUCCEED();
}

TEST_CASE("the line of a wait and a refusal tell that the holder's command has ended") {
  LockStatus status = held();
  status.job_ended_at = ServerTime{k_seen.since_epoch - 30s};
  CHECK(text(status, 5s, 5s) ==
        "waiting 5s for \"k\": held 1m6s by me@host:7, its command ended 35s ago, and it waits for the "
        "leftovers, expires in 15s unless renewed");
  CHECK(describe_conflict(status) ==
        "lock \"k\" is held by me@host:7 (job) for 1m1s; its command ended 30s ago, and it waits for the "
        "leftovers; its lease runs out in 20s unless renewed");
  status.job_ended_at.reset();
  CHECK(text(status).find("command") == std::string::npos);
}

TEST_CASE("a waiting run without a live line names the holder at once and then every minute") {
  const auto lines = lines_of_waiting_child();
  REQUIRE(lines.size() == 3);
  for (const std::size_t minute : {0, 1, 2}) {
    CAPTURE(lines[minute]);
    CHECK(lines[minute].starts_with("dblock: waiting: "));
    CHECK(lines[minute].find(" holder-" + std::to_string(60 * minute) + "@host") != std::string::npos);
  }
}

TEST_CASE("waiting line: the holder's times go on from when they were seen") {
  CHECK(text(held()) == R"(waiting 0s for "k": held 1m1s by me@host:7, expires in 20s unless renewed)");
  CHECK(text(held(), 5s, 90s) ==
        R"(waiting 1m30s for "k": held 1m6s by me@host:7, expires in 15s unless renewed)");
  CHECK(text(held(), 2900ms, 4900ms) ==
        R"(waiting 4s for "k": held 1m3s by me@host:7, expires in 17s unless renewed)");
}

TEST_CASE("waiting line: a lease that is renewed is not said to have expired because nobody looked") {
  CHECK(text(held(), 21s) == R"(waiting 0s for "k": held 1m22s by me@host:7)");
  auto status = held();
  status.heartbeat.reset();
  CHECK(text(status, 5s) == R"(waiting 0s for "k": held 1m6s by me@host:7, expires in 15s)");
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
  CHECK(text(status) ==
        R"(waiting 0s for "k": held 1m1s by \x1b[2J\x0a@host:7, expires in 20s unless renewed)");
}

TEST_CASE("waiting line: without a terminal there is none") {
  WaitDisplay line;
  line.begin();
  CHECK_FALSE(line.show(held()));
  line.end();
  line.end();
}

}  // namespace dblock::app
