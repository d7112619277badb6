// The contract that every store of leases keeps (DESIGN section 3). Expiry is computed and compared on the
// server; local clocks only bound how long we believe an answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lease/promises.hpp"
#include "lease/turnstile.hpp"
#include "lease/types.hpp"

namespace dblock::lease {

struct AcquireRequest {
  Key key;
  std::vector<Key> also{};  // further keys, sorted, after `key`: all of them or none
  OwnerId owner;
  Kind kind = Kind::run;
  Terms terms;
  Holder holder;
  Promises promises{};
  Sharing sharing{};
  // An ancestor's acquisition that may hold the same locks: nested in it, nothing has to be waited for.
  std::optional<OwnerId> outer{};
  bool waits = false;  // a writer that will try again keeps new readers away in between

  // One key, for itself alone: one statement grants it.
  [[nodiscard]] bool plain() const { return also.empty() && sharing.mode == Mode::exclusive; }
};

// What it may have got, while no token is known.
[[nodiscard]] LeaseRef ref_to(const AcquireRequest& request);

// What a request meets: the answer to a try, and to a look, which changes nothing.
//
// The lock is the request's.
struct Granted {
  Lease lease;
  std::optional<LockStatus> row{};  // where the answer was found by reading; `lease` needs proof then
};
// Somebody or something keeps the lock from the request: an outcome, not an error. `status`: what will be in
// its way for the longest.
struct Held {
  LockStatus status;
};
// A job under this key has succeeded within the period (Promises::once_per), whoever holds the lock.
struct Done {
  LockStatus status;
};
// Nothing is in the way. Never the answer to a try.
struct Free {
  std::uint32_t slot = 0;              // the row that a grant would go to
  std::optional<LockStatus> status{};  // the lock's own row, where there is one
};
using Answer = std::variant<Granted, Held, Done, Free>;

// A grant that a statement told of. `slot`: the row of the hold, of any kind.
[[nodiscard]] Granted granted(const AcquireRequest& request, Token token, std::uint32_t slot,
                              BootTime sent_at);
// A grant that was read: the row carries the request's owner id.
[[nodiscard]] Granted found(const AcquireRequest& request, LockStatus row, BootTime sent_at);

struct Renewed {
  BootTime sent_at;       // local time before the statement was sent: the lease is ours until sent_at + ttl
  Micros ttl{0};          // the length granted by this renewal
  ServerTime expires_at;  // only set for Actor::script, else zero: the heartbeat has no use for it
};

enum class NotOursWhy {
  absent,        // no such row
  free,          // nobody holds it
  other_holder,  // another owner id
  expired,       // our owner id, but past expire_time
  revoked,       // our owner id, revoked with --force (renew only)
  nested,        // our owner id, and a nested run holds the lease as well (release by Actor::holder only)
  run_lease,     // our owner id, but the lease belongs to a running `dblock run` (Actor::script only)
};
struct NotOurs {
  NotOursWhy why = NotOursWhy::absent;
  std::optional<LockStatus> status;  // the row as it is now, where there is one
};
using RenewOutcome = std::variant<Renewed, NotOurs>;

struct Released {};
using ReleaseOutcome = std::variant<Released, NotOurs>;

// Who asks. The holder itself may end a run's lease, and its release also succeeds past expire_time as long
// as nobody took over, but not while a nested run holds the lease too. A holder that has stopped everything
// which ran under its lease (a run that killed its job, a guardian that left nothing of it) waits for no
// nested run. A script may touch only Kind::acquire leases that have not expired.
enum class Actor { holder, stopper, script };

struct Revoked {
  LockStatus status;
};
// Why a forced release was refused: not the current token, or (free_now) the heartbeat is fresh.
struct ForceRefused {
  enum class Why { wrong_token, not_held, fresh_heartbeat } why = Why::wrong_token;
  std::optional<LockStatus> status;
};
using ForceOutcome = std::variant<Revoked, ForceRefused>;

struct Selection {
  std::vector<Key> keys;                    // these keys; empty: all
  std::optional<std::string> prefix;        // and only keys that start with these bytes
  bool held_only = true;                    // only State::held; else every state
  std::optional<std::size_t> at_most = {};  // rows, in the order of keys
  bool keys_only = false;                   // a row a lock, its own, whoever holds it
};
struct Listing {
  ServerTime server_time;
  std::vector<LockStatus> locks;  // ordered by key bytes
};

struct ReapRequest {
  bool dry_run = false;
  Micros forget_after{0};  // rows idle longer than this are deleted; callers ensure at least one day
  std::optional<Micros> forget_history{};  // so are records of runs that ended longer ago
};
struct ReapReport {
  std::vector<LockStatus> abandoned;  // leases past expire_time + margin that were (or would be) freed
  std::uint64_t forgotten = 0;        // rows deleted (or that would be)
  std::uint64_t forgotten_runs = 0;   // the same of the history
};

struct HistoryQuery {
  std::vector<Key> keys;        // these keys; empty: all
  std::optional<Micros> since;  // runs that ended within this time
  std::size_t limit = 100;
};
struct History {
  bool kept = false;  // runs that end now are recorded
  bool cut = false;   // there are more than the limit
  ServerTime server_time;
  std::vector<RecordedRun> runs;  // the one that ended last first
};

// One store of leases, one connection.
//
// THREADING: not thread-safe, except interrupt(). One thread at a time; it may change between calls.
// CONNECTION: opened by the first call that needs it, and again by the first call after it broke. Nothing is
//   ever replayed: a call that loses its connection returns an error.
// ERRORS: Errc::unreachable - no connection, or a definite refusal for now (read-only, shutting down, lock
// wait
//   or deadlock retries used up): nothing was changed. Errc::indeterminate - sent, reply lost (only verbs
//   that write). Errc::denied, config, schema as in DESIGN section 2.
class LeaseStore {
 public:
  LeaseStore() = default;
  LeaseStore(const LeaseStore&) = delete;
  LeaseStore& operator=(const LeaseStore&) = delete;
  virtual ~LeaseStore() = default;

