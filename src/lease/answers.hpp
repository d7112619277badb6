// What a store answers, and what it is asked where that is more than names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.hpp"
#include "lease/lock_status.hpp"
#include "lease/past_run.hpp"
#include "lease/pause.hpp"
#include "lease/place.hpp"
#include "lease/request.hpp"

namespace dblock::lease {

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
  std::optional<OwnerId> left_line_to{};
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
  std::optional<Micros> since{};  // as in the query
};

}  // namespace dblock::lease
