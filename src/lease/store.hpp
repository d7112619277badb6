// The contract that every store of leases keeps: I1 to I5 of src/README.md. Expiry is computed and compared
// on the server; local clocks only bound how long dblock relies on an answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lease/promises.hpp"
#include "lease/types.hpp"
#include "lease/wake_up.hpp"

namespace dblock::lease {

// The lease that an acquisition asks the store for.
struct LeaseRequest {
  Key key;
  std::vector<Key> also{};  // further keys, sorted, after `key`: all of them or none
  OwnerId owner;
  Kind kind = Kind::run;
  Terms terms;
  Holder holder;
  Promises promises{};
  Sharing sharing{};
  // Owner id of an ancestor run that may hold the same locks. Where it does, the request nests in the
  // ancestor's lease instead of waiting for it.
  std::optional<OwnerId> outer{};
  Line line = Line::fifo;    // another value only for a plain() request
  bool replaces = false;     // revokes a replaceable lease that refuses the request
  bool replaceable = false;  // such a request may revoke the lease
  // When the request was first refused, once it has a place in the line (LeaseStore::stand_in_line()).
  std::optional<ServerTime> arrival{};
  // A pool: of `key` and these the first that is free is taken. Not together with `also`.
  std::vector<Key> any{};

  [[nodiscard]] bool of_pool() const { return !any.empty(); }
  // One exclusive key: a single statement can grant it.
  [[nodiscard]] bool plain() const { return also.empty() && any.empty() && sharing.mode == Mode::exclusive; }
};

// The requests that a pool's request stands for, one a key, in the order of preference; else the request
// itself.
[[nodiscard]] std::vector<LeaseRequest> members_of(const LeaseRequest& request);

// All keys of the request, those of a pool's members among them.
[[nodiscard]] std::vector<Key> locks_of(const LeaseRequest& request);

// Names the lease that the request may have been granted; without a token, since none is known yet. REQUIRES:
// not of_pool().
[[nodiscard]] LeaseRef ref_to(const LeaseRequest& request);
// The same for each member of a pool.
[[nodiscard]] std::vector<LeaseRef> refs_to(const LeaseRequest& request);

// The answers to a try, and to a look, which changes nothing: Granted, Held, Done and Free. Granted: the
// request holds the lock.
struct Granted {
  Lease lease;
  std::optional<LockStatus> row{};  // set where the grant was found by reading; `lease` then needs proof
};
// The lock cannot be granted now: it is held, within its margin, in cooldown, paused, kept by a job's open
// transaction, or others wait for it. An outcome, not an error. `status`: the row whose end the request
// waits for.
struct Held {
  LockStatus status;
  // Set where the request has left the line to this waiting request (Line::one, Line::newest).
  std::optional<OwnerId> left_to{};
};
// A job under this key has succeeded within the period (Promises::once_per). The lock may be held or free.
struct Done {
  LockStatus status;
};
// The request would be granted. Answers a look, never a try.
struct Free {
  std::uint32_t slot = 0;              // the row that a grant would use
  std::optional<LockStatus> status{};  // the lock's own row; nullopt: it has none yet
};
using Answer = std::variant<Granted, Held, Done, Free>;

// The answer to a look, and the places that count in the lines of the request's locks, in their order.
struct SeenInLine {
  Answer answer;
  std::vector<Place> places;
};

// The lease granted by a statement that reported `token`. `slot`: 0 for an exclusive lock, else the holder's
// row.
[[nodiscard]] Granted granted(const LeaseRequest& request, Token token, std::uint32_t slot, BootTime sent_at);
// The lease found by reading `row`, which carries the request's owner id. It needs a renewal as proof.
[[nodiscard]] Granted found(const LeaseRequest& request, LockStatus row, BootTime sent_at);

struct Renewed {
  BootTime sent_at;       // local time before the statement was sent: the lease is ours until sent_at + ttl
  Micros ttl{0};          // the length granted by this renewal
  ServerTime expires_at;  // only set for Actor::script, else zero: the heartbeat has no use for it
};

enum class NotOursWhy {
  absent,        // no such row
  free,          // no holder
  other_holder,  // another owner id
  expired,       // our owner id, but past expire_time
  revoked,       // our owner id, revoked with --force (renew only)
  nested,        // our owner id, and a nested run holds the lease as well (release by Actor::holder only)
  other_kind,    // our owner id, but a running `dblock run` or an application holds it (Actor::script only)
};
struct NotOurs {
  NotOursWhy why = NotOursWhy::absent;
  std::optional<LockStatus> status;  // the row as it is now, where there is one
};
using RenewOutcome = std::variant<Renewed, NotOurs>;

struct Released {};
using ReleaseOutcome = std::variant<Released, NotOurs>;

// On whose behalf a lease is renewed or released.
// - holder: the run itself. Its release also succeeds past expire_time until a takeover, but not while a
//   nested run holds the lease as well.
// - stopper: a run or guardian that has stopped every process under the lease, nested runs included. As
//   holder, but nested runs do not keep it from releasing.
// - script: only Kind::acquire leases that have not expired.
enum class Actor { holder, stopper, script };

struct Revoked {
  LockStatus status;
};
// Why revoke() or free_now() changed nothing: `token` is not the current one, no holder and no cooldown,
// (free_now() only) the last heartbeat is younger than two intervals, or the lease's request came later than
// the arrival.
struct ForceRefused {
  enum class Why { wrong_token, not_held, fresh_heartbeat, came_later } why = Why::wrong_token;
  std::optional<LockStatus> status;
};
using ForceOutcome = std::variant<Revoked, ForceRefused>;

// Asks for no new grants of the locks in `scope`, for a time from now or until a moment.
struct PauseRequest {
  PauseScope scope;
  std::variant<Micros, ServerTime> end;
  std::string by;  // user@host
  std::string note;
};
struct Paused {
  Pause pause;
  std::optional<Pause> replaced;  // the pause of the same scope that was in effect before
};
struct Resumed {
  std::optional<Pause> ended;  // nullopt: there was no pause of this scope
  std::vector<Pause> left;     // other pauses that cover a part of the scope, or all of it
};

struct Selection {
  std::vector<Key> keys;                    // these keys; empty: all
  std::optional<std::string> prefix;        // and only keys that start with these bytes
  bool held_only = true;                    // only State::held; else every state
  std::optional<std::size_t> at_most = {};  // rows, in the order of keys
  bool keys_only = false;                   // only each lock's own row, no rows of readers or slot holders
  bool from_primary = false;                // as of now, never from a server that may lag
  bool with_pauses = false;                 // also the pauses in effect, whatever they cover
  // Where nothing else keeps any of the locks from an exclusive request: also looks for transactions that do,
  // and sets LockStatus::kept_by_transaction at the first lock where there is one.
  bool with_transactions = false;
};
struct Listing {
  ServerTime server_time;
  std::vector<LockStatus> locks;  // ordered by key bytes
  std::vector<Pause> pauses{};    // only for a selection with them; ordered by scope
};

struct ReapOptions {
  bool dry_run = false;
  Micros forget_after{0};                  // rows idle longer than this are deleted; never less than a day
  std::optional<Micros> forget_history{};  // records of runs that ended longer ago are deleted; nullopt: none
};
struct ReapReport {
  std::vector<LockStatus> abandoned;  // leases past expire_time + margin that were (or would be) freed
  std::uint64_t forgotten = 0;        // rows deleted (or that would be)
  std::uint64_t forgotten_runs = 0;   // records of past runs deleted (or that would be)
};

struct HistoryQuery {
  std::vector<Key> keys;        // these keys; empty: all
  std::optional<Micros> since;  // runs that ended within this time
  std::size_t limit = 100;
  std::optional<std::string> prefix{};  // only keys that start with these bytes
  std::optional<RunOutcome> outcome{};  // only runs that ended so
};
struct History {
  bool kept = false;  // runs that end now are recorded
  bool cut = false;   // more runs matched than `limit`
  ServerTime server_time;
  std::vector<RecordedRun> runs;  // latest end first
};

// One store of leases, one connection.
//
// THREADING: not thread-safe, except interrupt(). One thread at a time calls it; that thread may change
//   between calls.
// CONNECTION: opened by the first call that needs it, and again by the first call after it broke. Nothing is
//   ever replayed: a call that loses its connection returns an error.
// ERRORS: Errc::unreachable - no connection, or a definite refusal for now (read-only, shutting down, lock
//   wait or deadlock retries used up): nothing was changed. Errc::indeterminate - sent, reply lost (only
//   verbs that write). Errc::denied, config, schema as in base/error.hpp.
class LeaseStore {
 public:
  LeaseStore() = default;
  LeaseStore(const LeaseStore&) = delete;
  LeaseStore& operator=(const LeaseStore&) = delete;
  virtual ~LeaseStore() = default;

