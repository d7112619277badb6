// What the statements of this folder have in common.
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
// The mark that `migrate --history on` leaves beside the versions, which everybody may read.
inline constexpr std::string_view k_keeps_history = "EXISTS(SELECT 1 FROM dblock_schema WHERE version=0)";

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
[[nodiscard]] std::string row_is(std::string_view key, std::uint32_t slot);
[[nodiscard]] std::string token_is(lease::Token token);
// An expression with the value of `expression`, which the reply tells beside the mark.
[[nodiscard]] std::string told(std::string_view expression, Mark mark);
[[nodiscard]] std::string ref_matches(const lease::LeaseRef& ref, lease::Actor actor);

// The table for a statement that names keys: it must lock no rows but theirs.
inline constexpr std::string_view k_by_key = "dblock_lock FORCE INDEX (PRIMARY)";
// And for one that looks for what is held, has expired or is idle. Whatever the optimizer's estimates say at
// the moment (freed rows that InnoDB has yet to purge still count), the whole table is never read for it.
inline constexpr std::string_view k_by_time = "dblock_lock FORCE INDEX (dblock_lock_time)";

struct Assignment {
  std::string_view column;
  std::string value;
};

// What a grant writes, apart from key, token, version, sharing and the record of an abandoned predecessor.
[[nodiscard]] std::vector<Assignment> grant_values(const lease::AcquireRequest& request);
// These three are about the row that the statement calls `lease`.
[[nodiscard]] std::string assigned(const std::vector<Assignment>& values);
// " SET …," of taking the row over: what its last holder did not say itself. To be followed by assignments.
[[nodiscard]] std::string taking_over();
// The row is kept this long, so that the success can be found in it.
[[nodiscard]] std::string kept_until(const lease::OncePer& once_per);
// Frees rows, up to the condition. `nobody`: 0, or an expression that is 0 where a row may be freed.
[[nodiscard]] std::string freeing(std::string_view outcome, std::string_view released_at,
                                  std::string_view exit_code, std::string_view nobody = "0");
// "SELECT …" up to the table: columns as read by read_status() in rows.hpp, and `more` after them.
[[nodiscard]] std::string status_columns(std::string_view more = {});

}  // namespace dblock::store::mariadb
