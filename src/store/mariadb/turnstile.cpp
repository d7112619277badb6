#include "store/mariadb/turnstile.hpp"

#include <poll.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/text.hpp"
#include "store/mariadb/turnstile_statements.hpp"
#include "store/rules/lock_table.hpp"

namespace dblock::store::mariadb {
namespace {

using namespace std::chrono_literals;
using lease::Turn;

constexpr const char* k_line_attempt = "cannot wait in line";

// Each look at a lock takes a connection. A hundred waiters must not send the server more than twenty
// statements a second, and must not all send one in the moment when a lease ends.
constexpr Micros k_look_interval = 50s;
// After this many waits that each failed within this time, the waiter gives named locks up and polls.
constexpr Nanos k_quick_failure = 1s;
constexpr int k_most_quick_failures = 3;

}  // namespace

lease::LookSchedule NamedLockTurnstile::look_schedule() const {
  return {k_look_interval, false};
}

void NamedLockTurnstile::approach(const lease::Key& key, const lease::Holder& who) {
  who_ = who;
  connection_.set_turnstile_key(key);
}

Turn NamedLockTurnstile::enter(const lease::Key& key) {
  key_ = key;
  inside_ = true;
  connection_.set_turnstile_key(key);
  if (!open()) return Turn::not_yet;
  if (connection_.named_locks_refused()) return no_line();
  return connection_.has_turn() ? Turn::ours : Turn::not_yet;
}

bool NamedLockTurnstile::open() {
  const Connection::Call call(connection_);
  return connection_.ensure_open(k_line_attempt).has_value();
}

Turn NamedLockTurnstile::await(BootTime until, const WakeEvent& cancel) {
  if (!inside_) return Turn::none;
  if (connection_.has_turn()) return Turn::ours;
  if (!connection_.awaits_reply()) {
    if (const Turn turn = queue(); turn != Turn::not_yet || !connection_.awaits_reply()) return turn;
  }
  switch (poll_reply(until, cancel)) {
    case Reply::cancelled:
      return Turn::cancelled;
    case Reply::not_yet:
      return Turn::not_yet;
    case Reply::arrived:
      break;
  }
  return take_reply();
}

// Sends the statement that waits for the turn. not_yet means that its reply is to come, or that the database
// cannot be reached; the next look at the lock will report that.
Turn NamedLockTurnstile::queue() {
  if (!open()) return Turn::not_yet;
  if (connection_.named_locks_refused()) return no_line();
  if (connection_.has_turn()) return Turn::ours;
  queued_at_ = BootClock::now();
  idle_time_is_short_ = true;
  if (!connection_.send_ahead(queue_statement(connection_.is_mariadb(), *key_, who_)))
    idle_time_is_short_ = false;
  return Turn::not_yet;
}

Turn NamedLockTurnstile::take_reply() {
  if (connection_.take_reply()) {
    if (connection_.has_turn()) return Turn::ours;
    crowded_ = true;  // or the server answers NULL; then polling without a connection does no harm either
    return no_line();
  }
  // The session was killed, or the server went away: the next await() takes another position.
  if (BootClock::now() - queued_at_ < k_quick_failure && ++quick_failures_ >= k_most_quick_failures)
    return no_line();
  return Turn::not_yet;
}

Turn NamedLockTurnstile::no_line() {
  inside_ = false;
  connection_.forget_turnstile();
  return Turn::none;
}

NamedLockTurnstile::Reply NamedLockTurnstile::poll_reply(BootTime until, const WakeEvent& cancel) const {
  DeadlineTimer timer;
  timer.arm(until);
  for (;;) {
    std::array<pollfd, 3> fds{pollfd{connection_.socket(), POLLIN, 0}, pollfd{cancel.fd(), POLLIN, 0},
                              pollfd{timer.fd(), POLLIN, 0}};
    if (::poll(fds.data(), fds.size(), -1) < 0 && errno == EINTR) continue;
    if (fds[1].revents != 0) return Reply::cancelled;
    return fds[0].revents != 0 ? Reply::arrived : Reply::not_yet;
  }
}

// As for a waiter in GET_LOCK, the server drops the session once it is idle for two seconds.
void NamedLockTurnstile::lead() noexcept {
  if (idle_time_is_short_ || !connection_.has_turn()) return;
  const Connection::Call call(connection_);
  idle_time_is_short_ = connection_.change(short_idle_statement(), k_line_attempt).has_value();
}

void NamedLockTurnstile::leave() noexcept {
  inside_ = false;
  if (connection_.has_turn() || connection_.awaits_reply()) connection_.close();
  connection_.forget_turnstile();
}

bool NamedLockTurnstile::announced(const lease::Waiter& seen) const {
  return seen.pid == who_.pid && seen.host == clean_utf8(who_.host, k_name_bytes) &&
         seen.user == clean_utf8(who_.user, k_name_bytes);
}

void NamedLockTurnstile::restore_idle_time() noexcept {
  if (!std::exchange(idle_time_is_short_, false) || !connection_.is_open()) return;
  [[maybe_unused]] const auto restored = connection_.change(usual_idle_statement(options_), k_line_attempt);
}

// A waiter's idle time is short already, and stays so.
NamedLockTurnstile::ShortIdleTime::ShortIdleTime(NamedLockTurnstile& turnstile)
    : turnstile_(turnstile),
      needed_(!turnstile.idle_time_is_short_ && turnstile.connection_.is_open() &&
              !turnstile.connection_.is_mariadb()) {
  if (!needed_) return;
  turnstile_.idle_time_is_short_ =
      turnstile_.connection_.change(short_idle_statement(), k_line_attempt).has_value();
}

NamedLockTurnstile::ShortIdleTime::~ShortIdleTime() {
  if (needed_) turnstile_.restore_idle_time();
}

}  // namespace dblock::store::mariadb
