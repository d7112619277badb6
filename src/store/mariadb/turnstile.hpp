// The line in front of each lock on MariaDB and MySQL: the server's named locks. The session that holds a
// lease owns its key's named lock and gives it up by ending, so a release costs no further statement. Whoever
// waits does so in one GET_LOCK, which the server serves first come, first served; asking again would mean
// starting over at the end of the line. One server's line: sessions on another server, or behind a proxy that
// spreads them over several, stand in another.
#pragma once

#include <optional>

#include "lease/turnstile.hpp"
#include "store/mariadb/connection.hpp"

namespace dblock::store::mariadb {

// A place is taken when the session is opened, if nobody has one, else by the first await(): until then
// others may come in before us. Those behind whose session ends, on either side, are out of the line within a
// second or when their turn comes, and the next await() begins anew at its end. A frozen process loses its
// turn after two seconds.
class NamedLockTurnstile final : public lease::Turnstile {
 public:
  // The connection must outlive the turnstile. While this waits it is busy (Connection::awaits_reply()).
  NamedLockTurnstile(Connection& connection, const SessionOptions& options)
      : connection_(connection), options_(options) {}

  void approach(const lease::Key& key, const lease::Holder& who) override;
  [[nodiscard]] lease::Turn enter(const lease::Key& key) override;
  [[nodiscard]] lease::Turn await(BootTime until, const WakeEvent& cancel) override;
  [[nodiscard]] bool lost_turn() const override { return inside_ && !connection_.has_turn(); }
  [[nodiscard]] bool crowded() const override { return crowded_; }
  [[nodiscard]] lease::Looks looks() const override;
  void lead() noexcept override;
  void leave() noexcept override;

  // The waiter that the server shows is this one.
  [[nodiscard]] bool announced(const lease::Waiter& seen) const;

  // The session now holds a lease: it may be idle again for as long as was agreed.
  void settle();

  // Around a transaction. Who is frozen in the middle of one must not keep others from its rows for long.
  // MySQL has no limit for that alone, so the session may not be idle for longer than a waiter's until the
  // end of it.
  class Brief {
   public:
    explicit Brief(NamedLockTurnstile& turnstile);
    ~Brief();
    Brief(const Brief&) = delete;
    Brief& operator=(const Brief&) = delete;

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
  bool short_lived_ = false;  // the session's idle time is a waiter's
  bool brief_ = false;        // and is for now, whatever settle() says
  bool stays_short_ = false;  // after that too
  BootTime queued_at_{};
  int quick_failures_ = 0;
};

}  // namespace dblock::store::mariadb
