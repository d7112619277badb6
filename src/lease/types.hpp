// The words of the lease protocol as types. Server times and local times are different types on purpose: they
// come from different clocks and must never be compared.
#pragma once

#include <algorithm>
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

// `first` and then `also`, as one list.
[[nodiscard]] std::vector<Key> keys_of(const Key& first, const std::vector<Key>& also);

// Unique per acquisition: a readable prefix and 128 random bits. A name, not a credential.
struct OwnerId {
  std::string text;
  auto operator<=>(const OwnerId&) const = default;
};

// Fencing token: strictly increases with every grant of its key, for ever. It is at least the server's time
// of the grant in microseconds since the epoch.
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
  sql,      // held by an application, which takes, renews and releases it by the procedures of sql/procedures
};

// How a lock is held. Exclusive and shared requests (writers and readers) may wait for each other. All slot
// requests of a lock must name the same number of slots, and no other mode goes with them.
enum class Mode {
  exclusive,  // one holder alone, a writer
  shared,     // any number of holders, called readers
  slot,       // up to a number of holders, each in a numbered slot of its own
};

// How a request asks for a lock, and how a holder was granted it.
struct Sharing {
  Mode mode = Mode::exclusive;
  std::uint32_t slots = 1;  // Mode::slot: the most holders at a time
  auto operator<=>(const Sharing&) const = default;
};

// Which runs may wait for a lock.
enum class Line {
  fifo,    // all, in the order of their arrival
  one,     // one: a run that finds a waiting run leaves
  newest,  // the newest: a waiting run leaves when another begins to wait
};

// The lengths stored with a lease. `heartbeat` is the interval at which the holder promises to renew; nullopt
// where no process renews by itself (`dblock acquire --ttl`).
struct Terms {
  Micros ttl{0};
  Micros margin{0};  // lease margin: extra time after expire_time before anyone may take over
  std::optional<Micros> heartbeat;
};

// Describes the holder of a lock, as stored in its row. Text that is read back is untrusted.
struct Holder {
  std::string host;
  std::uint32_t pid = 0;  // 0: not known, as of an application
  std::string user;
  std::string command;  // program name, or the whole command line with --record-args
  std::string note;
};

// How the run under a lease ended.
enum class RunOutcome {
  succeeded,  // the job returned 0
  failed,     // the job returned another code
  signalled,  // the job was killed by a signal
  timed_out,  // --max-runtime stopped the job
  lost,       // the lease was lost or revoked and the job stopped
  released,   // a lease of `dblock acquire` was released
  not_run,    // granted, but the job never started
  abandoned,  // the lease expired or was ended by force; recorded by the takeover, the reap or free_now()
};

// True where the job did not do its work: the run failed, or ended with dblock or its host.
[[nodiscard]] bool is_failure(RunOutcome outcome);

struct RunEnd {
  RunOutcome outcome = RunOutcome::released;
  std::optional<int> exit_code;
  // The lock cools down for this long from the release; not after a revocation, which wants the lock free.
  Micros keep{0};
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
  std::uint32_t slot = 0;  // Mode::slot: its number, from 1 on; else 0
  // The row number of each key's lease, in the order of the keys. Empty where the lease is exclusive, or the
  // rows are not known.
  std::vector<std::uint32_t> rows{};
};

// Names a lease for renew and release: by key and owner id, and by token where that is known.
struct LeaseRef {
  Key key;
  OwnerId owner;
  std::optional<Token> token;
  std::vector<Key> also{};     // further keys that are renewed and released with it
  std::optional<Mode> mode{};  // nullopt: not known, so leases of every mode are looked for
  // As Lease::rows. Where neither `mode` nor `rows` tells the row, the lease is looked for in all rows of its
  // key.
  std::vector<std::uint32_t> rows{};
};
[[nodiscard]] LeaseRef ref_to(const Lease& lease);
// The row of the first key's lease, 0 for an exclusive one; nullopt where it is not known.
[[nodiscard]] std::optional<std::uint32_t> slot_of(const LeaseRef& ref);
// The part of `ref` that concerns `key`. REQUIRES: `key` is one of its keys.
[[nodiscard]] LeaseRef part_of(const LeaseRef& ref, const Key& key);

