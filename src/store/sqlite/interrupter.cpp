#include "store/sqlite/interrupter.hpp"

#include <poll.h>

#include <array>
#include <cerrno>

#include "base/worker.hpp"

namespace dblock::store::sqlite {
namespace {

constexpr int k_repeat_ms = 1;

// The C library reserves the first two real-time signals, and other programs often use the next ones.
int wake_signal() {
  return SIGRTMIN + 3;
}

void do_nothing(int) {}

// Installs the handler for good, not only for a call, because another thread may be waiting too. Job and
// guardian were forked before and do not get it.
void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_handler = do_nothing;  // without SA_RESTART, which would continue the blocking call
    sigemptyset(&action.sa_mask);
    ::sigaction(wake_signal(), &action, nullptr);
  });
}

}  // namespace

Interrupter::Interrupter(BootTime until, const WakeEvent& cancel) : target_(::pthread_self()) {
  install_handler();
  sigset_t wake;
  sigemptyset(&wake);
  sigaddset(&wake, wake_signal());
  watcher_ = start_thread([this, until, cancel_fd = cancel.fd()] { watch(until, cancel_fd); });
  ::pthread_sigmask(SIG_UNBLOCK, &wake, &caller_mask_);  // dblock's own caller may have blocked the signal
}

Interrupter::~Interrupter() {
  over();
  watcher_.join();
}

void Interrupter::over() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    over_ = true;
  }
  done_.raise();
  ::pthread_sigmask(SIG_SETMASK, &caller_mask_, nullptr);
}

void Interrupter::watch(BootTime until, int cancel_fd) {
  DeadlineTimer timer;
  timer.arm(until);
  std::array<pollfd, 3> fds{pollfd{done_.fd(), POLLIN, 0}, pollfd{cancel_fd, POLLIN, 0},
                            pollfd{timer.fd(), POLLIN, 0}};
  while (::poll(fds.data(), fds.size(), -1) < 0 && errno == EINTR) {
  }
  interrupt_until_over();
}

void Interrupter::interrupt_until_over() {
  pollfd done{done_.fd(), POLLIN, 0};
  do {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    ::pthread_kill(target_, wake_signal());
  } while (::poll(&done, 1, k_repeat_ms) <= 0);
}

}  // namespace dblock::store::sqlite
