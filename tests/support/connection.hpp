// SQL from the test's own side, to a MariaDB server.
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/server.hpp"

namespace dblock::test {

using Row = std::vector<std::string>;  // SQL NULL is "NULL"

// What the server says of a statement that it refuses, or from 2000 on how the session was lost.
struct SqlError : std::runtime_error {
  SqlError(const std::string& what, unsigned error, std::string state)
      : std::runtime_error(what), number(error), sqlstate(std::move(state)) {}
  unsigned number;
  std::string sqlstate;
};

// One session as root (or another account), time zone UTC. A session that the server's restart has ended is
// opened again. Not thread-safe.
class Connection {
 public:
  // `answer`: how long a statement may take before the session counts as lost.
  explicit Connection(ServerAddress address, std::string user = "root", std::string database = "",
                      std::chrono::seconds answer = 30s);
  ~Connection();
  Connection(Connection&&) noexcept;
  Connection& operator=(Connection&&) = delete;

  // Throws SqlError when the server refuses. A session that has ended is replaced before.
  std::vector<Row> sql(const std::string& query);
  // The same in the session as it is, for what depends on its transaction. REQUIRES: one is open.
  std::vector<Row> sql_in_session(const std::string& query);
  // A statement that the server prepares, with `?` for each value, by the binary protocol: its first result.
  // As sql_in_session().
  std::vector<Row> sql_prepared(const std::string& statement,
                                const std::vector<std::optional<std::string>>& values);
  // Opens the session unless there has been one.
  void open_if_new() {
    if (!session_) open();
  }
  std::string value(const std::string& query);  // first column of the first row; "" when there is none
  long long number(const std::string& query);

  [[nodiscard]] static bool can_connect(const ServerAddress& address, const std::string& user);

 private:
  struct Session;
  void open();
  ServerAddress address_;
  std::string user_, database_;
  std::chrono::seconds answer_;
  std::unique_ptr<Session> session_;
};

// x'6b' for test queries.
[[nodiscard]] std::string sql_hex(const std::string& bytes);

}  // namespace dblock::test
