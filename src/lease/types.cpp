#include "lease/types.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <utility>

#include "base/text.hpp"

namespace dblock::lease {
namespace {

constexpr std::size_t k_max_key_bytes = 255;  // width of the lock_key column

constexpr std::array<std::pair<Outcome, std::string_view>, 8> k_outcomes{{
    {Outcome::succeeded, "succeeded"},
    {Outcome::failed, "failed"},
    {Outcome::signalled, "signalled"},
    {Outcome::timed_out, "timed_out"},
    {Outcome::lost, "lost"},
    {Outcome::released, "released"},
    {Outcome::not_run, "not_run"},
    {Outcome::abandoned, "abandoned"},
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

std::string display_holder(const LockStatus& status) {
  std::string text;
  if (!status.holder.user.empty()) text = escape_untrusted(status.holder.user) + "@";
  return text + escape_untrusted(status.holder.host) + ":" + std::to_string(status.holder.pid);
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

std::string_view to_string(Outcome outcome) {
  const auto* const it = std::ranges::find(k_outcomes, outcome, &decltype(k_outcomes)::value_type::first);
  return it == k_outcomes.end() ? "unknown" : it->second;
}

std::optional<Outcome> parse_outcome(std::string_view text) {
  const auto* const it = std::ranges::find(k_outcomes, text, &decltype(k_outcomes)::value_type::second);
  if (it == k_outcomes.end()) return std::nullopt;
  return it->first;
}

std::string format_time(ServerTime time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time.since_epoch);
  const auto micros = (time.since_epoch - seconds).count();
  const std::time_t t = seconds.count();
  std::tm parts{};
  gmtime_r(&t, &parts);
  std::array<char, 48> text{};
  const auto n = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text.data() + n, text.size() - n, ".%06ldZ", static_cast<long>(micros));
  return text.data();
}

}  // namespace dblock::lease
