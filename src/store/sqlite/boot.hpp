// The embedded store's clock. Deadlines are kept by (boot id, boot clock): the boot clock counts suspend and
// no step of the wall clock moves it; another boot id means that every holder of then is dead, unless it is a
// container's own.
#pragma once

#include <string>

#include "base/clock.hpp"
#include "lease/types.hpp"

namespace dblock::store::sqlite {

// One moment by both clocks, read together.
struct Moment {
  Micros boot{0};  // since boot, by the host's clock
  Micros wall{0};  // since the epoch, UTC

  // A time line is named by its distance from the boot clock.
  [[nodiscard]] Micros offset() const { return wall - boot; }
};

// Which boot this is, and where the caller's boot clock stands in it.
struct Boot {
  // The kernel's; with k_containers_own behind it where a container's manager (nspawn, LXC) has put a file of
  // its own in that place. Such an id differs between containers of one boot.
  std::string id;
  Micros namespace_offset{
      0};  // of a time namespace (time_namespaces(7)): the host's clock is this much behind ours
};

inline constexpr char k_containers_own = '*';

// Errc::config where /proc does not tell.
[[nodiscard]] Result<Boot> read_boot();

[[nodiscard]] Micros wall_now();
[[nodiscard]] Moment moment_now(const Clock& clock, const Boot& boot);

// A row's offset differs from the present one by jitter of reading two clocks, or because the wall clock was
// stepped. Steps are shown, jitter is not; neither decides anything.
inline constexpr Micros k_least_clock_step = std::chrono::milliseconds(100);

}  // namespace dblock::store::sqlite
