#include "support/server_kind.hpp"

#include <sstream>

#include "support/config.hpp"

namespace dblock::test {
namespace {

ServerKind mariadb() {
  return {mariadbd_binary(),
          {},
          {install_db_binary(), "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db",
           "--skip-name-resolve", "--force", "--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M"},
          "template",
          {"DELETE FROM mysql.global_priv WHERE User=''", "FLUSH PRIVILEGES"}};
}

// As it comes: caching_sha2_password, TLS with a certificate of its own making, and the performance schema,
// which is made small here (half of the processor's time of a start otherwise), since nothing asks for what
// it remembers.
ServerKind mysql() {
  const std::string redo = "--innodb-redo-log-capacity=16M";
  const std::string anywhere = "--secure-file-priv=";  // the directory that was compiled in does not exist
  return {
      mysqld_binary(),
      {redo, anywhere, "--performance-schema=ON", "--performance-schema-error-size=0",
       "--performance-schema-digests-size=200", "--performance-schema-events-statements-history-long-size=10",
       "--performance-schema-events-waits-history-long-size=10",
       "--performance-schema-events-stages-history-long-size=10",
       "--performance-schema-events-transactions-history-long-size=10", "--innodb-doublewrite=OFF",
       "--mysqlx=OFF", "--cte-max-recursion-depth=1000000"},
      {mysqld_binary(), "--no-defaults", "--initialize-insecure", redo, anywhere},
      "template-mysql",
      {}};
}

}  // namespace

const ServerKind& server_kind() {
  static const ServerKind kind = mysql_run() ? mysql() : mariadb();
  return kind;
}

std::string status_table() {
  return std::string(mysql_run() ? "performance_schema" : "information_schema") + ".global_status";
}

std::string numbers(long long from, long long to) {
  const std::string first = std::to_string(from);
  const std::string last = std::to_string(to);
  if (!mysql_run()) return "seq_" + first + "_to_" + last;
  return "(WITH RECURSIVE n(seq) AS (SELECT " + first + " UNION ALL SELECT seq + 1 FROM n WHERE seq < " +
         last + ") SELECT seq FROM n) AS numbers";
}

std::string without_tls() {
  return mysql_run() ? "--tls-version=" : "--skip-ssl";
}

std::string large_redo_log() {
  return mysql_run() ? "--innodb-redo-log-capacity=256M" : "--innodb-log-file-size=128M";
}

std::string known_sql_modes(const std::string& wanted) {
  if (!mysql_run()) return wanted;
  std::istringstream words(wanted);
  std::string known;
  for (std::string word; std::getline(words, word, ',');) {
    // Each server has a mode for what the other one does anyway.
    if (word == "TIME_ROUND_FRACTIONAL") word = "TIME_TRUNCATE_FRACTIONAL";
    for (const char* const unknown : {"ORACLE", "MSSQL", "SIMULTANEOUS_ASSIGNMENT", "EMPTY_STRING_IS_NULL"})
      if (word == unknown) word.clear();
    if (!word.empty()) known += (known.empty() ? "" : ",") + word;
  }
  return known;
}

}  // namespace dblock::test
