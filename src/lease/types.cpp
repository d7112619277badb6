#include "lease/types.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <utility>

#include "base/text.hpp"

namespace dblock::lease {
namespace {

constexpr std::size_t k_max_key_bytes = 255;  // width of the lock_key column

constexpr std::array<std::pair<RunOutcome, std::string_view>, 8> k_outcomes{{
    {RunOutcome::succeeded, "succeeded"},
    {RunOutcome::failed, "failed"},
    {RunOutcome::signalled, "signalled"},
    {RunOutcome::timed_out, "timed_out"},
    {RunOutcome::lost, "lost"},
    {RunOutcome::released, "released"},
    {RunOutcome::not_run, "not_run"},
    {RunOutcome::abandoned, "abandoned"},
}};

}  // namespace

Result<Key> Key::parse(std::string_view bytes) {
  if (bytes.empty()) return fail(Errc::usage, "a key must not be empty; give the lock a name");
  if (bytes.size() > k_max_key_bytes) {
    return fail(Errc::usage, "a key has at most " + std::to_string(k_max_key_bytes) +
                                 " bytes, this one has " + std::to_string(bytes.size()) +
                                 "; choose a shorter name");
  }
  if (!is_utf8(bytes)) {
    return fail(Errc::usage,
                "a key must be valid UTF-8, and \"" + escape_untrusted(bytes) + "\" is not; rename it");
  }
  if (has_control_character(bytes)) {
    return fail(Errc::usage, "a key must not hold control characters such as newlines, and \"" +
                                 escape_untrusted(bytes) + "\" does; rename it");
  }
  return Key(std::string(bytes));
}

ServerTime LockStatus::grantable_at() const {
  ServerTime at{Micros{0}};
  if (!owner.empty() && expires_at) at.since_epoch = expires_at->since_epoch + margin;
  if (hold_until) at = std::max(at, *hold_until);
  return at;
}

bool LockStatus::done_within(const OncePer& once_per) const {
  if (!last_success || !last_success->acquired_at) return false;
  const Micros age = server_time.since_epoch - last_success->acquired_at->since_epoch;
  return age < once_per.look_back() && -age <= once_per.look_ahead();
}

std::string display_holder(const Holder& holder) {
  std::string text;
  if (!holder.user.empty()) text = escape_untrusted(holder.user) + "@";
  return text + escape_untrusted(holder.host) + ":" + std::to_string(holder.pid);
}

std::string display_holder(const LockStatus& status) {
  return display_holder(status.holder);
}

LeaseRef ref_to(const Lease& lease) {
  return {lease.key, lease.owner, lease.token, lease.also, lease.sharing.mode, lease.rows};
}

std::optional<std::uint32_t> slot_of(const LeaseRef& ref) {
  if (!ref.rows.empty()) return ref.rows.front();
  return ref.mode == Mode::exclusive ? std::optional(0U) : std::nullopt;
}

LeaseRef part_of(const LeaseRef& ref, const Key& key) {
  LeaseRef part{key, ref.owner, ref.token, {}, ref.mode};
  const auto also = std::ranges::find(ref.also, key);
  const auto at = key == ref.key ? 0 : static_cast<std::size_t>(also - ref.also.begin()) + 1;
  if (at < ref.rows.size()) part.rows = {ref.rows[at]};
  return part;
}

std::string_view to_string(Mode mode) {
  switch (mode) {
    case Mode::shared:
      return "shared";
    case Mode::slot:
      return "slot";
    default:
      return "exclusive";
  }
}

std::string_view to_string(Kind kind) {
  return kind == Kind::run ? "run" : "acquire";
}

std::string_view to_string(State state) {
  switch (state) {
    case State::held:
      return "held";
    case State::expired:
      return "expired";
    case State::cooldown:
      return "cooldown";
    case State::free:
      return "free";
    case State::unknown:
      break;
  }
  return "unknown";
}

std::string_view to_string(RunOutcome outcome) {
  const auto* const it = std::ranges::find(k_outcomes, outcome, &decltype(k_outcomes)::value_type::first);
  return it == k_outcomes.end() ? "unknown" : it->second;
}

std::optional<RunOutcome> parse_outcome(std::string_view text) {
  const auto* const it = std::ranges::find(k_outcomes, text, &decltype(k_outcomes)::value_type::second);
  if (it == k_outcomes.end()) return std::nullopt;
  return it->first;
}

// Not strftime(): it would read the time zone's file at every start.
std::string format_time(ServerTime time) {
  const auto days = std::chrono::floor<std::chrono::days>(time.since_epoch);
  const std::chrono::year_month_day date{std::chrono::sys_days(days)};
  const std::chrono::hh_mm_ss clock(time.since_epoch - days);
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02ld:%02ld:%02ld.%06ldZ",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<long>(clock.hours().count()),
                static_cast<long>(clock.minutes().count()), static_cast<long>(clock.seconds().count()),
                static_cast<long>(clock.subseconds().count()));
  return text.data();
}

}  // namespace dblock::lease
