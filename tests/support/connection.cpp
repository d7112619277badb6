#include "support/connection.hpp"

#include <mysql.h>

#include <stdexcept>

namespace dblock::test {

struct Connection::Session {
  Session() : handle(mysql_init(nullptr)) {}
  ~Session() { mysql_close(handle); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] bool connect(const ServerAddress& server, const std::string& user,
                             const std::string& database) {
    const unsigned connect_seconds = 5;
    const unsigned answer_seconds = 30;
    mysql_options(handle, MYSQL_OPT_CONNECT_TIMEOUT, &connect_seconds);
    mysql_options(handle, MYSQL_OPT_READ_TIMEOUT, &answer_seconds);
    mysql_options(handle, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    return mysql_real_connect(handle, "localhost", user.c_str(), nullptr,
                              database.empty() ? nullptr : database.c_str(), 0, server.socket.c_str(),
                              0) != nullptr;
  }

  MYSQL* handle;
};

Connection::Connection(ServerAddress address, std::string user, std::string database)
    : address_(std::move(address)), user_(std::move(user)), database_(std::move(database)) {}
Connection::~Connection() = default;
Connection::Connection(Connection&&) noexcept = default;

void Connection::open() {
  auto session = std::make_unique<Session>();
  if (!session->connect(address_, user_, database_))
    throw std::runtime_error(std::string("cannot connect: ") + mysql_error(session->handle));
  session_ = std::move(session);
  sql("SET time_zone = '+00:00'");
}

bool Connection::can_connect(const ServerAddress& address, const std::string& user) {
  Session session;
  return session.connect(address, user, "");
}

std::vector<Row> Connection::sql(const std::string& query) {
  if (session_ && mysql_ping(session_->handle) != 0) session_.reset();
  if (!session_) open();
  return sql_in_session(query);
}

std::vector<Row> Connection::sql_in_session(const std::string& query) {
  MYSQL* const handle = session_->handle;
  if (mysql_real_query(handle, query.data(), query.size()) != 0)
    throw std::runtime_error(std::string(mysql_error(handle)) + " in: " + query);
  std::vector<Row> rows;
  MYSQL_RES* const result = mysql_store_result(handle);
  if (result == nullptr) return rows;
  const unsigned columns = mysql_num_fields(result);
  while (MYSQL_ROW cells = mysql_fetch_row(result)) {
    const unsigned long* const lengths = mysql_fetch_lengths(result);
    Row& row = rows.emplace_back();
    for (unsigned i = 0; i < columns; ++i)
      row.push_back(cells[i] == nullptr ? "NULL" : std::string(cells[i], lengths[i]));
  }
  mysql_free_result(result);
  return rows;
}

std::string Connection::value(const std::string& query) {
  const auto rows = sql(query);
  return rows.empty() ? "" : rows.front().at(0);
}

long long Connection::number(const std::string& query) {
  const std::string text = value(query);
  return text.empty() || text == "NULL" ? 0 : std::stoll(text);
}

std::string sql_hex(const std::string& bytes) {
  static constexpr char k_digits[] = "0123456789abcdef";
  std::string text = "x'";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += k_digits[byte >> 4U];
    text += k_digits[byte & 15U];
  }
  return text + "'";
}

}  // namespace dblock::test
