#include "base/clock.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <functional>
#include <string_view>

#include "child.hpp"
#include "support/catch.hpp"
#include "support/privilege.hpp"

namespace dblock {
namespace {

using namespace std::chrono_literals;

// While it lives this process can open nothing.
class FullTable {
 public:
  FullTable() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit standard_ones{3, before_.rlim_max};  // poll() wants no more descriptors than the limit
    ::setrlimit(RLIMIT_NOFILE, &standard_ones);
  }
  ~FullTable() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FullTable(const FullTable&) = delete;
  FullTable& operator=(const FullTable&) = delete;

 private:
  rlimit before_{};
};

// As after a sleep of the machine: the clock that counts the sleep is far ahead of the one that does not. 0
// when `check` holds there, 1 when it does not, 2 when this machine has no such place.
int after_a_sleep(const std::function<bool()>& check) {
  return code_of_child([&] {
    constexpr std::string_view million_seconds = "boottime 1000000 0\n";
    if (::unshare(CLONE_NEWTIME) != 0) return 2;
    const UniqueFd offsets(::open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC));
    if (::write(offsets.get(), million_seconds.data(), million_seconds.size()) < 0) return 2;
    return in_child(check) ? 0 : 1;  // the namespace is for children
  });
}

bool comes(const DeadlineTimer& timer, std::chrono::milliseconds limit) {
  pollfd entry{timer.fd(), POLLIN, 0};
  return ::poll(&entry, 1, static_cast<int>(limit.count())) > 0;
}

}  // namespace

TEST_CASE("deadlines go by the clock that goes on while the machine sleeps, and so do the timers for them",
          "[safety]") {
  const int code = after_a_sleep([] {
    timespec awake{};
    ::clock_gettime(CLOCK_MONOTONIC, &awake);
    const BootTime now = BootClock::now();
    if (now.time_since_epoch() < std::chrono::seconds(awake.tv_sec) + 900'000s) return false;
    DeadlineTimer timer;
    timer.arm(now + 1h);
    if (comes(timer, 0ms)) return false;
    timer.arm(now + 1ms);
    if (!comes(timer, 10s)) return false;
    SystemClock clock;
    const WakeEvent never;
    return !clock.wait_until(clock.now() + 1ms, never);  // by another clock it would wait for days
  });
  DBLOCK_NEEDS(code == 2 ? "no time namespace of one's own" : "");
  CHECK(code == 0);
}

TEST_CASE("a wait needs no descriptor: where none is to be had it ends in time all the same", "[safety]") {
  SystemClock clock;
  WakeEvent wake;
  const BootTime until = clock.now() + 30ms;
  bool in_vain = false;
  bool woken = false;
  {
    const FullTable full;  // for the waits alone: what checks types at run time needs a descriptor, too
    in_vain = !clock.wait_until(until, wake);
    wake.raise();
    woken = clock.wait_until(clock.now() + 1h, wake);
  }
  CHECK(in_vain);
  CHECK(clock.now() >= until);
  CHECK(woken);
}

}  // namespace dblock
