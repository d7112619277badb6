#include "lease/waiting.hpp"

#include <algorithm>
#include <utility>

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

// Without sleep the first in line looks five to ten times a second; each request before another one makes
// that one's looks rarer by this.
constexpr Micros k_look_interval = 800ms;
constexpr Micros k_longest_look_interval = 30s;
// While a line stands still, the looks are rarer beyond the first few: most of a long line stands far back.
// The second in line still looks once a second, and so keeps its session, at whose end the third would wake.
constexpr Micros::rep k_first_few = 4;
constexpr Micros k_longest_in_still_line = 60s;
constexpr Micros k_shortest_look_interval = 100ms;
// How quickly a line moves nobody knows at first: the intervals begin at this part of the usual one, and grow
// by this factor as long as the line is seen to stand.
constexpr Micros::rep k_interval_growth = 4;
// In a moment that all know, the first ten look one after the other, also on a busy machine.
constexpr Micros k_just_after = 150ms;
constexpr Micros k_longest_after = 1500ms;

// Where the request ahead is still there after a sleep behind it, nobody can tell when it ends; or there was
// no sleep. Another one is tried after a while. Further back a seat is worth less, and many would ask for
// one. There the request ahead may have no session at all, as where sessions are scarce: while sleeps behind
// it end at once, the next one is tried later by this factor.
constexpr Nanos k_sleepless = 5s;
constexpr Nanos k_sleepless_further_back = 60s;
constexpr int k_sleepless_growth = 2;
constexpr Nanos k_no_sleep = 1s;

// The end of a cooldown or a pause is known, so frequent polls gain nothing.
bool end_is_known(const LockStatus& row) {
  return row.state == State::cooldown || row.only_paused();
}

ServerTime known_until(const LockStatus& row) {
  return row.line_until.value_or(ServerTime{});
}

}  // namespace

Result<Answer> Waiting::look() {
  just_seen_.reset();
  if (knows_line(clock_.now())) return store_.look(request_);
  DBLOCK_TRY(auto seen, store_.look_in_line(request_));
  just_seen_ = std::move(seen.places);
  return std::move(seen.answer);
}

Result<void> Waiting::stand(const LockStatus& row, bool short_lived) {
  auto line = std::exchange(just_seen_, std::nullopt);
  const Lifetime lifetime = short_lived ? k_short : k_usual;
  const BootTime now = clock_.now();
  // A grant that did not see the places may have taken the mark back. Readers' and slots' rows have none.
  const bool unmarked =
      row.slot == 0 && known_until(row).since_epoch < row.server_time.since_epoch + length_ / 4;
  const bool due = !renewed_at_ || now >= *renewed_at_ + std::min(lifetime.interval, length_ / 2) ||
                   unmarked || length_ < lifetime.length;
  if (due) DBLOCK_CHECK(renew(row, lifetime.length));
  if (!line && !due && knows_line(now)) return {};
  if (!line) {
    DBLOCK_TRY(line, store_.see_line(request_));
  }
  seen_at_ = now;
  places_ = std::move(*line);
  const std::string& key = row.key.empty() ? request_.key.bytes() : row.key;
  rank_ = count_before(places_, request_, key);
  before_ = places_before(places_, request_, key);
  // Somebody has passed this request, and removed its places.
  if (!due && !has_all_places()) return renew(row, lifetime.length);
  return {};
}

Result<void> Waiting::renew(const LockStatus& row, Micros length) {
  const BootTime now = clock_.now();
  // One row tells of one lock.
  const bool marks = request_.of_pool() || !request_.further_keys.empty() ||
                     known_until(row).since_epoch < row.server_time.since_epoch + length * 2 / 3;
  has_asked_ = true;
  DBLOCK_TRY(request_.arrival, store_.stand_in_line(request_, length, marks));
  renewed_at_ = now;
  length_ = length;
  return {};
}

// The first in line needs no news of it each time that it looks at the lock.
bool Waiting::knows_line(BootTime now) const {
  return renewed_at_ && before_.empty() && now < seen_at_ + k_line_changes;
}

bool Waiting::has_all_places() const {
  const auto own = std::ranges::count(places_, request_.owner, &Place::owner);
  return static_cast<std::size_t>(own) == locks_of(request_).size();
}

bool Waiting::is_short_lived() const {
  return length_ < k_usual.length;
}

const Place* Waiting::place_ahead() const {
  if (before_.empty()) return nullptr;
  const std::size_t count = before_.size();
  const std::size_t skipped = count <= k_longest_chain ? 0 : std::max(k_longest_chain, count / 4);
  return before_[count - 1 - std::min(skipped, count - 1)];
}

bool Waiting::looks_often(const LockStatus& row) const {
  return request_.line != Line::fifo || request_.replaces ||
         (request_.sharing.mode == Mode::exclusive && row.is_reader() && before_.empty());
}