// What a row's own times say. expired: past expire_time, and not yet taken over or reaped. cooldown: without
// a holder, but not granted before hold_until. unknown: only in a row that was edited by hand.
enum class State { held, expired, cooldown, free, unknown };

struct PastRun {
  std::optional<ServerTime> acquired_at;
  std::optional<ServerTime> released_at;
  std::optional<RunOutcome> outcome;
  std::optional<int> exit_code;
  std::string host{};  // only for the last run of a free lock; else empty
};

// One run, or lease of `dblock acquire`, that has ended, as the history records it. Text is untrusted.
struct RecordedRun {
  std::string key;
  Token token;
  std::string owner;
  Kind kind = Kind::run;
  Mode mode = Mode::exclusive;
  Holder holder;
  std::optional<ServerTime> acquired_at;
  std::optional<ServerTime> released_at;  // nullopt: it ended without a release
  ServerTime recorded_at;                 // a time by which it had ended
  std::optional<RunOutcome> outcome;
  std::optional<int> exit_code;
};

// A process or application that waits. Text is untrusted.
struct Waiter {
  std::string host;
  std::uint32_t pid = 0;  // 0: not known, as of an application
  std::string user;
  ServerTime since;  // when its request was first refused: its arrival
};

// A request's row in the line of a lock.
struct Place {
  std::string key;  // raw bytes
  OwnerId owner;
  Sharing sharing{};
  Line line = Line::fifo;
  Waiter waiter;
  ServerTime counts_until{};
  bool waits_elsewhere = false;  // for other locks too: this one may stay free before it
};

// A request's place among those that wait for a lock.
struct LinePosition {
  std::size_t number = 1;  // 1: the first waiter
  std::size_t of = 1;      // how many wait
};

// The locks that a pause covers: lock `text`, or every lock whose key starts with `text`.
struct PauseScope {
  std::string text;
  bool is_prefix = false;

  [[nodiscard]] bool covers(std::string_view key) const;
  // Some key may be covered by both.
  [[nodiscard]] bool meets(const PauseScope& other) const;
  auto operator<=>(const PauseScope&) const = default;
};

// Until `until` no new lease of the covered locks is granted. Text is untrusted.
struct Pause {
  PauseScope scope;
  ServerTime until;
  std::string by;  // user@host
  std::string note;
  ServerTime since;
};

