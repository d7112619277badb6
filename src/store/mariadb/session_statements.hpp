// How a session begins. Pure text; nothing here talks to a server. What is done in it stands in
// sql/verbs/mariadb.
#pragma once

#include <string>
#include <string_view>

#include "lease/types.hpp"
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

}  // namespace dblock::store::mariadb
