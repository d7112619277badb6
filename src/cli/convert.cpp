#include "cli/convert.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/duration.hpp"
#include "base/text.hpp"

namespace dblock::cli {
namespace {

constexpr std::uint64_t k_most_attempts = 1'000'000'000;

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [stop, fault] = std::from_chars(text.begin(), text.end(), value);
  if (text.empty() || fault != std::errc{} || stop != text.end()) return std::nullopt;
  return value;
}

Result<Micros> to_duration(const Sourced& value) {
  auto parsed = parse_duration(value.text);
  if (!parsed) return value.refuse(parsed.error().message);
  return *parsed;
}

}  // namespace

std::optional<int> parse_signal(std::string_view text) {
  if (const auto number = parse_number(text)) {
    if (*number < 1 || *number > static_cast<std::uint64_t>(SIGRTMAX)) return std::nullopt;
    return static_cast<int>(*number);
  }
  auto name = upper(text);
  if (name.starts_with("SIG")) name.erase(0, 3);
  for (int number = 1; number < NSIG; ++number) {
    const char* const known = sigabbrev_np(number);
    if (known != nullptr && name == known) return number;
  }
  return std::nullopt;
}

std::optional<bool> parse_bool(std::string_view text) {
  const auto word = upper(text);
  if (word == "1" || word == "TRUE" || word == "YES" || word == "ON") return true;
  if (word == "0" || word == "FALSE" || word == "NO" || word == "OFF") return false;
  return std::nullopt;
}

bool Reader::given(std::string_view name) const {
  const auto value = values_.find(name);
  return value && value->rank == Rank::flag;
}

std::optional<std::string> Reader::text(std::string_view name) const {
  auto value = values_.find(name);
  if (!value) return std::nullopt;
  return std::move(value->text);
}

Result<bool> Reader::flag(std::string_view name) const {
  const auto value = values_.find(name);
  if (!value) return false;
  const auto parsed = parse_bool(value->text);
  if (!parsed)
    return value->refuse(quote_untrusted(value->text) + " is neither yes nor no; write one of them");
  return *parsed;
}

Result<std::optional<Micros>> Reader::duration(std::string_view name) const {
  const auto value = values_.find(name);
  if (!value) return std::nullopt;
  return to_duration(*value);
}

Result<std::optional<Micros>> Reader::positive_duration(std::string_view name) const {
  DBLOCK_TRY(const auto parsed, duration(name));
  if (parsed && *parsed == Micros{0}) return values_.find(name)->refuse("must be more than 0");
  return parsed;
}

Result<std::optional<Micros>> Reader::optional_limit(std::string_view name) const {
  const auto value = values_.find(name);
  if (!value || value->text == "forever") return std::nullopt;
  DBLOCK_TRY(const auto parsed, to_duration(*value));
  if (parsed == Micros{0}) return std::nullopt;
  return parsed;
}

Result<std::optional<Micros>> Reader::interval(std::string_view name) const {
  constexpr Micros k_least = std::chrono::milliseconds(100);
  auto value = values_.find(name);
  if (!value) return std::nullopt;
  if (const auto wanted = parse_bool(value->text); wanted && value->text != "0" && value->text != "1") {
    if (!*wanted) return std::nullopt;
    value->text = find_option(name, ~Scope{0})->remark;
  }
  DBLOCK_TRY(const auto every, to_duration(*value));
  if (every < k_least) return value->refuse("must be at least 100ms, which is faster than anybody reads");
  return every;
}

Result<lease::WaitPolicy> Reader::wait() const {
  const auto value = values_.find("wait");
  const auto nonblock = values_.find("nonblock");
  if (nonblock && (!value || nonblock->rank >= value->rank)) {
    DBLOCK_TRY(const bool once, flag("nonblock"));
    if (once) return lease::WaitPolicy{Micros{0}};
  }
  if (!value) return lease::WaitPolicy{};
  if (value->text == "forever") return lease::WaitPolicy{std::nullopt};
  DBLOCK_TRY(const auto limit, to_duration(*value));
  return lease::WaitPolicy{limit};
}

Result<lease::WaitPolicy> Reader::wait_or_retry() const {
  DBLOCK_TRY(auto policy, wait());
  lease::Retry retry;
  DBLOCK_TRY(const auto pause, positive_duration("backoff"));
  retry.first = pause.value_or(Micros{0});
  DBLOCK_TRY(retry.growth, factor("backoff-multiplier"));
  DBLOCK_TRY(const auto attempts, number("attempts", k_most_attempts));
  if (!attempts) {
    for (const auto* const name : {"backoff", "backoff-multiplier"}) {
      if (given(name)) return values_.find(name)->refuse("needs --attempts N, the number of tries");
    }
    return policy;
  }
  if (*attempts == 0) return values_.find("attempts")->refuse("must be at least 1");
  retry.attempts = *attempts;
  policy.retry = retry;
  const auto waits = values_.find("wait");
  DBLOCK_TRY(const bool nonblock, flag("nonblock"));
  if (!nonblock && (!waits || waits->rank == Rank::fallback)) policy.limit.reset();
  return policy;
}

Result<double> Reader::factor(std::string_view name) const {
  const auto value = values_.find(name);
  if (!value) return 1.0;
  const std::string& text = value->text;
  // strtod(), since std::from_chars() of a double would map libm into every run; the program keeps the C
  // locale.
  const bool plain = text.find_first_not_of("0123456789.eE+-") == std::string::npos;
  char* stop = nullptr;
  const double number = std::strtod(text.c_str(), &stop);
  if (text.empty() || !plain || *stop != '\0' || !std::isfinite(number))
    return value->refuse(quote_untrusted(text) + " is no number; write for example 1.5");
  if (number < 1) return value->refuse("must be at least 1, so that pauses do not shrink to nothing");
  return number;
}

Result<std::optional<std::uint64_t>> Reader::number(std::string_view name, std::uint64_t most) const {
  const auto value = values_.find(name);
  if (!value) return std::nullopt;
  const auto parsed = parse_number(value->text);
  if (!parsed) return value->refuse(quote_untrusted(value->text) + " is no whole number");
  if (*parsed > most)
    return value->refuse(quote_untrusted(value->text) + " is more than " + std::to_string(most));
  return parsed;
}

Result<int> Reader::signal(std::string_view name) const {
  const auto value = values_.find(name);
  if (!value) return fail(Errc::internal, "option --" + std::string(name) + " has no default");
  const auto number = parse_signal(value->text);
  if (!number)
    return value->refuse(quote_untrusted(value->text) + " is no signal; write for example TERM or 15");
  return *number;
}

Result<std::string> Reader::choice(std::string_view name) const {
  const auto value = values_.find(name);
  const auto* const spec = find_option(name, values_.scope());
  if (!value || spec == nullptr)
    return fail(Errc::internal, "option --" + std::string(name) + " has no default");
  const auto words = choices_of(*spec);
  if (std::ranges::find(words, value->text) != words.end()) return value->text;
  std::string known;
  for (const auto word : words) known += (known.empty() ? "" : ", ") + std::string(word);
  return value->refuse(quote_untrusted(value->text) + " is not one of " + known);
}

Result<std::vector<lease::Key>> Reader::keys(std::string_view name) const {
  std::vector<lease::Key> keys;
  for (const auto& value : values_.all(name)) {
    auto key = lease::Key::parse(value.text);
    if (!key) return value.refuse(key.error().message);
    keys.push_back(std::move(*key));
  }
  return keys;
}

}  // namespace dblock::cli
