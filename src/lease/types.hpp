// The words of the lease protocol as types. Server times and local times are different types on purpose: they
// come from different clocks and must never be compared.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "lease/promises.hpp"

namespace dblock::lease {

// Name of a lock: 1 to 255 bytes of well-formed UTF-8 without control characters, compared byte by byte.
class Key {
 public:
  [[nodiscard]] static Result<Key> parse(std::string_view bytes);  // Errc::usage
  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }
  auto operator<=>(const Key&) const = default;

 private:
  explicit Key(std::string bytes) : bytes_(std::move(bytes)) {}
  std::string bytes_;
};

// Unique per acquisition: a readable prefix and 128 random bits. A name, not a credential.
struct OwnerId {
  std::string text;
  auto operator<=>(const OwnerId&) const = default;
};

// Fencing token: per key, greater than every earlier grant's, for ever (microseconds since the epoch, or
// more).
struct Token {
  std::uint64_t value = 0;
  auto operator<=>(const Token&) const = default;
};

// A moment by the database server's clock, UTC.
struct ServerTime {
  Micros since_epoch{0};
  auto operator<=>(const ServerTime&) const = default;
};

enum class Kind {
  run,      // held by a live `dblock run`, which renews it; only that run, its guardian or --force ends it
  acquire,  // held on behalf of a script by `dblock acquire`; `renew` and `release` work on it
};

// How a lock is held. Readers and one writer go together; a lock with slots is another kind of lock.
enum class Mode {
  exclusive,  // by one alone
  shared,     // by any number of readers
  slot,       // by up to a number of holders, each with a slot of its own
};

// What a lock is asked for, and what each of its present holders asked for.
struct Sharing {
  Mode mode = Mode::exclusive;
  std::uint32_t slots = 1;  // Mode::slot: how many holders there may be
  auto operator<=>(const Sharing&) const = default;
};

// The lengths stored with a lease. `heartbeat` is the interval at which the holder promises to renew;
// none for an `acquire`d lease, which nobody renews unasked.
struct Terms {
  Micros ttl{0};
  Micros margin{0};  // lease margin: extra time after expire_time before anyone may take over
  std::optional<Micros> heartbeat;
};

// Who holds a lock, as stored in its row. Untrusted text when read back.
struct Holder {
  std::string host;
  std::uint32_t pid = 0;
  std::string user;
  std::string command;  // program name, or the whole command line with --record-args
  std::string note;
};

// How the run under a lease ended.
enum class Outcome {
  succeeded,  // the job returned 0
  failed,     // the job returned another code
  signalled,  // the job was killed by a signal
  timed_out,  // --max-runtime stopped the job
  lost,       // the lease was lost or revoked and the job stopped
  released,   // an `acquire`d lease given back
  not_run,    // granted, but the job never started
  abandoned,  // the lease expired; set by whoever took over or reaped it
};

struct RunEnd {
  Outcome outcome = Outcome::released;
  std::optional<int> exit_code;
};

// A grant, as its holder knows it.
struct Lease {
  Key key;
  std::vector<Key> also{};  // further keys of the same acquisition, sorted, after `key`
  OwnerId owner;
  Token token;
  Terms terms;
  BootTime sent_at;  // local time before the statement that granted or last renewed it was sent
  bool needs_renewal_proof = false;  // found by read-back after a lost reply: renew once before relying on it
  Sharing sharing{};
  std::uint32_t slot = 0;  // Mode::slot: which one, from 1 on
  // Which row each key's lease has, in the keys' order; empty where it is exclusive, or not known.
  std::vector<std::uint32_t> rows{};
};

// What identifies a lease in renew and release. The token narrows it further where it is known.
struct LeaseRef {
  Key key;
  OwnerId owner;
  std::optional<Token> token;
  std::vector<Key> also{};     // further keys that are renewed and released with it
  std::optional<Mode> mode{};  // where it is known; else every kind of lease is looked for
  // As Lease::rows. Where neither says it, the lease is looked for among all rows of its key.
  std::vector<std::uint32_t> rows{};
};
[[nodiscard]] LeaseRef ref_to(const Lease& lease);
// The row of its first key, where it is known.
[[nodiscard]] std::optional<std::uint32_t> slot_of(const LeaseRef& ref);
// What concerns one of its keys.
[[nodiscard]] LeaseRef part_of(const LeaseRef& ref, const Key& key);

