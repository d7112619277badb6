// The turnstile on MariaDB and MySQL, made of the server's named locks. The holder's session owns the key's
// named lock and frees it by ending, so a release costs no further statement. Each waiter waits in a single
// GET_LOCK, because the server serves GET_LOCKs in their order: a waiter that asked again would lose its
// position. Each server has its own turnstile: sessions on another server, or behind a proxy that spreads
// sessions over several servers, wait at another one.
#pragma once

#include <optional>

#include "lease/turnstile.hpp"
#include "store/mariadb/session/connection.hpp"

namespace dblock::store::mariadb {

// Opening the session takes the turn if the turnstile is free. Otherwise the first await() takes a position;
// until then other processes may come in first. A waiter whose session ends, on either side, loses its
// position within a second or when its turn comes; its next await() starts again as the last. A frozen
// process loses its turn after two seconds.
class NamedLockTurnstile final : public lease::Turnstile {
 public:
  // The connection must outlive the turnstile. While the turnstile waits, the connection is busy
  // (Connection::awaits_reply()).
  NamedLockTurnstile(Connection& connection, const SessionOptions& options)
      : connection_(connection), options_(options) {}

  void approach(const lease::Key& key, const lease::Holder& who) override;
  [[nodiscard]] lease::Turn enter(const lease::Key& key) override;
  [[nodiscard]] lease::Turn await(BootTime until, const WakeEvent& cancel) override;
  [[nodiscard]] bool lost_turn() const override { return inside_ && !connection_.has_turn(); }
  [[nodiscard]] bool crowded() const override { return crowded_; }
  [[nodiscard]] lease::LookSchedule look_schedule() const override;
  void lead() noexcept override;
  void leave() noexcept override;

  // True if `seen`, a waiter that the server lists, is this turnstile's own waiter.
  [[nodiscard]] bool announced(const lease::Waiter& seen) const;

  // Gives the session its usual idle time again, because it now holds a lease. If that fails, closes the
  // session, and the next renewal opens a new one.
  void restore_idle_time() noexcept;

  // Lives around a transaction. A process that is frozen inside a transaction must not block other processes'
  // rows for long. MySQL has no idle limit for transactions alone, so until the transaction's end the session
  // gets a waiter's short idle time.
  class ShortIdleTime {
   public:
    explicit ShortIdleTime(NamedLockTurnstile& turnstile);
    ~ShortIdleTime();
    ShortIdleTime(const ShortIdleTime&) = delete;
    ShortIdleTime& operator=(const ShortIdleTime&) = delete;

   private:
    NamedLockTurnstile& turnstile_;
    const bool needed_;
  };

 private:
  enum class Reply { arrived, not_yet, cancelled };

  [[nodiscard]] bool open();
  [[nodiscard]] lease::Turn queue();
  [[nodiscard]] lease::Turn take_reply();
  [[nodiscard]] lease::Turn no_line();
  [[nodiscard]] Reply poll_reply(BootTime until, const WakeEvent& cancel) const;

  Connection& connection_;
  const SessionOptions options_;
  std::optional<lease::Key> key_;
  lease::Holder who_;
  bool inside_ = false;
  bool crowded_ = false;
  bool idle_time_is_short_ = false;  // the session has a waiter's short idle time
  BootTime queued_at_{};
  int quick_failures_ = 0;
};

}  // namespace dblock::store::mariadb
