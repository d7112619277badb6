#include "store/mariadb/turnstile_statements.hpp"

#include <charconv>
#include <chrono>

#include "base/text.hpp"
#include "store/mariadb/sql.hpp"
#include "store/rules/lock_table.hpp"

namespace dblock::store::mariadb {
namespace {

constexpr const char* k_modes = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION";
constexpr const char* k_turn_mode = ",NO_BACKSLASH_ESCAPES";  // see k_turn_flag in connection.cpp
constexpr const char* k_announcement = " /* dblock waits: key=";
constexpr int k_frozen_after_seconds = 2;
constexpr int k_a_year_of_seconds = 31'536'000;

// The name of a key's named lock. A hash, because names have at most 64 characters and ignore letter case. It
// covers the schema too, because named locks belong to the whole server.
std::string name_of(const lease::Key& key) {
  return "CONCAT('dblock.',LEFT(SHA2(CONCAT(DATABASE(),'/'," + bytes_literal(key.bytes()) + "),256),48))";
}

std::string get_lock(const lease::Key& key, int patience_seconds) {
  return "GET_LOCK(" + name_of(key) + "," + std::to_string(patience_seconds) + ")";
}

std::string mode_with_turn(const std::string& taking) {
  return "CONCAT('" + std::string(k_modes) + "',IF(" + taking + "=1,'" + k_turn_mode + "',''))";
}

// True if more than four fifths of the server's connections are in use. MySQL and MariaDB keep the table that
// every account may read in different schemas.
std::string crowded(bool server_is_mariadb) {
  return "(SELECT variable_value FROM " +
         std::string(server_is_mariadb ? "information_schema" : "performance_schema") +
         ".global_status WHERE variable_name='Threads_connected')>0.8*@@max_connections";
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

std::string session_mode(const lease::Key* line) {
  return line == nullptr ? "'" + std::string(k_modes) + "'" : mode_with_turn(get_lock(*line, 0));
}

std::string queue_statement(bool server_is_mariadb, const lease::Key& key, const lease::Holder& waiter) {
  const std::string taking =
      "IF(" + crowded(server_is_mariadb) + ",0," + get_lock(key, k_a_year_of_seconds) + ")";
  const std::string timeout = std::to_string(k_frozen_after_seconds);
  return "SET SESSION wait_timeout=" + timeout + ",sql_mode=" + mode_with_turn(taking) + k_announcement +
         bytes_literal(key.bytes()) + " host=" + bytes_literal(clean_utf8(waiter.host, k_name_bytes)) +
         " pid=" + std::to_string(waiter.pid) +
         " user=" + bytes_literal(clean_utf8(waiter.user, k_name_bytes)) + " */";
}

// MySQL counts whole seconds. Of waiters with the same second, the one that connected first comes first.
std::string waiters_statement(bool server_is_mariadb) {
  return "SELECT info,CAST(" + std::string(server_is_mariadb ? "time_ms*1000" : "time*1000000") +
         " AS SIGNED) AS waited FROM information_schema.processlist WHERE db=DATABASE() AND "
         "info LIKE 'SET SESSION %/* dblock waits: %' ORDER BY waited DESC,id";
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
  return "SET SESSION wait_timeout=" + std::to_string(k_frozen_after_seconds);
}

std::string usual_idle_statement(const SessionOptions& options) {
  if (options.idle_timeout <= Micros{0}) return "SET SESSION wait_timeout=DEFAULT";
  const auto idle = std::chrono::ceil<std::chrono::seconds>(options.idle_timeout);
  return "SET SESSION wait_timeout=" + std::to_string(idle.count());
}

}  // namespace dblock::store::mariadb
