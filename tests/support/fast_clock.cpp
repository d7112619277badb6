// Preloaded: every clock of the program runs some times as fast, and it waits for as much shorter.
//
// DBLOCK_TEST_CLOCK=RATE:WALL:MONOTONIC:BOOT: how many times as fast, and when, in nanoseconds by each clock,
// that began. Programs that get the same text agree on the time. libfaketime does the same for most programs,
// but dblock reads its clock and sets its timers by syscall(), which libfaketime leaves alone.
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "support/preloaded.hpp"

namespace {

using dblock::test::real;

using Nanos = std::int64_t;
constexpr Nanos k_second = 1'000'000'000;
constexpr Nanos k_never = INT64_MAX;
constexpr long k_mask_size = 8;  // of the kernel's signal mask, in bytes

long call_system(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  static auto* const call = real<long(long, ...)>("syscall");
  return call(number, a, b, c, d, e, f);
}
template <typename Type>
long word(Type* pointer) {
  return reinterpret_cast<long>(pointer);
}

struct Begin {
  long rate = 1;
  std::array<Nanos, 3> at{};  // wall, monotonic, boot
};
const Begin& begin() {
  static const Begin begun = [] {
    Begin read;
    const char* const text = std::getenv("DBLOCK_TEST_CLOCK");
    if (text == nullptr ||
        std::sscanf(text, "%ld:%ld:%ld:%ld", &read.rate, &read.at[0], &read.at[1], &read.at[2]) != 4)
      std::abort();
    return read;
  }();
  return begun;
}

Nanos nanos_of(const timespec& time) {
  return time.tv_sec > k_never / k_second - 1 ? k_never : time.tv_sec * k_second + time.tv_nsec;
}
timespec time_of(Nanos nanos) {
  return {nanos / k_second, nanos % k_second};
}

// The moment at which the clock began; null for one that does not show time: of a processor, for example.
const Nanos* begin_of(clockid_t clock) {
  switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
      return &begin().at[0];
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
      return &begin().at[1];
    case CLOCK_BOOTTIME:
      return &begin().at[2];
    default:
      return nullptr;
  }
}

int read_clock(clockid_t clock, timespec* time) {
  const int result = static_cast<int>(call_system(SYS_clock_gettime, clock, word(time)));
  const Nanos* const begun = begin_of(clock);
  if (result == 0 && begun != nullptr) *time = time_of(*begun + (nanos_of(*time) - *begun) * begin().rate);
  return result;
}

Nanos shortened(Nanos length) {
  return length <= 0 || length == k_never ? length : 1 + length / begin().rate;
}
timespec shortened(const timespec& length) {
  return time_of(shortened(nanos_of(length)));
}
// The kernel's time at which this clock of ours shows `when`.
timespec kernels_time(clockid_t clock, const timespec& when) {
  const Nanos* const begun = begin_of(clock);
  if (begun == nullptr || nanos_of(when) <= *begun) return when;
  return time_of(*begun + shortened(nanos_of(when) - *begun));
}

int set_timer(int fd, int flags, const itimerspec* told, itimerspec* before) {
  itimerspec set = *told;
  set.it_interval = shortened(told->it_interval);
  // dblock's timers are all by this clock.
  set.it_value = (flags & TFD_TIMER_ABSTIME) != 0 ? kernels_time(CLOCK_BOOTTIME, told->it_value)
                                                  : shortened(told->it_value);
  return static_cast<int>(call_system(SYS_timerfd_settime, fd, flags, word(&set), word(before)));
}

int poll_for(pollfd* entries, nfds_t count, const timespec* limit, const sigset_t* mask) {
  timespec left = limit == nullptr ? timespec{} : shortened(*limit);
  return static_cast<int>(call_system(SYS_ppoll, word(entries), static_cast<long>(count),
                                      limit == nullptr ? 0 : word(&left), word(mask), k_mask_size));
}

timespec from_ms(int ms) {
  return {ms / 1000, ms % 1000 * 1'000'000L};
}