  // Opens the connection and checks the schema, if that has not happened.
  [[nodiscard]] virtual Result<void> connect() = 0;

  // One attempt, never waiting for a holder. A row found held by `request.owner` itself counts as granted,
  // with needs_renewal_proof set (a replayed statement, or our own lost reply). After Errc::indeterminate
  // call look() until it answers. Errc::usage when the lock is held with another number of slots than asked
  // for.
  [[nodiscard]] virtual Result<Answer> try_acquire(const AcquireRequest& request) = 0;

  // Reads the lock's row, or that of one of its holders where several hold it, without locks; nullopt when
  // there is none. Never writes.
  [[nodiscard]] virtual Result<std::optional<LockStatus>> peek(const Key& key) = 0;

  // Counts the request as part of the acquisition `request.outer`, if that is the holder of all its keys and
  // its lease has not ended, and renews that lease for as long as the request's. nullopt where it is not. A
  // nested lease's owner id is OUTER/random: renewing it renews the outer lease, releasing it only counts
  // down.
  [[nodiscard]] virtual Result<std::optional<Lease>> nest(const AcquireRequest& /*request*/) {
    return std::nullopt;
  }

  // The request is not going to be tried again: what it kept away from the lock may come.
  virtual void call_off(const AcquireRequest& /*request*/) noexcept {}

  // What try_acquire() would meet now, by reading only. The sent_at of a lease that was found is not known.
  [[nodiscard]] virtual Result<Answer> look(const AcquireRequest& request) = 0;
  // The same for one who stands in line and wants to know the place there as well, which may cost another
  // statement.
  [[nodiscard]] virtual Result<Answer> look_in_line(const AcquireRequest& request) { return look(request); }

  // Extends the lease by `ttl` (default: the stored TTL) from now, never shortening it. Succeeds only when
  // key, owner (and token) match, it is not revoked and expire_time is in the future. Safe to repeat.
  [[nodiscard]] virtual Result<RenewOutcome> renew(const LeaseRef& ref, Actor actor,
                                                   std::optional<Micros> ttl) = 0;

  // Frees the lock when key, owner (and token) match, and records how the run ended. Safe to repeat; a repeat
  // after success answers NotOurs.
  [[nodiscard]] virtual Result<ReleaseOutcome> release(const LeaseRef& ref, Actor actor, RunEnd end) = 0;

  // Gets ready for release(), which others wait for, while there is nothing else to do. May do nothing.
  virtual void prepare_release() noexcept {}

  // Puts what release() and free_now() have ended into the history, where one is kept and they have not done
  // it. For after everybody who waits has been let in. What fails is left out: no run is to suffer from it.
  virtual void record_ended() noexcept {}

  // Makes the holder's renewals fail from now on; the lease itself runs on to its end, and no cooldown
  // follows it. Ends a cooldown at once: `status` then has no owner.
  [[nodiscard]] virtual Result<ForceOutcome> revoke(const Key& key, Token token) = 0;
  // Frees the lock at once, unless a heartbeat younger than two intervals shows a live holder. Ends a
  // cooldown as revoke() does.
  [[nodiscard]] virtual Result<ForceOutcome> free_now(const Key& key, Token token) = 0;

  [[nodiscard]] virtual Result<Listing> list(const Selection& selection) = 0;
  [[nodiscard]] virtual Result<ReapReport> reap(const ReapRequest& request) = 0;
  // By plain reads.
  [[nodiscard]] virtual Result<History> history(const HistoryQuery& /*query*/) { return History{}; }

  // The store's line for those who wait; null where it has none. Lives as long as the store.
  [[nodiscard]] virtual Turnstile* turnstile() noexcept { return nullptr; }

  // Says goodbye to the server; the next call connects anew.
  virtual void disconnect() noexcept = 0;

  // Thread-safe. Breaks the connection under a call that another thread is in, so that it returns soon with
  // an error; nothing when no call is under way. A call still establishing a connection ends within its
  // timeout.
  virtual void interrupt() noexcept = 0;
};

}  // namespace dblock::lease
