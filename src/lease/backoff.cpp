#include "lease/backoff.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace dblock::lease {

Micros Backoff::next() {
  const Micros step = std::min(next_, limit_);
  const auto grown = static_cast<double>(step.count()) * multiplier_;
  next_ = grown >= static_cast<double>(limit_.count()) ? limit_ : Micros(static_cast<Micros::rep>(grown));
  std::uniform_int_distribution<Micros::rep> jitter(step.count() / 2, step.count());
  return Micros(jitter(random_));
}

Micros pause_after(std::uint64_t tries, Micros first, double growth) {
  constexpr Micros longest = std::chrono::days(36'500);  // as a duration that is typed
  const double length = static_cast<double>(first.count()) * std::pow(growth, static_cast<double>(tries - 1));
  return length < static_cast<double>(longest.count()) ? Micros(std::llround(length)) : longest;
}

}  // namespace dblock::lease
