// The wake-up on MariaDB and MySQL, made of the server's named locks. The session of a request, from its
// first try to the release of its lease, owns a lock named after the owner id: so to be there costs no
// statement. The statement that releases the lease frees it, or else the session's end: so to wake others
// costs none either. A holder that ends its session before (HolderSession) is there no more. Who waits sleeps
// in GET_LOCK() on the lock of the request before it. Sessions on another server, or behind a proxy that
// spreads sessions over several servers, do not see it.
#pragma once

#include <optional>
#include <string>

#include "lease/wake_up.hpp"
#include "store/mariadb/scarcity.hpp"
#include "store/mariadb/session/connection.hpp"

namespace dblock::store::mariadb {

// A sleeper's session takes one of a few seats, named locks too: as many as a fifth of the smallest limit on
// sessions or threads that the session can read, at most 500. While more than four fifths are in
// use nobody goes to sleep, and who does not sleep keeps no session between two looks.
class NamedLockWakeUp final : public lease::WakeUp {
 public:
  // Both connections must outlive the wake-up. While a sleep is under way, the first is busy
  // (asleep()), and looks use `aside`, which each further sleep closes: else a hundred waiters would take two
  // hundred of the server's sessions.
  NamedLockWakeUp(Connection& connection, Connection& aside, const SessionOptions& options)
      : connection_(connection),
        aside_(aside),
        options_(options),
        scarcity_(connection, k_waiter_asks_after) {}

  void announce(const lease::OwnerId& own) override;
  [[nodiscard]] lease::Slept sleep_behind(const lease::OwnerId& ahead, std::size_t before, BootTime until,
                                          const WakeEvent& cancel) override;
  [[nodiscard]] bool asleep() const override { return sleep_ && sleep_->is_due(); }
  [[nodiscard]] bool crowded() override;
  [[nodiscard]] lease::LookSchedule look_schedule() const override;
  // A process that is frozen while others sleep behind it: the server drops its session once that is idle for
  // two seconds. Also a sleeper's session gets this idle time.
  void stay_awake() noexcept override;
  void leave() noexcept override;
  // Ends the session, and with it the presence.
  void end_session() noexcept;

  // Gives the session its usual idle time again, because it now holds a lease. If that fails, closes the
  // session, and the next renewal opens a new one.
  void restore_idle_time() noexcept;

  // Lives around a transaction. A process that is frozen inside a transaction must not block other processes'
  // rows for long. MySQL has no idle limit for transactions alone, so until the transaction's end the session
  // gets a waiter's short idle time.
  class ShortIdleTime {
   public:
    explicit ShortIdleTime(NamedLockWakeUp& wake_up);
    ~ShortIdleTime();
    ShortIdleTime(const ShortIdleTime&) = delete;
    ShortIdleTime& operator=(const ShortIdleTime&) = delete;

   private:
    NamedLockWakeUp& wake_up_;
    const bool needed_;
  };

 private:
  // REQUIRES: a Connection::Call.
  void shorten_idle_time() noexcept;
  [[nodiscard]] bool begin_sleep(const lease::OwnerId& ahead, std::size_t before);
  [[nodiscard]] lease::Slept end_sleep(std::size_t before);

  // So often a waiter asks whether sessions are scarce.
  static constexpr Nanos k_waiter_asks_after = std::chrono::seconds(5);

  Connection& connection_;
  Connection& aside_;
  const SessionOptions options_;
  std::optional<Connection::LateReply> sleep_;  // the last one
  Scarcity scarcity_;                           // for a request that has not been refused a seat
  bool seatless_ = false;            // the last sleep was refused one, though few stand before the request
  std::uint64_t seats_ = 0;          // on the server, as the last sleep has told; 0: not known
  bool idle_time_is_short_ = false;  // the session has a waiter's short idle time
};

}  // namespace dblock::store::mariadb
