// SQL from the test's own side, and a database of one's own on some server.
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

  // Throws with the server's message when it refuses.
  std::vector<Row> sql(const std::string& query);
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

// A fresh database named t_…, dropped with its owner.
class Database {
 public:
  enum class Schema { migrated, none };
  explicit Database(ServerAddress server = shared_server(), Schema schema = Schema::migrated);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::string url(const std::string& user = "app") const { return server_.url(name_, user); }
  [[nodiscard]] std::string tcp_url(const std::string& user = "app") const {
    return server_.tcp_url(name_, user);
  }
  [[nodiscard]] const ServerAddress& server() const { return server_; }
  [[nodiscard]] Connection& root() { return root_; }

  std::vector<Row> sql(const std::string& query) { return root_.sql(query); }
  std::string value(const std::string& query) { return root_.value(query); }
  long long number(const std::string& query) { return root_.number(query); }

  // An account of this test's own, dropped with it: its name. `clause` follows the name in CREATE USER.
  std::string account(const std::string& clause = "", const std::string& privileges = "ALL");

  // One column of a key's row, by the column's name; an expression over columns works too. "" without a row.
  std::string column(const std::string& key, const std::string& expression);
  // expire_time in microseconds since the epoch; 0 when nobody holds the key.
  long long expires_micros(const std::string& key);
  // The key has a holder by its row, expired or not.
  bool has_holder(const std::string& key);

 private:
  ServerAddress server_;
  std::string name_;
  Connection root_;
  std::vector<std::string> accounts_;
};

// 'it''s' and x'6b' for test queries.
[[nodiscard]] std::string sql_quote(const std::string& text);
[[nodiscard]] std::string sql_hex(const std::string& bytes);

}  // namespace dblock::test
