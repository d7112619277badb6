#include "lease/backoff.hpp"

#include <algorithm>
#include <chrono>

namespace dblock::lease {

Micros Backoff::next() {
  const Micros step = std::min(next_, limit_);
  const auto grown = static_cast<double>(step.count()) * multiplier_;
  next_ = grown >= static_cast<double>(limit_.count()) ? limit_ : Micros(static_cast<Micros::rep>(grown));
  return jittered(step);
}

Micros Backoff::jittered(Micros length) {
  std::uniform_int_distribution<Micros::rep> jitter(length.count() / 2, length.count());
  return Micros(jitter(random_));
}

// By squaring, since std::pow() would map libm into every run.
Micros pause_after(std::uint64_t tries, Micros first, double growth) {
  constexpr Micros longest = std::chrono::days(36'500);  // the longest duration that a user may type
  if (first <= Micros::zero()) return Micros::zero();
  auto length = static_cast<double>(first.count());
  for (std::uint64_t left = tries - 1; left > 0; left /= 2) {
    if (left % 2 != 0) length *= growth;
    growth *= growth;
  }
  const std::chrono::duration<double, std::micro> pause(length);
  return pause < longest ? std::chrono::round<Micros>(pause) : longest;
}

}  // namespace dblock::lease