  // Opens the connection and checks the schema, unless both are done.
  [[nodiscard]] virtual Result<void> connect() = 0;

  // One attempt, never waiting for a holder. A row found held by `request.owner` itself counts as granted,
  // with needs_renewal_proof set (a replayed statement, or our own lost reply). After Errc::indeterminate
  // call look() until it answers. Errc::usage when the lock is held in a mode that does not go with the
  // request's (Mode), or with another number of slots.
  [[nodiscard]] virtual Result<Answer> try_acquire(const LeaseRequest& request) = 0;

  // Nests the request in the lease of `request.outer`: adds one to the lease's count, and renews it for the
  // TTL of the request. nullopt where `outer` does not hold all keys of the request, or its lease has ended.
  // The nested lease's owner id is OUTER/random: renewing it renews the outer lease, releasing it takes one
  // off the count. REQUIRES: `request.outer` is set.
  [[nodiscard]] virtual Result<std::optional<Lease>> nest(const LeaseRequest& /*request*/) {
    return std::nullopt;
  }

  // Takes a place in the line of each of the request's locks (of each member of a pool), or lets its places
  // count for longer: for `length` from now on. Answers the arrival, which LeaseRequest::arrival must name
  // from then on: places that somebody has removed come back with it. Where a place was added, and with
  // `marks` always, also tells those who find the lock free that somebody waits, which takes one more
  // statement; the lock's row says until when they know. REQUIRES: the locks have refused the request.
  [[nodiscard]] virtual Result<ServerTime> stand_in_line(const LeaseRequest& /*request*/, Micros /*length*/,
                                                         bool /*marks*/) {
    return ServerTime{};
  }
  // The places that count in the lines of the request's locks, in their order.
  [[nodiscard]] virtual Result<std::vector<Place>> see_line(const LeaseRequest& /*request*/) {
    return std::vector<Place>();
  }
  // Gives up the request's places, because it was not granted. Where that fails, they end by themselves.
  virtual void leave_line(const LeaseRequest& /*request*/) noexcept {}

