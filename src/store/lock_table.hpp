// The table dblock_lock as one kind of database keeps it: what TableLeaseStore needs done to its rows. Each
// function that changes a row decides and changes in one statement, by the database's clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lease/store.hpp"

namespace dblock::store {

struct Renewal {
  Micros ttl{0};                                  // the length that was granted
  std::optional<lease::ServerTime> expires_at{};  // where the statement tells it
};

// One lock as a whole.
struct Scene {
  // The lock's own row, and the exclusive holder's. What it says of past runs is what all rows know.
  lease::LockStatus gate;
  // Those of readers and of slots, also free ones and expired ones, by slot; `fenced` where the scene is
  // locked.
  std::vector<lease::LockStatus> holds;
};

// Where a grant of one key goes: to the row `slot` of a lock that was found so.
struct Place {
  lease::Key key;
  Scene seen;
  std::uint32_t slot = 0;
};

// THREADING, CONNECTION, ERRORS: as lease::LeaseStore. `attempt` begins every message: "cannot renew lock
// "k"".
class LockTable {
 public:
  LockTable() = default;
  LockTable(const LockTable&) = delete;
  LockTable& operator=(const LockTable&) = delete;
  virtual ~LockTable() = default;

  // Around everything below: between the two interrupt() breaks what is under way.
  enum class Patience {
    usual,
    renewal,  // a lease runs out meanwhile: SessionOptions::renewal_timeout
  };
  virtual void begin_call(Patience patience) = 0;
  virtual void end_call() noexcept = 0;
  class Call {
   public:
    explicit Call(LockTable& table, Patience patience = Patience::usual) : table_(table) {
      table_.begin_call(patience);
    }
    ~Call() { table_.end_call(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    LockTable& table_;
  };

  // What connecting is called in messages.
  [[nodiscard]] virtual std::string connecting() const { return "cannot connect to the database"; }
  // Opens the connection, unless it is open and sound.
  [[nodiscard]] virtual Result<void> ensure_open(const std::string& attempt) = 0;

  // Everything `body` does is done, or nothing is. `body` runs again after a rollback by the database itself.
  // Errc::indeterminate when the reply to the commit is lost. Functions of the second group below are for
  // inside; renew, release and the others may be called there too.
  using Body = std::function<Result<void>()>;
  [[nodiscard]] virtual Result<void> in_transaction(const std::string& attempt, const Body& body) = 0;
  // What there is of each lock, in the order of `keys`, which are sorted; nullopt without a row. Locked until
  // the transaction ends where `to_change`.
  [[nodiscard]] virtual Result<std::vector<std::optional<Scene>>> survey(const std::vector<lease::Key>& keys,
                                                                         bool to_change,
                                                                         const std::string& attempt) = 0;
  // The lock's own row of a lock that nobody has held. No harm where there is one.
  [[nodiscard]] virtual Result<void> add(const lease::Key& key, const std::string& attempt) = 0;
  // Writes a grant to all its places. Each lock's own row takes the token and the sharing in any case.
  [[nodiscard]] virtual Result<void> put(const lease::AcquireRequest& request,
                                         const std::vector<Place>& places, lease::Token token,
                                         const std::string& attempt) = 0;
  // Frees a lease that is past its margin, so that a late renewal cannot bring it back.
  [[nodiscard]] virtual Result<bool> abandon(const lease::LockStatus& lease, const std::string& attempt) = 0;
  // New readers are refused until then, or for longer where somebody else has asked for that, though never
  // for longer than lease::k_longest_intent.
  [[nodiscard]] virtual Result<void> keep_readers_away(const lease::Key& key, lease::ServerTime until,
                                                       const std::string& attempt) = 0;
  // Takes that back, unless somebody else has asked for longer since.
  [[nodiscard]] virtual Result<void> let_readers_in(const lease::Key& key, lease::ServerTime until,
                                                    const std::string& attempt) = 0;

  // Whether a grant would be, and whether the last one was, as safe as the settings ask for: on so many
  // servers. Errc::unreachable when not.
  [[nodiscard]] virtual Result<void> safe_to_grant(const std::string&) { return {}; }
  [[nodiscard]] virtual Result<void> grant_is_safe(const std::string&) { return {}; }
  // The token, when the row was there and free to grant.
  [[nodiscard]] virtual Result<std::optional<lease::Token>> grant(const lease::AcquireRequest& request,
                                                                  const std::string& attempt) = 0;
  // The same for a key without a row; nullopt when there is one by now.
  [[nodiscard]] virtual Result<std::optional<lease::Token>> create(const lease::AcquireRequest& request,
                                                                   const std::string& attempt) = 0;
  // Puts back what grant() needs beside the lock's row and somebody took away. No harm where it is there.
  [[nodiscard]] virtual Result<void> mend(const lease::Key& /*key*/, const std::string& /*attempt*/) {
    return {};
  }
  // Whether the attempt that failed so was kept waiting by a job's transaction that called
  // dblock_assert_held(): the lock is as good as held. Errc::unreachable where it was the server's own doing.
  [[nodiscard]] virtual Result<bool> kept_by_fence(const lease::Key& /*key*/, const Error& /*why*/,
                                                   const std::string& /*attempt*/) {
    return false;
  }
  // nullopt, false: no row matched.
  [[nodiscard]] virtual Result<std::optional<Renewal>> renew(const lease::LeaseRef& ref, lease::Actor actor,
                                                             std::optional<Micros> ttl,
                                                             const std::string& attempt) = 0;
  // Of its first key.
  [[nodiscard]] virtual Result<bool> release(const lease::LeaseRef& ref, lease::Actor actor,
                                             lease::RunEnd end, const std::string& attempt) = 0;
  // Of all its keys, or none: where a nested run holds one of them too, none is released. Those that were
  // not.
  [[nodiscard]] virtual Result<std::vector<lease::Key>> release_all(const lease::LeaseRef& ref,
                                                                    lease::Actor actor, lease::RunEnd end,
                                                                    const std::string& attempt) = 0;
  virtual void prepare_release() noexcept {}
  // Counts one more acquisition under the lease, which is renewed for `ttl`. The token, when `ref` holds it
  // and, unless that is exclusive, as `sharing` says.
  [[nodiscard]] virtual Result<std::optional<lease::Token>> nest(const lease::LeaseRef& ref,
                                                                 const lease::Sharing& sharing, Micros ttl,
                                                                 const std::string& attempt) = 0;
  // Counts one down, never below the holder's own. False when `ref` does not hold it.
  [[nodiscard]] virtual Result<bool> unnest(const lease::LeaseRef& ref, const std::string& attempt) = 0;
  [[nodiscard]] virtual Result<bool> revoke(const lease::Key& key, std::uint32_t slot, lease::Token token,
                                            const std::string& attempt) = 0;
  [[nodiscard]] virtual Result<bool> free_now(const lease::Key& key, std::uint32_t slot, lease::Token token,
                                              const std::string& attempt) = 0;

  // The lock's own row.
  [[nodiscard]] virtual Result<std::optional<lease::LockStatus>> look(const lease::Key& key,
                                                                      const std::string& attempt) = 0;
  // The same from where the writes go, also where something in between has reads answered elsewhere.
  [[nodiscard]] virtual Result<std::optional<lease::LockStatus>> look_where_written(
      const lease::Key& key, const std::string& attempt) {
    return look(key, attempt);
  }
  // With our own place in the line, where it can be known.
  [[nodiscard]] virtual Result<std::optional<lease::LockStatus>> look_in_line(const lease::Key& key,
                                                                              const std::string& attempt) {
    return look(key, attempt);
  }
  // Rows, also those of readers and slots that are free, where not only held ones are asked for.
  [[nodiscard]] virtual Result<lease::Listing> list(const lease::Selection& selection,
                                                    const std::string& attempt) = 0;
  [[nodiscard]] virtual Result<lease::ReapReport> reap(const lease::ReapRequest& request,
                                                       const std::string& attempt) = 0;

  [[nodiscard]] virtual Result<lease::History> history(const lease::HistoryQuery& query,
                                                       const std::string& attempt) = 0;
  // See lease::LeaseStore. Only what ended by a call that succeeded since is left to be recorded.
  virtual void record_ended() noexcept {}

  virtual lease::Turnstile* turnstile() noexcept { return nullptr; }
  virtual void close() noexcept = 0;
  virtual void interrupt() noexcept = 0;
};

// Widths of the columns for people, in bytes of UTF-8 (columns of MariaDB count characters).
inline constexpr std::size_t k_name_bytes = 255;
inline constexpr std::size_t k_command_bytes = 2000;
inline constexpr std::size_t k_note_bytes = 1000;

// A statement may have been blocked with yesterday's clock; its token must still be greater than any that a
// deleted row ever had (I2).
inline constexpr Micros k_least_idle_time = std::chrono::hours(24);

// The least byte string greater than all that start with `prefix`; empty when there is none.
[[nodiscard]] std::string after_prefix(std::string prefix);

// What the row's own times say. REQUIRES: everything else in `status` is set.
[[nodiscard]] lease::State state_of(const lease::LockStatus& status);

}  // namespace dblock::store