// One row of a lock as it was at `server_time`. Text is untrusted.
struct LockStatus {
  std::string key;  // raw bytes; may break Key's rules when the table was edited by hand
  State state = State::free;
  Kind kind = Kind::run;
  Sharing sharing{};  // of the last grant; 0 slots: granted together with other keys
  // 0: the lock's own row, also its exclusive holder's; from 1 on: a reader's or slot holder's.
  std::uint32_t slot = 0;
  std::string owner;  // empty: no holder
  Token token;
  std::uint32_t count = 0;  // the holder, and each run that nests in its lease
  Holder holder;
  std::optional<ServerTime> acquired_at;
  std::optional<ServerTime> renewed_at;
  std::optional<ServerTime> expires_at;
  std::optional<ServerTime> revoked_at;
  std::optional<ServerTime> hold_until;  // not granted to another holder before this
  Micros ttl{0};
  Micros margin{0};
  std::optional<Micros> heartbeat;
  std::optional<PastRun> last;
  std::optional<PastRun> last_success;
  // The owner ids of the other holders. Set only where a request is refused because of all holders.
  std::vector<std::string> other_owners{};
  // Until then somebody may be waiting. Only in the lock's own row, as the next two.
  std::optional<ServerTime> line_until{};
  // When the request of the lease, or of the last one, began to wait, or was granted without waiting.
  std::optional<ServerTime> arrived_at{};
  // The latest of: the row's last change, the end of its cooldown, the end of its pause; `server_time` at
  // most. In a listing the latest of all rows of the lock, with the ends of their leases.
  std::optional<ServerTime> refused_until{};
  bool replaceable = false;  // a newer request may revoke this lease (LeaseRequest::replaces)
  std::string revoked_by{};  // who revoked the lease; empty where that is not known
  // The lease is over by its own times, but a transaction in which its holder called dblock_assert_held() is
  // still open, or another grant has just locked the same fence. Set only in the answer to a try, and in a
  // listing that asks for it.
  bool kept_by_transaction = false;
  // The pause that covers the lock, if it has not ended. Set only in the answer to a try or a look. `by` is
  // empty where only the end of the pause is known.
  std::optional<Pause> pause{};
  // In the order of arrival; nullopt where not known. Set only by a listing.
  std::optional<std::vector<Waiter>> waiters{};
  // The lock could be granted, but a request that waits for it comes first. Set in the answer to a try,
  // and in what people are told of a lock that is free.
  bool waited_for = false;
  // The place of the acquisition that asks. Set only in what an AcquireObserver is told.
  std::optional<LinePosition> position{};
  ServerTime server_time;

  // The server time from which an exclusive acquire would no longer be refused.
  [[nodiscard]] ServerTime grantable_at() const;
  // True while the row's own times refuse other requests: held, within its margin, or in cooldown.
  [[nodiscard]] bool refuses_requests() const {
    return state == State::unknown || grantable_at() > server_time;
  }
  // Nothing but a pause keeps the lock from being granted.
  [[nodiscard]] bool only_paused() const { return pause && !kept_by_transaction && !refuses_requests(); }
  // Somebody may be waiting for the lock, by its own row.
  [[nodiscard]] bool has_line() const { return line_until && *line_until > server_time; }
  // This row is a reader's.
  [[nodiscard]] bool is_reader() const { return sharing.mode == Mode::shared && slot > 0; }
  // Since when nothing but the line keeps the lock from being granted, by this row.
  [[nodiscard]] ServerTime free_since() const {
    return std::max(refused_until.value_or(ServerTime{}), grantable_at());
  }
  // True when a job under this key has succeeded within the period.
  [[nodiscard]] bool done_within(const OncePer& once_per) const;
};

// "user@host:pid" as far as they are known, untrusted text escaped.
[[nodiscard]] std::string display_holder(const Holder& holder);
[[nodiscard]] std::string display_holder(const LockStatus& status);
[[nodiscard]] std::string_view to_string(Kind kind);
// What the stored word stands for; run where it is none of them.
[[nodiscard]] Kind parse_kind(std::string_view text);
[[nodiscard]] std::string_view to_string(Mode mode);
[[nodiscard]] std::string_view to_string(Line line);
[[nodiscard]] std::string_view to_string(State state);
[[nodiscard]] std::string_view to_string(RunOutcome outcome);
[[nodiscard]] std::optional<RunOutcome> parse_outcome(std::string_view text);
// lock "k"; locks whose keys start with "etl-"; all locks. Untrusted text escaped.
[[nodiscard]] std::string display_scope(const PauseScope& scope);
// paused until 2026-11-25T06:00:00Z by user@host: note. Untrusted text escaped.
[[nodiscard]] std::string display_pause(const Pause& pause);

// RFC 3339, UTC, microseconds: 2026-11-21T12:41:03.000001Z.
[[nodiscard]] std::string format_time(ServerTime time);
// Reads a time of RFC 3339 with any offset: 2026-11-21T13:41:03+01:00. nullopt for another form, and for a
// time that there is not.
[[nodiscard]] std::optional<ServerTime> parse_time(std::string_view text);

}  // namespace dblock::lease
