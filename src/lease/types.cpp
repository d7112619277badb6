#include "lease/types.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <system_error>
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

// For people, without the fraction.
std::string in_seconds(ServerTime time) {
  return format_time(time).substr(0, 19) + "Z";
}

// A number of exactly `digits` digits at the front of `text`, which it takes off; nullopt where there is
// none.
std::optional<int> take_number(std::string_view& text, std::size_t digits) {
  int number = 0;
  const auto* const end = text.data() + std::min(digits, text.size());
  const auto read = std::from_chars(text.data(), end, number);
  if (text.size() < digits || text.front() == '-' || read.ec != std::errc() || read.ptr != end)
    return std::nullopt;
  text.remove_prefix(digits);
  return number;
}

bool take(std::string_view& text, std::string_view one_of) {
  if (text.empty() || one_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

// Two numbers of two digits with a colon between them: hours and minutes.
std::optional<std::chrono::minutes> take_minutes(std::string_view& text) {
  const auto hours = take_number(text, 2);
  if (!hours || !take(text, ":")) return std::nullopt;
  const auto minutes = take_number(text, 2);
  if (!minutes || *hours > 23 || *minutes > 59) return std::nullopt;
  return std::chrono::hours(*hours) + std::chrono::minutes(*minutes);
}

std::optional<Micros> take_date(std::string_view& text) {
  const auto year = take_number(text, 4);
  if (!year || !take(text, "-")) return std::nullopt;
  const auto month = take_number(text, 2);
  if (!month || !take(text, "-")) return std::nullopt;
  const auto day = take_number(text, 2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch();
}

// Seconds, with a fraction whose digits after the sixth do not count.
std::optional<Micros> take_seconds(std::string_view& text) {
  const auto seconds = take_number(text, 2);
  if (!seconds || *seconds > 59) return std::nullopt;
  Micros time = std::chrono::seconds(*seconds);
  if (!take(text, ".")) return time;
  const auto digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0) return std::nullopt;
  auto fraction = std::string(text.substr(0, std::min<std::size_t>(digits, 6)));
  fraction.resize(6, '0');
  text.remove_prefix(digits);
  return time + Micros{std::stoi(fraction)};
}

std::optional<std::chrono::minutes> take_offset(std::string_view& text) {
  if (take(text, "Zz")) return std::chrono::minutes(0);
  const bool west = text.starts_with('-');
  if (!take(text, "+-")) return std::nullopt;
  const auto offset = take_minutes(text);
  if (!offset) return std::nullopt;
  return west ? -*offset : *offset;
}

}  // namespace

std::vector<Key> keys_of(const Key& first, const std::vector<Key>& also) {
  std::vector<Key> keys{first};
  keys.insert(keys.end(), also.begin(), also.end());
  return keys;
}

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
  text += escape_untrusted(holder.host);
  return holder.pid == 0 ? text : text + ":" + std::to_string(holder.pid);
}

std::string display_holder(const LockStatus& status) {
  return display_holder(status.holder);
}

bool PauseScope::covers(std::string_view key) const {
  return is_prefix ? key.starts_with(text) : key == text;
}

bool PauseScope::meets(const PauseScope& other) const {
  return covers(other.text) || other.covers(text);
}

std::string display_scope(const PauseScope& scope) {
  if (!scope.is_prefix) return "lock " + quote_untrusted(scope.text);
  if (scope.text.empty()) return "all locks";
  return "locks whose keys start with " + quote_untrusted(scope.text);
}

std::string display_pause(const Pause& pause) {
  std::string text = "paused until " + in_seconds(pause.until);
  if (!pause.by.empty()) text += " by " + escape_untrusted(pause.by);
  return pause.note.empty() ? text : text + ": " + escape_untrusted(pause.note);
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

std::string_view to_string(Line line) {
  switch (line) {
    case Line::one:
      return "one";
    case Line::newest:
      return "newest";
    default:
      return "fifo";
  }
}

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::acquire:
      return "acquire";
    case Kind::sql:
      return "sql";
    case Kind::run:
      break;
  }
  return "run";
}

Kind parse_kind(std::string_view text) {
  for (const Kind kind : {Kind::acquire, Kind::sql})
    if (text == to_string(kind)) return kind;
  return Kind::run;
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

bool is_failure(RunOutcome outcome) {
  return outcome == RunOutcome::failed || outcome == RunOutcome::signalled ||
         outcome == RunOutcome::timed_out || outcome == RunOutcome::abandoned;
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

std::optional<ServerTime> parse_time(std::string_view text) {
  const auto date = take_date(text);
  if (!date || !take(text, "Tt ")) return std::nullopt;
  const auto minutes = take_minutes(text);
  if (!minutes || !take(text, ":")) return std::nullopt;
  const auto seconds = take_seconds(text);
  if (!seconds) return std::nullopt;
  const auto offset = take_offset(text);
  if (!offset || !text.empty()) return std::nullopt;
  return ServerTime{*date + *minutes + *seconds - *offset};
}

}  // namespace dblock::lease
