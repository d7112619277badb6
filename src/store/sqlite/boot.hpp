// The embedded store's clock. Deadlines are stored as (boot id, boot clock). The boot clock goes on during
// suspend, and no step of the wall clock moves it. If a row has another boot id, every holder of that boot is
// dead, unless the id is a container's own.
#pragma once

#include <string>

#include "base/clock.hpp"

namespace dblock::store::sqlite {

// One moment by both clocks.
struct TwoClocks {
  Micros boot{0};  // since boot, by the host's clock
  Micros wall{0};  // since the epoch, UTC

  // The distance between the two clocks. A row stores it to define its time line
  // (sql/verbs/sqlite/terms.sql).
  [[nodiscard]] Micros offset() const { return wall - boot; }
};

// Identifies the current boot, and tells how to convert the caller's boot clock to the host's.
struct Boot {
  // The kernel's boot id. With k_containers_own appended if a container manager (nspawn, LXC) has mounted a
  // file of its own there: such an id differs between containers of one boot.
  std::string id;
  // How far the host's boot clock is behind ours; not 0 in a time namespace (time_namespaces(7)).
  Micros namespace_offset{0};
};

inline constexpr char k_containers_own = '*';

// Errc::config if /proc does not show the boot id.
[[nodiscard]] Result<Boot> read_boot();

[[nodiscard]] Micros wall_now();
[[nodiscard]] TwoClocks clocks_now(const Clock& clock, const Boot& boot);

// A row's offset differs from the present one by the jitter of reading two clocks, or by a step of the wall
// clock. Differences from this length on count as steps, for which shown times are corrected. Neither steps
// nor jitter decide anything.
inline constexpr Micros k_least_clock_step = std::chrono::milliseconds(100);

}  // namespace dblock::store::sqlite
