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
// 62 bits, so that a BIGINT holds the number, signed or not; the last two are free for the answers.
constexpr std::uint64_t k_number_bits = (std::uint64_t{1} << 62) - 4;
// A server without GTIDs cannot be a member of a group. Most servers have none, and need not list their
// plugins.
constexpr std::string_view k_has_group_plugin =
    "IF(@@gtid_mode='OFF',0,(SELECT COUNT(*) FROM information_schema.plugins "
    "WHERE plugin_name='group_replication'))";

std::uint64_t draw() {
  std::uint64_t bits = 0;
  // On kernels that dblock supports, getrandom() returns so few bytes in full and does not fail.
  while (::getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits)) continue;
  return bits & k_number_bits;
}

// What the server is sent: it adds its answers to the number.
std::string sent(MYSQL* handle, std::uint64_t number) {
  const auto log = std::to_string(number) + "+(" + std::string(k_logs_statements) + ")";
  return is_mariadb(handle) ? log : log + "+2*" + std::string(k_has_group_plugin);
}

// What an answer with this text means, if it answers the number.
std::optional<Challenged> understood(std::string_view answer, std::uint64_t number) {
  for (const std::uint64_t added : {0U, 1U, 2U, 3U}) {
    if (answer == std::to_string(number + added))
      return Challenged{number, (added & 1U) != 0, (added & 2U) != 0};
  }
  return std::nullopt;
}

// The answer in what session tracking returned. Names and values of variables alternate in its list.
std::optional<Challenged> answer_by_tracking(MYSQL* handle, std::uint64_t number) {
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
                                  std::string(k_variable) + "=" + sent(handle, number);
  if (!send(handle, set + assignments)) return std::unexpected(last_error(handle));
  if (const auto answer = answer_by_tracking(handle, number)) return *answer;
  const std::uint64_t another = draw();
  if (!send(handle, "SELECT " + sent(handle, another))) return std::unexpected(last_error(handle));
  if (const auto answer = answered(handle, another)) return *answer;
  return std::unexpected(ServerError{
      0,
      "a reply does not hold the number that was sent along, so packets that are not the server's have been "
      "put into the connection; find out what is between this host and the server"});
}

std::expected<Challenged, ServerError> set_up_bare(MYSQL* handle) {
  return send_with_challenge(handle, session_basics(is_mariadb(handle)));
}

}  // namespace dblock::store::mariadb
