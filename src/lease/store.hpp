// The contract that every store of leases keeps: I1 to I5 of src/README.md. Expiry is computed and compared
// on the server; local clocks only bound how long dblock relies on an answer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lease/answers.hpp"
#include "lease/request.hpp"
#include "lease/wake_up.hpp"

namespace dblock::lease {

// One store of leases, one connection: what a holder or a waiter asks of it.
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

  // What try_acquire() would answer now if nobody waited, found by reading only. Two refusals only a try
  // tells: of a lock without a row that is paused, and of an exclusive request for a lock that is held in
  // slots. A lease found so carries no sent_at: only the caller knows when it sent the try.
  [[nodiscard]] virtual Result<Answer> look(const LeaseRequest& request) = 0;
  // Both look() and see_line(), by one statement where the store can.
  [[nodiscard]] virtual Result<SeenInLine> look_in_line(const LeaseRequest& request);

  // Extends the lease to `ttl` (default: the stored TTL) from now, never shortening it. Succeeds only when
  // key, owner (and token) match, the lease is not revoked and expire_time is in the future. Safe to repeat.
  // `cooldown`: the lock is not granted to another holder for this long from now, even after its release.
  // `news`: stored with the row until the lease ends, unless the lease is nested.
  [[nodiscard]] virtual Result<RenewOutcome> renew(const LeaseRef& ref, Actor actor,
                                                   std::optional<Micros> ttl, Micros cooldown = Micros{0},
                                                   const std::optional<JobNews>& news = {}) = 0;

  // Frees the lock when key, owner (and token) match, and records how the run ended. Safe to repeat, and
  // a repeat after success answers NotOurs; but each release of a nested lease takes one more off the count.
  [[nodiscard]] virtual Result<ReleaseOutcome> release(const LeaseRef& ref, Actor actor, RunEnd end) = 0;

  // The request was granted the lock, which is held from now on: gives up its places in the line, for which
  // the job need not wait. this_store: also prepares for the renewals and the release, while the job starts,
  // and ends the session where the settings ask for that. Call it within a second of the grant.
  enum class RenewedBy { this_store, another };
  virtual void hold(RenewedBy /*by*/) noexcept {}

  // Nothing more is asked for the granted lease until its next renewal or its release: ends the session where
  // others need it more.
  virtual void rest() noexcept {}

  // Nothing more is asked for what this store has acquired, released or freed. Wakes the request that sleeps
  // behind this one (WakeUp::leave()), where the release has not. Then records in the history the runs that
  // have ended, where a history is kept and the database did not record them itself. A failure only leaves
  // the record out, so that no run suffers from it.
  virtual void end() noexcept {}

  // Makes the holder's renewals fail from now on; the lease itself runs on to its end, and no cooldown
  // follows it. `by`: who revokes, for the holder to say. Ends a cooldown at once: Revoked::status then has
  // no owner. `arrival`: of a request that revokes no lease whose own request came later.
  [[nodiscard]] virtual Result<ForceOutcome> revoke(const Key& key, Token token, const std::string& by,
                                                    std::optional<ServerTime> arrival = {}) = 0;
  // The store's wake-up, owned by the store; null where it has none.
  [[nodiscard]] virtual WakeUp* wake_up() noexcept { return nullptr; }

  // Closes the connection; the next call opens a new one.
  virtual void disconnect() noexcept = 0;

  // Thread-safe. Breaks the connection under a call that another thread is in, so that the call returns soon
  // with an error; does nothing when no call is under way. A call that is still opening a connection ends
  // within its timeout.
  virtual void interrupt() noexcept = 0;
};

// The same store, with what people and operators ask of its locks.
class LockBook : public LeaseStore {
 public:
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
};

}  // namespace dblock::lease