// A sleep ends with one other request. So a request that any of several ends would help must look itself, and
// one that waits for a known time can.
bool Waiting::may_sleep(const LockStatus& row) const {
  if (wake_up_ == nullptr || looks_often(row) || request_.of_pool() || request_.sharing.mode == Mode::slot)
    return false;
  if (before_.empty() && (row.state != State::held || row.only_paused())) return false;
  const OwnerId next = ahead(row);
  const bool is_sleepless =
      next == sleepless_.ahead && before() == sleepless_.before && clock_.now() < sleepless_.until;
  return !next.text.empty() && !is_sleepless;
}

void Waiting::slept_behind(const OwnerId& ahead, Slept how) {
  const BootTime now = clock_.now();
  const bool again =
      ahead == sleepless_.ahead && before() == sleepless_.before && now < slept_since_ + k_no_sleep;
  Nanos length = k_sleepless;
  if (!before_.empty() && how == Slept::no_seat) length = k_sleepless_further_back;
  if (!before_.empty() && how == Slept::to_its_end && again)
    length = std::min(sleepless_.length * k_sleepless_growth, k_sleepless_further_back);
  sleepless_ = {ahead, before(), length, now + length};
}

// A request that waits for another lock too leaves this one free, or gets the other and keeps its session:
// nobody is told of either.
Micros Waiting::until_look(const LockStatus& row) {
  const LookSchedule schedule = wake_up_->look_schedule();
  const Place* const place = place_ahead();
  if (!wake_up_->asleep()) {
    nobody_may_wake_us_ = place != nullptr && place->waits_elsewhere;
    slept_since_ = clock_.now();
  }
  const Micros free_for_long = static_cast<Micros::rep>(std::max<std::size_t>(before(), 1)) * k_line_patience;
  const Micros stay = pacing_.until_look(nobody_may_wake_us_ ? std::min(schedule.interval, free_for_long)
                                                             : schedule.interval);
  const bool at_expiry = schedule.at_expiry || before_.empty();
  return not_past_free(at_expiry ? not_past_expiry(stay, row) : stay, row);
}

Micros Waiting::until_poll(const LockStatus& row) {
  const auto behind = static_cast<Micros::rep>(rank());
  if (behind == 0 || looks_often(row)) return not_past_expiry(pacing_.after_refusal(!end_is_known(row)), row);
  const Micros interval = look_interval(behind, row.waited_for);
  const Micros stay = interval / 2 + pacing_.until_look(interval / 2);  // few looks, and none in step
  return not_past_free(before_.empty() ? not_past_expiry(stay, row) : stay, row);
}

// By the rank, and by what the line did since the last look. Where it moves on, a request looks after half
// the time in which it comes to the front. While the lock is free the line is about to move.
Micros Waiting::look_interval(Micros::rep rank, bool is_free) {
  const auto last = std::exchange(last_rank_, {rank, clock_.now()});
  const auto since = std::chrono::duration_cast<Micros>(last_rank_.at - last.at);
  const auto moved = last.count - rank;
  const Micros usual = std::min(k_longest_look_interval, k_look_interval * rank);
  const Micros first = usual / k_interval_growth;
  if (moved < 0) return first;
  if (moved > 0)
    return std::clamp(since * rank / (2 * moved), k_shortest_look_interval, is_free ? first : usual);
  if (is_free) return first;
  const Micros in_still_line =
      std::min(k_longest_in_still_line, k_look_interval * (rank * (k_first_few + rank)) / k_first_few);
  return std::clamp(since * k_interval_growth, first, in_still_line);
}

bool Waiting::may_pass(const LockStatus& row) const {
  return row.free_since().since_epoch + passes_after() <= row.server_time.since_epoch;
}

// A lock that is free goes to whoever asks after a while.
Micros Waiting::not_past_free(Micros stay, const LockStatus& row) const {
  const Micros free_for = row.server_time.since_epoch - row.free_since().since_epoch;
  if (free_for < Micros{0} || row.pause || free_for > passes_after()) return stay;
  return std::min(stay, passes_after() - free_for);
}

// A lease that nobody renews becomes free at a known time: look then, not a poll interval later.
Micros Waiting::not_past_expiry(Micros stay, const LockStatus& row) const {
  ServerTime end = row.grantable_at();
  if (row.pause) end = std::max(end, row.pause->until);
  const Micros left = end.since_epoch - row.server_time.since_epoch;
  return left > Micros{0} ? std::min(stay, left + after_those_before()) : stay;
}

Micros Waiting::passes_after() const {
  return k_line_patience + after_those_before();
}

Micros Waiting::after_those_before() const {
  return std::min<Micros>(k_longest_after, static_cast<Micros::rep>(rank()) * k_just_after);
}

}  // namespace dblock::lease
