// Pauses between tries. The step grows exponentially; each pause is random, between half of the step and the
// whole, so that waiters spread out.
#pragma once

#include <cstdint>
#include <random>

#include "base/clock.hpp"

namespace dblock::lease {

class Backoff {
 public:
  static constexpr double k_doubling = 2.0;

  Backoff(Micros first, Micros limit, double multiplier, std::uint64_t seed)
      : next_(first), limit_(limit), multiplier_(multiplier), random_(seed) {}

  // The next pause: between half of and the full current step; the step then grows up to the limit.
  [[nodiscard]] Micros next();
  void reset(Micros first) { next_ = first; }
  // Between half of and the full `length`; changes no step.
  [[nodiscard]] Micros jittered(Micros length);

 private:
  Micros next_;
  Micros limit_;
  double multiplier_;
  std::minstd_rand random_;
};

// The pause after the given number of tries (from 1 on): `first`, each next one `growth` times longer,
// without jitter.
[[nodiscard]] Micros pause_after(std::uint64_t tries, Micros first, double growth);

}  // namespace dblock::lease
