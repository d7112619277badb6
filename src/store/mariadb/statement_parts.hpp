// What the statements of this folder have in common. dblock_lock and dblock_hold have the same columns as far
// as a lease goes, so that its statements are the same text for both.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lease/store.hpp"
#include "store/lock_table.hpp"

namespace dblock::store::mariadb {

#define DBLOCK_SQL_NOW "UTC_TIMESTAMP(6)"
inline constexpr std::string_view k_now = DBLOCK_SQL_NOW;
inline constexpr std::string_view k_now_micros =
    "CAST(TIMESTAMPDIFF(MICROSECOND,'1970-01-01'," DBLOCK_SQL_NOW ") AS UNSIGNED)";
// Who still holds what, by the server's clock, at the start of the statement.
inline constexpr std::string_view k_past_margin =
    "expire_time+INTERVAL margin_us MICROSECOND<=" DBLOCK_SQL_NOW;
inline constexpr std::string_view k_hold_is_over = "(hold_until IS NULL OR hold_until<=" DBLOCK_SQL_NOW ")";
#undef DBLOCK_SQL_NOW
// Which server answers, for people. Tells servers apart, also those that were cloned with their
// configuration.
inline constexpr std::string_view k_this_server =
    "CONCAT(@@hostname,':',@@port,' (server_id ',@@server_id,')')";
// The mark that `migrate --history on` leaves beside the migrations, which everybody may read.
inline constexpr std::string_view k_keeps_history = "EXISTS(SELECT 1 FROM dblock_migration WHERE version=0)";

// A number that is sent with a statement and comes back in its reply, so that no reply to another statement
// is taken for it. Below k_marks: what a statement has to tell (a token, a TTL) shares the insert id with it.
struct Mark {
  std::uint64_t number = 0;
};
inline constexpr std::uint64_t k_marks = 1024;

template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::string text;
  (text.append(std::string_view(parts)), ...);
  return text;
}

[[nodiscard]] std::string joined(const std::vector<std::string>& parts, std::string_view separator);
[[nodiscard]] std::string micros_of(std::string_view expression);
[[nodiscard]] std::string quoted(std::string_view constant);
[[nodiscard]] std::string time_literal(Micros since_epoch);
[[nodiscard]] std::string key_is(std::string_view key);
[[nodiscard]] std::string token_is(lease::Token token);
// An expression with the value of `expression`, which the reply tells beside the mark.
[[nodiscard]] std::string told(std::string_view expression, Mark mark);
[[nodiscard]] std::string ref_matches(const lease::LeaseRef& ref, lease::Actor actor);

[[nodiscard]] std::string_view table_of(Rows rows);
// Whatever the optimizer's estimates say at the moment (freed rows that InnoDB has yet to purge still count),
// what is held or idle is never found by reading the whole table.
[[nodiscard]] std::string by_expiry(Rows rows);
[[nodiscard]] std::string by_idle_time(Rows rows);
// The table for a statement that names the key: it must lock no rows but those of the key.
[[nodiscard]] std::string_view by_key(Rows rows);

struct Assignment {
  std::string_view column;
  std::string value;
};

// What a grant writes, apart from key, token, version, sharing and the record of an abandoned predecessor.
[[nodiscard]] std::vector<Assignment> grant_values(const lease::AcquireRequest& request);
[[nodiscard]] std::string assigned(const std::vector<Assignment>& values);
// "INSERT INTO table (columns) VALUES (values)".
[[nodiscard]] std::string insertion(Rows rows, const std::vector<Assignment>& values);
// " SET …," of taking a row over: what its last holder did not say itself. To be followed by assignments.
[[nodiscard]] std::string taking_over();
// Frees the row, up to the condition.
[[nodiscard]] std::string freeing(Rows rows, std::string_view outcome, std::string_view released_at,
                                  std::string_view exit_code);
// The lock's row is kept this long, so that the success can be found in it.
[[nodiscard]] std::string kept_until(const lease::OncePer& once_per);
// "SELECT …" up to the table: columns as read by read_status() in rows.hpp, and `more` after them.
[[nodiscard]] std::string status_columns(Rows rows, std::string_view more = {});

}  // namespace dblock::store::mariadb