// Times of conditions and semaphores do not say by which clock they are.
clockid_t clock_of(const timespec& when) {
  return when.tv_sec > begin().at[0] / k_second / 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  return read_clock(clock, time);
}
int gettimeofday(timeval* time, void*) noexcept {
  timespec now{};
  read_clock(CLOCK_REALTIME, &now);
  *time = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}
time_t time(time_t* where) noexcept {
  timespec now{};
  read_clock(CLOCK_REALTIME, &now);
  if (where != nullptr) *where = now.tv_sec;
  return now.tv_sec;
}

long syscall(long number, ...) noexcept {
  va_list more;
  va_start(more, number);
  const auto values = dblock::test::words_of(more);
  va_end(more);
  if (number == SYS_clock_gettime)
    return read_clock(static_cast<clockid_t>(values[0]), reinterpret_cast<timespec*>(values[1]));
  if (number == SYS_timerfd_settime)
    return set_timer(static_cast<int>(values[0]), static_cast<int>(values[1]),
                     reinterpret_cast<const itimerspec*>(values[2]),
                     reinterpret_cast<itimerspec*>(values[3]));
  return call_system(number, values[0], values[1], values[2], values[3], values[4], values[5]);
}
int timerfd_settime(int fd, int flags, const itimerspec* told, itimerspec* before) noexcept {
  return set_timer(fd, flags, told, before);
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* length, timespec* left) {
  const timespec told = flags == TIMER_ABSTIME ? kernels_time(clock, *length) : shortened(*length);
  return call_system(SYS_clock_nanosleep, clock, flags, word(&told), word(left)) == 0 ? 0 : errno;
}
int nanosleep(const timespec* length, timespec* left) {
  const timespec told = shortened(*length);
  return static_cast<int>(call_system(SYS_nanosleep, word(&told), word(left)));
}
int usleep(useconds_t length) {
  const timespec told{length / 1'000'000, length % 1'000'000 * 1000L};
  return nanosleep(&told, nullptr);
}
unsigned sleep(unsigned length) {
  const timespec told{length, 0};
  nanosleep(&told, nullptr);
  return 0;
}

int poll(pollfd* entries, nfds_t count, int limit) {
  const timespec length = from_ms(limit);
  return poll_for(entries, count, limit < 0 ? nullptr : &length, nullptr);
}
int __poll_chk(pollfd* entries, nfds_t count, int limit, size_t) {
  return poll(entries, count, limit);
}
int ppoll(pollfd* entries, nfds_t count, const timespec* limit, const sigset_t* mask) {
  return poll_for(entries, count, limit, mask);
}
int select(int count, fd_set* reads, fd_set* writes, fd_set* others, timeval* limit) {
  timespec left = limit == nullptr ? timespec{} : shortened(timespec{limit->tv_sec, limit->tv_usec * 1000});
  return static_cast<int>(call_system(SYS_pselect6, count, word(reads), word(writes), word(others),
                                      limit == nullptr ? 0 : word(&left)));
}
int epoll_wait(int fd, epoll_event* events, int count, int limit) {
  const int left = limit <= 0 ? limit : static_cast<int>(1 + limit / begin().rate);
  return static_cast<int>(call_system(SYS_epoll_pwait, fd, word(events), count, left, 0, k_mask_size));
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  static auto* const wait =
      real<int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)>("pthread_cond_clockwait");
  const timespec told = kernels_time(clock, *until);
  return wait(condition, mutex, clock, &told);
}
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  using Wait = int(pthread_cond_t*, pthread_mutex_t*, const timespec*);
  // glibc has two of this name; the other one is for programs of old.
  static auto* const newer =
      reinterpret_cast<Wait*>(::dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2"));
  static auto* const wait = newer != nullptr ? newer : real<Wait>("pthread_cond_timedwait");
  const timespec told = kernels_time(clock_of(*until), *until);
  return wait(condition, mutex, &told);
}
int sem_timedwait(sem_t* semaphore, const timespec* until) {
  static auto* const wait = real<int(sem_t*, const timespec*)>("sem_timedwait");
  const timespec told = kernels_time(CLOCK_REALTIME, *until);
  return wait(semaphore, &told);
}

}  // extern "C"
