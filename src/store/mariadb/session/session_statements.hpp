// The statements that set a session up. They are pure text: nothing here talks to a server. The statements
// that follow in a session are in sql/verbs/mariadb.
#pragma once

#include <string>
#include <string_view>

#include "lease/lease.hpp"
#include "store/session_options.hpp"

namespace dblock::store::mariadb {

// Stands before the tables' version in the error message of a refused set-up statement.
inline constexpr std::string_view k_schema_mark = "dblock_schema_";

// Stands in that message instead if the server is read-only.
inline constexpr std::string_view k_read_only_mark = "dblock_read_only";

// 1 if the server writes statements into its binary log as they are, else 0.
inline constexpr std::string_view k_logs_statements = "@@log_bin AND @@binlog_format='STATEMENT'";

enum class SchemaCheck { on, off };

// The assignments with which each session begins: a list that starts with SET and ends under the keyword
// SESSION. They set each variable by which a server's settings or init_connect could change what dblock's
// statements mean (tests/e2e/server_settings.cpp tries all of them), and end an open transaction.
[[nodiscard]] std::string session_basics(bool server_is_mariadb);

// The one statement that sets a full session up, including session_basics(). The server refuses it with error
// 1146 or 1231 if the schema does not fit, and with 1231 if the server is read-only, unless the options say
// that dblock only reads. With `own` the statement also shows that this request is there (wake_up.hpp).
// `knows_galera` is false for a MariaDB that was built without
// Galera's variables.
[[nodiscard]] std::string setup_statement(bool server_is_mariadb, const SessionOptions& options,
                                          SchemaCheck check, const lease::OwnerId* own = nullptr,
                                          bool knows_galera = true);

}  // namespace dblock::store::mariadb
