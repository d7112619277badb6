// The page that dblock and its guardian share. What goes wrong only on processors that reorder writes shows
// here under ThreadSanitizer, which judges the order that the code asks for and not the one it happens to
// get.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <functional>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "process/messages.hpp"
#include "support/catch.hpp"

namespace dblock::process {
namespace {

using namespace std::chrono_literals;

pid_t fork_writer(const std::function<void()>& write) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  write();
  ::_exit(0);
}

int status_of(pid_t pid) {
  int status = -1;
  ::waitpid(pid, &status, 0);
  return status;
}

// A deadline whose halves say the same, so that half of one and half of another show.
BootTime twin(std::int64_t number) {
  return BootTime(Nanos(number << 32 | number));
}

bool is_twin(BootTime deadline) {
  const std::int64_t ns = deadline.time_since_epoch().count();
  return ns >> 32 == (ns & std::numeric_limits<std::uint32_t>::max());
}

BootTime after(BootTime deadline) {
  return twin((deadline.time_since_epoch().count() >> 32) + 1);
}

}  // namespace

TEST_CASE("who reads a deadline sees all that was written before it", "[tsan][safety]") {
  constexpr std::int64_t k_rounds = 2000;
  const auto page = make_shared_page();
  REQUIRE(page);
  SharedState& shared = **page;
  std::vector<std::int64_t> written(k_rounds + 1);  // plain memory
  std::int64_t wrong = 0;
  {
    const std::jthread reader([&] {
      for (std::int64_t seen = 0; seen < k_rounds;) {
        const auto deadline = shared.deadline();
        if (!deadline) continue;
        seen = deadline->time_since_epoch().count();
        if (written[static_cast<std::size_t>(seen)] != seen) ++wrong;
      }
    });
    for (std::int64_t i = 1; i <= k_rounds; ++i) {
      written[static_cast<std::size_t>(i)] = i;
      shared.extend_deadline(BootTime(Nanos(i)));
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("who sees the release armed sees all that was written before", "[tsan][safety]") {
  const auto page = make_shared_page();
  REQUIRE(page);
  SharedState& shared = **page;
  int written = 0;  // plain memory
  int seen = 0;
  {
    const std::jthread reader([&] {
      while (!shared.release_armed()) {
      }
      seen = written;
    });
    written = 7;
    shared.arm_release();
  }
  CHECK(seen == 7);
}

TEST_CASE("a deadline that several processes set at once never goes back, and is never read in halves",
          "[safety]") {
  const auto page = make_shared_page();
  REQUIRE(page);
  SharedState& shared = **page;
  CHECK_FALSE(shared.deadline());
  shared.extend_deadline(twin(1));
  const BootTime until = BootClock::now() + 500ms;
  // Long enough for each to be interrupted at any step, also where all share one processor.
  const auto write = [&shared, until] {
    BootTime seen = twin(1);
    const auto look = [&] {
      const BootTime before = std::exchange(seen, *shared.deadline());
      if (seen < before || !is_twin(seen)) ::_exit(1);
    };
    do {
      for (int i = 0; i < 1000; ++i) {
        shared.extend_deadline(after(seen));
        look();
      }
    } while (BootClock::now() < until);
  };
  const std::array<pid_t, 4> writers{fork_writer(write), fork_writer(write), fork_writer(write),
                                     fork_writer(write)};
  for (const pid_t writer : writers) CHECK(status_of(writer) == 0);
  CHECK(shared.deadline() > twin(1));
}

TEST_CASE("what a process wrote into the shared page outlives its being killed", "[safety]") {
  const auto page = make_shared_page();
  REQUIRE(page);
  SharedState& shared = **page;
  CHECK_FALSE(shared.release_armed());
  const int status = status_of(fork_writer([&shared] {
    shared.arm_release();
    shared.extend_deadline(twin(5));
    ::raise(SIGKILL);
  }));
  CHECK(WIFSIGNALED(status));
  CHECK(shared.release_armed());
  CHECK(shared.deadline() == twin(5));
}

}  // namespace dblock::process
