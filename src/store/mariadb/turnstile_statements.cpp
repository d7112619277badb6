#include "store/mariadb/turnstile_statements.hpp"

#include <charconv>
#include <chrono>

#include "base/text.hpp"
#include "store/mariadb/sql.hpp"
#include "store/parameters.hpp"
#include "store/rules/lock_table.hpp"

namespace dblock::store::mariadb {
namespace {

constexpr const char* k_announcement = " /* dblock waits: key=";  // {announcement} in terms.sql
constexpr std::int64_t k_frozen_after_seconds = 2;

Parameters idle_parameters(std::int64_t seconds) {
  return {{"idle", Scalar(seconds)}};
}

// Removes `before` and the following word from the front of `text`; returns the word. nullopt if `text` does
// not begin with `before`.
std::optional<std::string_view> take_word(std::string_view& text, std::string_view before) {
  if (!text.starts_with(before)) return std::nullopt;
  text.remove_prefix(before.size());
  const auto word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  return word;
}

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10U;
  return std::nullopt;
}

// Decodes the output of bytes_literal(); nullopt for any other text.
std::optional<std::string> read_bytes(std::optional<std::string_view> literal) {
  if (!literal || literal->size() < 3 || !literal->starts_with("x'") || !literal->ends_with('\''))
    return std::nullopt;
  const auto digits = literal->substr(2, literal->size() - 3);
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    const auto high = hex_digit(digits[i]);
    const auto low = hex_digit(digits[i + 1]);
    if (!high || !low) return std::nullopt;
    bytes += static_cast<char>(*high << 4U | *low);
  }
  return bytes;
}

}  // namespace

std::string session_mode(const lease::Key* turnstile_key) {
  return turnstile_key == nullptr ? render(Verb::session_mode)
                                  : render(Verb::session_mode_with_turn, key_parameters(*turnstile_key));
}

std::string queue_statement(bool server_is_mariadb, const lease::Key& key, const lease::Holder& waiter) {
  return render(server_is_mariadb ? Verb::queue_mariadb : Verb::queue_mysql,
                idle_parameters(k_frozen_after_seconds) +
                    Parameters{{"key", Scalar(key.bytes())},
                               {"host", Scalar(clean_utf8(waiter.host, k_name_bytes))},
                               {"pid", Scalar(std::int64_t{waiter.pid})},
                               {"user", Scalar(clean_utf8(waiter.user, k_name_bytes))}});
}

std::string waiters_statement(bool server_is_mariadb) {
  return render(server_is_mariadb ? Verb::waiters_mariadb : Verb::waiters_mysql);
}

std::optional<Announcement> read_announcement(std::string_view statement) {
  const auto at = statement.find(k_announcement);
  if (at == std::string_view::npos) return std::nullopt;
  statement.remove_prefix(at);
  const auto key = read_bytes(take_word(statement, k_announcement));
  const auto host = read_bytes(take_word(statement, " host="));
  const auto pid = take_word(statement, " pid=");
  const auto user = read_bytes(take_word(statement, " user="));
  if (!key || !host || !pid || !user) return std::nullopt;
  Announcement seen{*key, {*host, 0, *user, {}}};
  std::from_chars(pid->data(), pid->data() + pid->size(), seen.waiter.pid);
  return seen;
}

std::string short_idle_statement() {
  return render(Verb::set_idle_time, idle_parameters(k_frozen_after_seconds));
}

std::string usual_idle_statement(const SessionOptions& options) {
  if (options.idle_timeout <= Micros{0}) return render(Verb::default_idle_time);
  const auto idle = std::chrono::ceil<std::chrono::seconds>(options.idle_timeout);
  return render(Verb::set_idle_time, idle_parameters(idle.count()));
}

}  // namespace dblock::store::mariadb
