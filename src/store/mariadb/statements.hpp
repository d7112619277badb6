// The SQL of the lease protocol (DESIGN section 3); gate_statements.hpp has that of grants which are more
// than one row. Pure text; nothing here talks to a server.
//
// Every statement that decides something is one autocommit UPDATE, INSERT or DELETE by primary key, so that
// the row lock covers predicate to commit. Times are computed and compared on the server; UTC_TIMESTAMP(6) is
// fixed at the start of a statement, so a wait for the row lock can only shorten a lease.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lease/store.hpp"
#include "store/lock_table.hpp"
#include "store/mariadb/statement_parts.hpp"
#include "store/open.hpp"

namespace dblock::store::mariadb {

// Precedes the tables' version in the set-up statement's refusal.
inline constexpr std::string_view k_schema_mark = "dblock_schema_";

// Takes its place where the server is read-only.
inline constexpr std::string_view k_read_only_mark = "dblock_read_only";

enum class SchemaCheck { on, off };

// What every session of ours begins with: a list that starts with SET and ends under the keyword SESSION. It
// sets each variable by which a server's settings, or its init_connect, could change what our statements mean
// (HAZARDS; tests/e2e/server_settings.cpp tries them all), and ends a transaction that is open.
[[nodiscard]] std::string session_basics(bool server_is_mariadb);

// The one statement that makes a session ours, session_basics() included; fails with 1146 or 1231 where the
// schema does not fit, and with 1231 on a server that is read-only, unless the options say that nothing will
// be written. With `line` it takes that key's turn along, if nobody has it (line_statements.hpp). MariaDB can
// be built without the variables of Galera: `knows_galera`.
[[nodiscard]] std::string setup_statement(bool server_is_mariadb, const SessionOptions& options,
                                          SchemaCheck check, const lease::Key* line = nullptr,
                                          bool knows_galera = true);

// One row with 1 or 0.
[[nodiscard]] std::string takes_no_writes_statement();

// Rows, that of the fence among them: granted, and the reply tells the token. 0 rows: held, cooling
// down, done within the period, or without a row here or in dblock_fence.
[[nodiscard]] std::string grant_statement(const lease::AcquireRequest& request, Mark mark);

// 1 row: renewed, and the reply tells the TTL, which without `ttl` is the stored one.
[[nodiscard]] std::string renew_statement(const lease::LeaseRef& ref, lease::Actor actor,
                                          std::optional<Micros> ttl, Mark mark);
// 1 row: counted up, and the reply tells the token. Beside others only a lease that is shared as `sharing`
// says counts.
[[nodiscard]] std::string nest_statement(const lease::LeaseRef& ref, const lease::Sharing& sharing,
                                         Micros ttl, Mark mark);
[[nodiscard]] std::string unnest_statement(const lease::LeaseRef& ref);
[[nodiscard]] std::string release_statement(const lease::LeaseRef& ref, lease::Actor actor,
                                            lease::RunEnd end);
// Of several keys: as many rows as were there. Error 1048, and none of them: a nested run holds one too.
[[nodiscard]] std::string release_statement(const std::vector<lease::LeaseRef>& refs, lease::Actor actor,
                                            lease::RunEnd end);
[[nodiscard]] std::string revoke_statement(const lease::Key& key, std::uint32_t slot, lease::Token token);
[[nodiscard]] std::string free_now_statement(const lease::Key& key, std::uint32_t slot, lease::Token token);

// The lock's own row: columns as read by read_status() in rows.hpp, without a key where there is none; then
// the server that answers, for people, where it takes no writes.
[[nodiscard]] std::string peek_statement(const lease::Key& key);
// The same of all rows of these keys, in no order: a server may be short of memory to sort in.
[[nodiscard]] std::string look_statement(const std::vector<lease::Key>& keys);
// Without the last column. Rows that are free are there too, unless only what is held is asked for: they know
// of past runs.
[[nodiscard]] std::string list_statement(const lease::Selection& selection);
[[nodiscard]] std::string expired_statement();  // leases past expire_time + margin
[[nodiscard]] std::string server_time_statement();

// Frees one expired lease, as long as it is still that lease.
[[nodiscard]] std::string abandon_statement(const lease::LockStatus& seen);

// A row that may be forgotten, as read: it is deleted only while unchanged.
struct IdleRow {
  std::string key;
  std::uint32_t slot = 0;
  std::uint64_t version = 0;
};
[[nodiscard]] std::string count_idle_statement(Micros forget_after);
[[nodiscard]] std::string select_idle_statement(Micros forget_after,
                                                std::size_t limit);  // key, slot, version
// What fences the locks of `batch`, as far as it is as old. To be run first: a lock without a fence gets one
// when it is granted, but a fence without its lock would be found by nobody.
[[nodiscard]] std::string forget_fences_statement(const std::vector<IdleRow>& batch, Micros forget_after);
[[nodiscard]] std::string forget_statement(const std::vector<IdleRow>& batch, Micros forget_after);

}  // namespace dblock::store::mariadb
