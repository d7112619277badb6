#include "base/clock.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <string>

#include "base/error.hpp"

namespace dblock {
namespace {

// Without a descriptor for a timer, a wait looks at the clock at least this often: poll()'s own timeout does
// not count the time that the machine sleeps.
constexpr int k_without_timer_ms = 1000;

UniqueFd open_timer() {
  return UniqueFd(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
}

void arm_timer(const UniqueFd& timer, BootTime when) noexcept {
  // An absolute time of zero would disarm the timer; one nanosecond after boot is as past as any.
  const auto ns = std::max<std::int64_t>(when.time_since_epoch().count(), 1);
  itimerspec spec{};
  spec.it_value.tv_sec = ns / 1'000'000'000;
  spec.it_value.tv_nsec = ns % 1'000'000'000;
  ::syscall(SYS_timerfd_settime, timer.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

}  // namespace

// Asks the kernel directly, as the timers do. A preloaded libfaketime replaces the library's functions (and
// bends timers too, by other rules), but the embedded store compares these readings between processes.
BootClock::time_point BootClock::now() noexcept {
  timespec ts{};
  ::syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &ts);
  return time_point(std::chrono::seconds(ts.tv_sec) + std::chrono::nanoseconds(ts.tv_nsec));
}

WakeEvent::WakeEvent() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!fd_) die("cannot make an event to wait for");
}

void WakeEvent::raise() noexcept {
  const std::uint64_t one = 1;
  // The write fails only when the counter is full, and then the event is raised already.
  [[maybe_unused]] const auto n = ::write(fd_.get(), &one, sizeof one);
}

void WakeEvent::clear() noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto n = ::read(fd_.get(), &count, sizeof count);
}

bool WakeEvent::raised() const noexcept {
  pollfd p{fd_.get(), POLLIN, 0};
  return ::poll(&p, 1, 0) > 0;
}

DeadlineTimer::DeadlineTimer() : fd_(open_timer()) {
  if (!fd_) die("cannot make a timer");
}

void DeadlineTimer::arm(BootTime when) noexcept {
  arm_timer(fd_, when);
}

void DeadlineTimer::disarm() noexcept {
  const itimerspec none{};
  ::syscall(SYS_timerfd_settime, fd_.get(), 0, &none, nullptr);
}

// Manages without a descriptor for a timer: a full table of descriptors must not end a process that holds a
// lease.
bool SystemClock::wait_until(BootTime when, const WakeEvent& wake) {
  const UniqueFd timer = open_timer();
  if (timer) arm_timer(timer, when);
  while (!wake.raised()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - now());
    if (left.count() <= 0) return false;
    const int limit = timer ? -1 : static_cast<int>(std::min<std::int64_t>(left.count(), k_without_timer_ms));
    std::array<pollfd, 2> fds{pollfd{wake.fd(), POLLIN, 0}, pollfd{timer.get(), POLLIN, 0}};
    ::poll(fds.data(), fds.size(), limit);
  }
  return true;
}

}  // namespace dblock
