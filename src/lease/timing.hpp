// Pure deadline arithmetic (I4): from a TTL to the moments at which dblock must act. Reads no clock.
#pragma once

#include <optional>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "lease/lease.hpp"

namespace dblock::lease {

// Everything derived from a TTL. Invariant: 2*heartbeat + kill_grace + slack <= ttl, so that one renewal may
// fail and be retried before the job has to be signalled.
struct Timing {
  Micros ttl{0};
  Micros heartbeat{0};   // renewal interval
  Micros kill_grace{0};  // first signal to SIGKILL
  Micros slack{0};       // SIGKILL to expire_time: time to see the whole tree dead
  Micros margin{0};

  [[nodiscard]] Terms terms() const { return {ttl, margin, heartbeat}; }

  // With the last confirmed grant or renewal sent at `sent`: the lease ends at the server no earlier than
  // this, because the server read its clock after we sent.
  [[nodiscard]] BootTime expires(BootTime sent) const { return sent + ttl; }
  [[nodiscard]] BootTime kill_at(BootTime sent) const { return expires(sent) - slack; }
  [[nodiscard]] BootTime signal_at(BootTime sent) const { return kill_at(sent) - kill_grace; }
};

// The lease margin where none is asked for is this, or a tenth of the TTL when less.
inline constexpr Micros k_max_default_margin = std::chrono::seconds(3);

struct TimingRequest {
  Micros ttl{0};
  std::optional<Micros> heartbeat;   // default TTL/6, at most 15 s
  std::optional<Micros> kill_grace;  // default 4 s, or TTL/6 when less
  std::optional<Micros> margin;      // default 3 s, or TTL/10 when less
};

// Errc::usage with both sides of the inequality when it does not hold, or a value is out of range
// (TTL 1 s to 30 d, margin 0 to TTL, heartbeat > 0).
[[nodiscard]] Result<Timing> make_timing(const TimingRequest& request);

// Longest a single network call may take under this TTL: TTL/6, between 3 s (the server's own lock wait is 2
// s) and 10 s. Stopping the job does not wait for the call: the thread that watches the deadline calls
// LeaseStore::interrupt().
[[nodiscard]] std::chrono::seconds network_timeout(Micros ttl);
// The same for a renewal, which waits for no lock: at most half of the time from the moment when it is due
// until the job must be signalled. So a second renewal over a new connection has as long.
[[nodiscard]] Micros renewal_timeout(const Timing& timing);

}  // namespace dblock::lease