enum class State { held, expired, cooldown, free, unknown };

struct PastRun {
  std::optional<ServerTime> acquired_at;
  std::optional<ServerTime> released_at;
  std::optional<Outcome> outcome;
  std::optional<int> exit_code;
  std::string host{};  // of the last run of a free lock; else not known
};

// One run (or lease of `acquire`) that has ended, as the history has it. Text is untrusted.
struct RecordedRun {
  std::string key;
  Token token;
  std::string owner;
  Kind kind = Kind::run;
  Mode mode = Mode::exclusive;
  Holder holder;
  std::optional<ServerTime> acquired_at;
  std::optional<ServerTime> released_at;  // none: nobody released it
  ServerTime recorded_at;                 // it had ended by then
  std::optional<Outcome> outcome;
  std::optional<int> exit_code;
};

// One who waits for a lock, as it announced itself. Untrusted text.
struct Waiter {
  std::string host;
  std::uint32_t pid = 0;
  std::string user;
  ServerTime since;
};

struct PlaceInLine {
  std::size_t place = 1;  // 1 for the first who waits
  std::size_t of = 1;
};

// How long a writer's try keeps new readers away, and what a row can say at most, where clocks of a cluster
// differ by less than the margin. One that says more was left there before the clock was set back.
inline constexpr Micros k_intent = std::chrono::seconds(2);
inline constexpr Micros k_longest_intent = k_intent + std::chrono::seconds(3);

// One row, seen at `server_time` of the answer it came in. Text is untrusted.
struct LockStatus {
  std::string key;  // raw bytes; may break Key's rules when someone wrote the table by hand
  State state = State::free;
  Kind kind = Kind::run;
  Sharing sharing{};       // of the last grant
  std::uint32_t slot = 0;  // 1 and up: one holder of several; readers are numbered too
  std::string owner;       // empty when nobody holds it
  Token token;
  std::uint32_t count = 0;
  Holder holder;
  std::optional<ServerTime> acquired_at;
  std::optional<ServerTime> renewed_at;
  std::optional<ServerTime> expires_at;
  std::optional<ServerTime> revoked_at;
  std::optional<ServerTime> hold_until;
  Micros ttl{0};
  Micros margin{0};
  std::optional<Micros> heartbeat;
  std::optional<PastRun> last;
  std::optional<PastRun> last_success;
  // Where this is the answer to a request that all holders are in the way of: the others'.
  std::vector<std::string> other_owners{};
  // A writer waits for the readers to go, and new readers are turned away until then.
  std::optional<ServerTime> intent_until{};
  // Not held by its own times, but a transaction in which its last holder called dblock_assert_held() goes
  // on. Only in the answer to a try.
  bool fenced = false;
  // In the order of arrival; only where a listing knows.
  std::optional<std::vector<Waiter>> waiters{};
  // Our own; only from LeaseStore::look_in_line(), and only where it is known.
  std::optional<PlaceInLine> place{};
  ServerTime server_time;

  // The server time from which an exclusive acquire would no longer be refused.
  [[nodiscard]] ServerTime grantable_at() const;
  // One holder of several who share the lock.
  [[nodiscard]] bool is_reader() const { return sharing.mode == Mode::shared && slot > 0; }
  // New readers are turned away for a writer who waits.
  [[nodiscard]] bool keeps_readers_away() const {
    return intent_until && *intent_until > server_time &&
           intent_until->since_epoch <= server_time.since_epoch + k_longest_intent;
  }
  // A job under this key has succeeded within the period.
  [[nodiscard]] bool done_within(const OncePer& once_per) const;
};

// "user@host:pid", untrusted text escaped.
[[nodiscard]] std::string display_holder(const Holder& holder);
[[nodiscard]] std::string display_holder(const LockStatus& status);
[[nodiscard]] std::string_view to_string(Kind kind);
[[nodiscard]] std::string_view to_string(Mode mode);
[[nodiscard]] std::string_view to_string(State state);
[[nodiscard]] std::string_view to_string(Outcome outcome);
[[nodiscard]] std::optional<Outcome> parse_outcome(std::string_view text);
// RFC 3339, UTC, microseconds: 2026-11-21T12:41:03.000001Z.
[[nodiscard]] std::string format_time(ServerTime time);

}  // namespace dblock::lease
