#include "store/mariadb/session/challenge.hpp"

#include <sys/random.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "store/mariadb/session/login.hpp"
#include "store/mariadb/session/result.hpp"
#include "store/mariadb/session/session_statements.hpp"

namespace dblock::store::mariadb {
namespace {

constexpr std::string_view k_variable = "last_insert_id";
// 62 bits, so that a BIGINT holds the number, signed or not; even.
constexpr std::uint64_t k_number_bits = (std::uint64_t{1} << 62) - 2;

std::uint64_t draw() {
  std::uint64_t bits = 0;
  // On kernels that dblock supports, getrandom() returns so few bytes in full and does not fail.
  while (::getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits)) continue;
  return bits & k_number_bits;
}

// What the server is sent: it makes one more of the number if it logs statements.
std::string sent(std::uint64_t number) {
  return std::to_string(number) + "+(" + std::string(k_logs_statements) + ")";
}

// What an answer with this text means, if it answers the number.
std::optional<Challenged> understood(std::string_view answer, std::uint64_t number) {
  if (answer == std::to_string(number)) return Challenged{number, false};
  if (answer == std::to_string(number + 1)) return Challenged{number, true};
  return std::nullopt;
}

// The answer in what session tracking returned. Names and values of variables alternate in its list.
std::optional<Challenged> told(MYSQL* handle, std::uint64_t number) {
  const char* data = nullptr;
  std::size_t length = 0;
  bool name_is_next = true;
  bool ours = false;
  for (auto next = api().mysql_session_track_get_first;
       next(handle, SESSION_TRACK_SYSTEM_VARIABLES, &data, &length) == 0;
       next = api().mysql_session_track_get_next) {
    const std::string_view word(data, length);
    if (!name_is_next && ours) return understood(word, number);
    ours = name_is_next && word == k_variable;
    name_is_next = !name_is_next;
  }
  return std::nullopt;
}

std::optional<Challenged> answered(MYSQL* handle, std::uint64_t number) {
  const auto table = fetch_rows(handle, MemoryLimit::few);
  if (!table || table->rows.empty()) return std::nullopt;
  return understood(table->rows.front()[0].value_or(""), number);
}

bool send(MYSQL* handle, const std::string& sql) {
  return api().mysql_real_query(handle, sql.data(), sql.size()) == 0;
}

}  // namespace

std::expected<Challenged, ServerError> send_with_challenge(MYSQL* handle, const std::string& set) {
  const std::uint64_t number = draw();
  const std::string assignments = ",session_track_system_variables='" + std::string(k_variable) + "'," +
                                  std::string(k_variable) + "=" + sent(number);
  if (!send(handle, set + assignments)) return std::unexpected(last_words(handle));
  if (const auto answer = told(handle, number)) return *answer;
  const std::uint64_t another = draw();
  if (!send(handle, "SELECT " + sent(another))) return std::unexpected(last_words(handle));
  if (const auto answer = answered(handle, another)) return *answer;
  return std::unexpected(ServerError{
      0,
      "a reply does not hold the number that was sent along, so packets that are not the server's have been "
      "put into the connection; find out what is between this host and the server"});
}

std::expected<Challenged, ServerError> set_up_bare(MYSQL* handle) {
  return send_with_challenge(handle, session_basics(api().mariadb_connection(handle) != 0));
}

}  // namespace dblock::store::mariadb
