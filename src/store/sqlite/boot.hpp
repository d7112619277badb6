// The embedded store's clock. Deadlines are kept by (boot id, boot clock): the boot clock counts suspend and
// no step of the wall clock moves it; another boot id means that every holder of then is dead.
#pragma once

#include <string>

#include "base/clock.hpp"
#include "lease/types.hpp"

namespace dblock::store::sqlite {

// One moment by both clocks, read together.
struct Moment {
  Micros boot{0};  // since boot
  Micros wall{0};  // since the epoch, UTC

  // A time line is named by its distance from the boot clock.
  [[nodiscard]] Micros offset() const { return wall - boot; }
};

[[nodiscard]] Moment moment_now(Clock& clock);

// A row's offset differs from the present one by jitter of reading two clocks, or because the wall clock was
// stepped. Steps are shown, jitter is not; neither decides anything.
inline constexpr Micros k_least_clock_step = std::chrono::milliseconds(100);

// /proc/sys/kernel/random/boot_id, see random(4).
[[nodiscard]] Result<std::string> read_boot_id();

}  // namespace dblock::store::sqlite
