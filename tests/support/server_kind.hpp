// The two kinds of servers that a run can be about, and what differs between them.
#pragma once

#include <string>
#include <vector>

namespace dblock::test {

struct ServerKind {
  std::string program;
  std::vector<std::string> options;     // after those that both know
  std::vector<std::string> initialise;  // makes a data directory; --datadir=… and the user are to be added
  std::string name_of_template;         // of that directory
  std::vector<std::string> removals;    // SQL that removes the accounts that it comes with
};

// MySQL in a mysql_run(), else MariaDB.
[[nodiscard]] const ServerKind& server_kind();

// SQL for the table of status variables, and for a table of the numbers `from` to `to`, whose column is
// `seq`.
[[nodiscard]] std::string status_table();
[[nodiscard]] std::string numbers(long long from, long long to);

// Options for a server without TLS, and for one with a large redo log.
[[nodiscard]] std::string without_tls();
[[nodiscard]] std::string large_redo_log();

// Of some SQL modes, separated by commas, those that the server knows.
[[nodiscard]] std::string known_sql_modes(const std::string& wanted);

}  // namespace dblock::test
