#include "lease/waiting.hpp"

#include <algorithm>

namespace dblock::lease {
namespace {

using namespace std::chrono_literals;

// A place counts for the length, and is renewed after the interval.
struct Lifetime {
  Micros length;
  Micros interval;
};
constexpr Lifetime k_usual{150s, 60s};
constexpr Lifetime k_short{3s, 1s};

// The first in line looks at the lock more often than at the line.
constexpr Nanos k_line_changes = 1s;

// Up to this many requests before it, a request waits for the next one's end.
constexpr std::size_t k_longest_chain = 16;

}  // namespace

Result<void> Waiting::stand(const LockStatus& row, bool short_lived) {
  const Lifetime lifetime = short_lived ? k_short : k_usual;
  const auto own_is_there = [this] {
    return std::ranges::find(places_, request_.owner, &Place::owner) != places_.end();
  };
  const BootTime now = clock_.now();
  // A grant that did not see the places may have taken the mark back. Readers' and slots' rows have none.
  const auto known_until = row.line_until.value_or(ServerTime{});
  const bool unmarked = row.slot == 0 && known_until.since_epoch < row.server_time.since_epoch + length_ / 4;
  const bool due = !renewed_at_ || now >= *renewed_at_ + std::min(lifetime.interval, length_ / 2) ||
                   !own_is_there() || unmarked || length_ < lifetime.length;
  if (due) {
    // One row tells of one lock.
    const bool marks = request_.of_pool() || !request_.also.empty() ||
                       known_until.since_epoch < row.server_time.since_epoch + lifetime.length * 2 / 3;
    DBLOCK_TRY(request_.arrival, store_.stand_in_line(request_, lifetime.length, marks));
    renewed_at_ = now;
    length_ = lifetime.length;
  }
  const bool as_before = !due && before_.empty() && now < seen_at_ + k_line_changes;
  if (as_before) return {};
  seen_at_ = now;
  DBLOCK_TRY(places_, store_.see_line(request_));
  before_.clear();
  for (const auto* place : places_before(places_, request_, row.key.empty() ? request_.key.bytes() : row.key))
    before_.push_back(place->owner);
  return {};
}

bool Waiting::is_short_lived() const {
  return length_ < k_usual.length;
}

OwnerId Waiting::ahead(const LockStatus& row) const {
  if (before_.empty()) return {row.owner};
  const std::size_t count = before_.size();
  const std::size_t skipped = count <= k_longest_chain ? 0 : std::max(k_longest_chain, count / 4);
  return before_[count - 1 - std::min(skipped, count - 1)];
}

}  // namespace dblock::lease
