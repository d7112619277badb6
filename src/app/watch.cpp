#include "app/watch.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include "app/listing_thread.hpp"
#include "app/store_access.hpp"
#include "process/signals.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;

constexpr Nanos k_late_after = 2s;  // longer than a healthy store takes, and than most intervals

class Watch {
 public:
  Watch(const InspectRequest& request, store::Settings settings, WatchDisplay& display)
      : listing_thread_(request, std::move(settings)), every_(*request.watch), display_(display) {}

  Result<Ending> go() {
    for (;;) {
      if (!asked_ && BootClock::now() >= due_) ask();
      sleep();
      DBLOCK_CHECK(heed_signals());
      if ((polled_[k_input].revents & (POLLIN | POLLHUP)) != 0 && display_.wants_end()) over_ = true;
      if (over_) return end();
      // Judged after signals and input: when a terminal's window is closed, its SIGHUP should end the watch,
      // not this error. But the SIGHUP may come later than the descriptor's news.
      if ((polled_[k_output].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) {
        display_.step_aside();
        end();
        const bool no_reader = (polled_[k_output].revents & POLLERR) != 0;
        return fail(Errc::internal, "stdout was closed, so nobody sees the table any more",
                    no_reader ? EPIPE : 0);
      }
      if (asked_) DBLOCK_CHECK(heed_answer());
    }
  }

 private:
  enum : std::size_t { k_signals, k_input, k_output, k_answer, k_timer, k_descriptors };

  void ask() {
    asked_ = BootClock::now();
    listing_thread_.ask();
  }

  void sleep() {
    timer_.arm(asked_ ? std::max(*asked_ + k_late_after, said_late_ + 1s) : due_);
    polled_[k_signals] = {signals_.fd(), POLLIN, 0};
    polled_[k_input] = {display_.input(), POLLIN, 0};
    polled_[k_output] = {display_.output(), 0, 0};
    polled_[k_answer] = {asked_ ? listing_thread_.answered().fd() : -1, POLLIN, 0};
    polled_[k_timer] = {timer_.fd(), POLLIN, 0};
    ::poll(polled_.data(), polled_.size(), -1);
  }

  Result<void> heed_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.fd(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const auto number = static_cast<int>(info.ssi_signo);
      if (process::ends_wait(number)) over_ = true;
      if (number == SIGTSTP) {
        display_.step_aside();
        ::raise(SIGSTOP);
        DBLOCK_CHECK(display_.redraw());
      }
      if (number == SIGWINCH) DBLOCK_CHECK(display_.redraw());
    }
    return {};
  }

  Result<void> heed_answer() {
    if (listing_thread_.answered().raised()) {
      // After an answer slower than the interval, one further listing is due at once, not several.
      due_ = std::max(*asked_ + every_, BootClock::now());
      asked_.reset();
      const auto answer = listing_thread_.answer();
      if (!answer && (!answered_ || !may_pass(answer.error()))) {
        display_.step_aside();
        return std::unexpected(answer.error());
      }
      answered_ = true;
      return display_.show(answer);
    }
    const BootTime now = BootClock::now();
    if (now < *asked_ + k_late_after || now < said_late_ + 1s) return {};
    said_late_ = now;
    return display_.wait_on(now - *asked_);
  }

  Ending end() {
    display_.step_aside();
    return listing_thread_.end();
  }

  const process::Signals signals_;  // made before the listing's thread, which inherits the signal mask
  ListingThread listing_thread_;
  const Micros every_;
  WatchDisplay& display_;
  DeadlineTimer timer_;
  std::array<pollfd, k_descriptors> polled_{};
  BootTime due_ = BootClock::now();
  BootTime said_late_{};
  std::optional<BootTime> asked_;  // when the open question was asked; none: no question is open
  bool answered_ = false;          // at least one question was answered without an error
  bool over_ = false;
};

}  // namespace

Result<Ending> watch(const InspectRequest& request, WatchDisplay& display) {
  DBLOCK_TRY(store::Settings settings, settings_from(request.database));
  return Watch(request, std::move(settings), display).go();
}

}  // namespace dblock::app
