#include "store/mariadb/wake_up.hpp"

#include <poll.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "store/mariadb/sql.hpp"

namespace dblock::store::mariadb {
namespace {

using namespace std::chrono_literals;
using lease::Slept;

// A look takes a connection. A hundred waiters must not send the server more than twenty statements a second,
// and must not all send one in the moment when a lease ends.
constexpr Micros k_look_interval = 60s;
constexpr std::int64_t k_frozen_after_seconds = 2;

std::string idle_statement(std::int64_t seconds) {
  return render(Verb::set_idle_time, {{"idle", Scalar(seconds)}});
}

std::string usual_idle_statement(const SessionOptions& options) {
  if (options.idle_timeout <= Micros{0}) return render(Verb::default_idle_time);
  return idle_statement(std::chrono::ceil<std::chrono::seconds>(options.idle_timeout).count());
}

enum class Woken { by_reply, by_time, by_cancel };

Woken poll_reply(int socket, BootTime until, const WakeEvent& cancel) {
  DeadlineTimer timer;
  timer.arm(until);
  for (;;) {
    std::array<pollfd, 3> fds{pollfd{socket, POLLIN, 0}, pollfd{cancel.fd(), POLLIN, 0},
                              pollfd{timer.fd(), POLLIN, 0}};
    if (::poll(fds.data(), fds.size(), -1) < 0 && errno == EINTR) continue;
    if (fds[1].revents != 0) return Woken::by_cancel;
    return fds[0].revents != 0 ? Woken::by_reply : Woken::by_time;
  }
}

}  // namespace

lease::LookSchedule NamedLockWakeUp::look_schedule() const {
  return {k_look_interval, false};
}

void NamedLockWakeUp::announce(const lease::OwnerId& own) {
  if (!connection_.is_open()) idle_time_is_short_ = false;
  connection_.set_presence(own);
}

Slept NamedLockWakeUp::sleep_behind(const lease::OwnerId& ahead, std::size_t before, BootTime until,
                                    const WakeEvent& cancel) {
  aside_.close();
  if (!asleep() && seats_ > 0 && before >= seats_) return Slept::no_seat;
  if (!asleep() && !begin_sleep(ahead, before)) return Slept::not_at_all;
  switch (poll_reply(sleep_->socket(), until, cancel)) {
    case Woken::by_cancel:
      return Slept::cancelled;
    case Woken::by_time:
      return Slept::not_yet;
    case Woken::by_reply:
      break;
  }
  return end_sleep(before);
}

bool NamedLockWakeUp::begin_sleep(const lease::OwnerId& ahead, std::size_t before) {
  if (connection_.presence() == Connection::ShownBy::refused) return false;
  const Connection::Call call(connection_, {});
  if (!connection_.ensure_open()) return false;
  seatless_ = false;
  shorten_idle_time();
  if (!connection_.is_open()) return false;  // it broke
  sleep_ = connection_.send_for_late_reply(
      render(connection_.is_mariadb() ? Verb::sleep_mariadb : Verb::sleep_mysql,
             {{"owner", Scalar(ahead.text)}, {"before", Scalar(std::uint64_t{before})}}));
  return sleep_.has_value();
}

// NULL: there was no seat. A session that was killed, or a server that went away, gives no reply.
Slept NamedLockWakeUp::end_sleep(std::size_t before) {
  const auto rows = sleep_->read();
  if (!rows || rows->empty()) return Slept::not_at_all;
  const Row& reply = rows->front();
  seats_ = unsigned_number(reply[1]);
  seatless_ = !reply[0] && before < seats_;
  return reply[0] ? Slept::to_its_end : Slept::no_seat;
}

bool NamedLockWakeUp::crowded() {
  if (seatless_ || asleep()) return seatless_;
  const Connection::Call call(connection_, {});
  return scarcity_.ask();
}

void NamedLockWakeUp::stay_awake() noexcept {
  const Connection::Call call(connection_, {});
  shorten_idle_time();
}

void NamedLockWakeUp::shorten_idle_time() noexcept {
  if (idle_time_is_short_ || !connection_.is_open() || asleep()) return;
  idle_time_is_short_ = connection_.change(idle_statement(k_frozen_after_seconds)).has_value();
}

void NamedLockWakeUp::leave() noexcept {
  if (connection_.presence() != Connection::ShownBy::nothing) end_session();
}

void NamedLockWakeUp::end_session() noexcept {
  connection_.close();
  aside_.close();
  connection_.set_presence(std::nullopt);
  idle_time_is_short_ = false;
}

void NamedLockWakeUp::restore_idle_time() noexcept {
  if (!std::exchange(idle_time_is_short_, false) || !connection_.is_open()) return;
  [[maybe_unused]] const auto restored = connection_.change(usual_idle_statement(options_));
}

// A waiter's idle time is short already, and stays so.
NamedLockWakeUp::ShortIdleTime::ShortIdleTime(NamedLockWakeUp& wake_up)
    : wake_up_(wake_up),
      needed_(!wake_up.idle_time_is_short_ && wake_up.connection_.is_open() &&
              !wake_up.connection_.is_mariadb()) {
  if (needed_) wake_up_.shorten_idle_time();
}

NamedLockWakeUp::ShortIdleTime::~ShortIdleTime() {
  if (needed_) wake_up_.restore_idle_time();
}

}  // namespace dblock::store::mariadb
