#include "lease/backoff.hpp"

#include <algorithm>

namespace dblock::lease {

Micros Backoff::next() {
  const Micros step = std::min(next_, limit_);
  const auto grown = static_cast<double>(step.count()) * multiplier_;
  next_ = grown >= static_cast<double>(limit_.count()) ? limit_ : Micros(static_cast<Micros::rep>(grown));
  std::uniform_int_distribution<Micros::rep> jitter(step.count() / 2, step.count());
  return Micros(jitter(random_));
}

}  // namespace dblock::lease
