// SQL from the test's own side, to a MariaDB server.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/server.hpp"

namespace dblock::test {

using Row = std::vector<std::string>;  // SQL NULL is "NULL"

// One session as root (or another account), time zone UTC. A session that the server's restart has ended is
// opened again. Not thread-safe.
class Connection {
 public:
  explicit Connection(ServerAddress address, std::string user = "root", std::string database = "");
  ~Connection();
  Connection(Connection&&) noexcept;
  Connection& operator=(Connection&&) = delete;

  // Throws with the server's message when it refuses. A session that has ended is replaced before.
  std::vector<Row> sql(const std::string& query);
  // The same in the session as it is, for what depends on its transaction. REQUIRES: one is open.
  std::vector<Row> sql_in_session(const std::string& query);
  std::string value(const std::string& query);  // first column of the first row; "" when there is none
  long long number(const std::string& query);

  [[nodiscard]] static bool can_connect(const ServerAddress& address, const std::string& user);

 private:
  struct Session;
  void open();
  ServerAddress address_;
  std::string user_, database_;
  std::unique_ptr<Session> session_;
};

// x'6b' for test queries.
[[nodiscard]] std::string sql_hex(const std::string& bytes);

}  // namespace dblock::test