  // What try_acquire() would answer now if nobody waited, found by reading only. A lease found so carries no
  // sent_at: only the caller knows when it sent the try.
  [[nodiscard]] virtual Result<Answer> look(const LeaseRequest& request) = 0;
  // Both look() and see_line(), by one statement where the store can.
  [[nodiscard]] virtual Result<SeenInLine> look_in_line(const LeaseRequest& request);

  // Extends the lease to `ttl` (default: the stored TTL) from now, never shortening it. Succeeds only when
  // key, owner (and token) match, the lease is not revoked and expire_time is in the future. Safe to repeat.
  // `keep`: the lock is not granted to another holder for this long from now, even after its release.
  [[nodiscard]] virtual Result<RenewOutcome> renew(const LeaseRef& ref, Actor actor,
                                                   std::optional<Micros> ttl, Micros keep = Micros{0}) = 0;

  // Frees the lock when key, owner (and token) match, and records how the run ended. Safe to repeat, and
  // a repeat after success answers NotOurs; but each release of a nested lease takes one more off the count.
  [[nodiscard]] virtual Result<ReleaseOutcome> release(const LeaseRef& ref, Actor actor, RunEnd end) = 0;

  // The granted request gives up its places in line, for which the job need not wait. Call it within a second
  // of the grant, and before the release.
  virtual void settle() noexcept {}

  // This store will renew and release the granted lease: prepares for that, while the job starts. Ends the
  // session where the settings ask for that.
  virtual void expect_release() noexcept {}

  // Nothing more is asked for the granted lease until its next renewal or its release: ends the session where
  // others need it more.
  virtual void rest() noexcept {}

  // Records in the history the runs that release() and free_now() have ended, where a history is kept and the
  // database did not record them itself. Call it when no waiter waits for this process any more. A failure
  // only leaves the record out, so that no run suffers from it.
  virtual void record_ended() noexcept {}

  // Makes the holder's renewals fail from now on; the lease itself runs on to its end, and no cooldown
  // follows it. `by`: who revokes, for the holder to say. Ends a cooldown at once: Revoked::status then has
  // no owner. `arrival`: of a request that revokes no lease whose own request came later.
  [[nodiscard]] virtual Result<ForceOutcome> revoke(const Key& key, Token token, const std::string& by,
                                                    std::optional<ServerTime> arrival = {}) = 0;
  // Frees the lock at once, unless a heartbeat younger than two intervals shows a live holder. Ends a
  // cooldown as revoke() does.
  [[nodiscard]] virtual Result<ForceOutcome> free_now(const Key& key, Token token) = 0;

  // Pauses the locks in the scope; replaces a pause of the same scope. Once it has returned, no new lease of
  // theirs is granted until the pause ends, and all that were granted before are listed as held. Leases that
  // are held go on. Errc::usage where the end is not in the future. After an error the pause may be stored,
  // but a grant that was under way may still succeed: repeat the call.
  [[nodiscard]] virtual Result<Paused> pause(const PauseRequest& request) = 0;
  // Ends the pause of exactly this scope.
  [[nodiscard]] virtual Result<Resumed> resume(const PauseScope& scope) = 0;

  // The selected locks: a row for each holder, or the lock's own row where there is no holder. A lock that
  // has no row is listed as free while somebody waits for it.
  [[nodiscard]] virtual Result<Listing> list(const Selection& selection) = 0;
  // Frees the leases past expire_time + margin, and deletes rows and records that are old enough. With
  // `dry_run` it only reports them.
  [[nodiscard]] virtual Result<ReapReport> reap(const ReapOptions& options) = 0;
  // The runs that have ended, where a history is kept. Locks nothing and never writes.
  [[nodiscard]] virtual Result<History> history(const HistoryQuery& /*query*/) { return History{}; }

  // The store's wake-up, owned by the store; null where it has none.
  [[nodiscard]] virtual WakeUp* wake_up() noexcept { return nullptr; }

  // Closes the connection; the next call opens a new one.
  virtual void disconnect() noexcept = 0;

  // Thread-safe. Breaks the connection under a call that another thread is in, so that the call returns soon
  // with an error; does nothing when no call is under way. A call that is still opening a connection ends
  // within its timeout.
  virtual void interrupt() noexcept = 0;
};

}  // namespace dblock::lease
