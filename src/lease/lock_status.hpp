// A lock as the database has it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lease/lease.hpp"
#include "lease/past_run.hpp"
#include "lease/pause.hpp"
#include "lease/place.hpp"
#include "lease/promises.hpp"
#include "lease/server_time.hpp"

namespace dblock::lease {

// What a row's own times say. expired: past expire_time, and not yet taken over or reaped. cooldown: without
// a holder, but not granted before hold_until. unknown: only in a row that was edited by hand.
enum class State { held, expired, cooldown, free, unknown };

// One row of a lock as it was at `server_time`. Text is untrusted.
struct LockStatus {
  std::string key;  // raw bytes; may break Key's rules when the table was edited by hand
  State state = State::free;
  Kind kind = Kind::run;
  Sharing sharing{};  // of the last grant
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
  // When the holder's command ended, if its run has told that it waits for what the command left running.
  std::optional<ServerTime> job_ended_at{};
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
  // The holder's command has ended, and its run keeps the lock until what the command left running has, too.
  [[nodiscard]] bool waits_for_leftovers() const { return job_ended_at.has_value(); }
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

[[nodiscard]] std::string display_holder(const LockStatus& status);
[[nodiscard]] std::string_view to_string(State state);

}  // namespace dblock::lease
