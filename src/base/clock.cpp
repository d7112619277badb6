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

// Out of descriptors, most likely. Not abort(): there is nothing wrong here that a core would show, and
// whoever watches this process (the guardian, the holder) stops the job.
[[noreturn]] void die(const char* what) {
  const std::string line = "dblock: exit 70 (internal): " + with_errno(what, errno) + "\n";
  [[maybe_unused]] const auto n = ::write(STDERR_FILENO, line.data(), line.size());
  ::_exit(70);
}

}  // namespace

// The kernel is asked directly, here and for timers: the library's functions answer to whoever preloads
// libfaketime (which bends timers too, by other rules), and the embedded store compares these readings
// between processes.
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
  // The counter can only be full when it is raised already.
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

DeadlineTimer::DeadlineTimer() : fd_(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (!fd_) die("cannot make a timer");
}

void DeadlineTimer::arm(BootTime when) noexcept {
  // An absolute time of zero would disarm the timer; one nanosecond after boot is as past as any.
  const auto ns = std::max<std::int64_t>(when.time_since_epoch().count(), 1);
  itimerspec spec{};
  spec.it_value.tv_sec = ns / 1'000'000'000;
  spec.it_value.tv_nsec = ns % 1'000'000'000;
  ::syscall(SYS_timerfd_settime, fd_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

void DeadlineTimer::disarm() noexcept {
  const itimerspec none{};
  ::syscall(SYS_timerfd_settime, fd_.get(), 0, &none, nullptr);
}

bool SystemClock::wait_until(BootTime when, const WakeEvent& wake) {
  if (wake.raised()) return true;
  if (when <= now()) return false;
  DeadlineTimer timer;
  timer.arm(when);
  for (;;) {
    std::array<pollfd, 2> fds{pollfd{wake.fd(), POLLIN, 0}, pollfd{timer.fd(), POLLIN, 0}};
    if (::poll(fds.data(), fds.size(), -1) < 0 && errno == EINTR) continue;
    return (fds[0].revents & POLLIN) != 0;
  }
}

}  // namespace dblock
