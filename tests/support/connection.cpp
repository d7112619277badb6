#include "support/connection.hpp"

#include <mysql.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace dblock::test {
namespace {

SqlError refusal(MYSQL* handle, const std::string& query) {
  return {std::string(mysql_error(handle)) + " in: " + query, mysql_errno(handle), mysql_sqlstate(handle)};
}

SqlError refusal(MYSQL_STMT* statement, const std::string& text) {
  return {std::string(mysql_stmt_error(statement)) + " in: " + text, mysql_stmt_errno(statement),
          mysql_stmt_sqlstate(statement)};
}

// The rows of the current result, each value as text.
std::vector<Row> fetch_all(MYSQL_STMT* statement, const std::string& text) {
  struct Cell {
    std::array<char, 4096> bytes{};
    unsigned long length = 0;
    my_bool is_null = 0;
  };
  std::vector<Cell> cells(mysql_stmt_field_count(statement));
  std::vector<MYSQL_BIND> binds(cells.size(), MYSQL_BIND{});
  for (std::size_t i = 0; i < cells.size(); ++i) {
    binds[i].buffer_type = MYSQL_TYPE_STRING;
    binds[i].buffer = cells[i].bytes.data();
    binds[i].buffer_length = cells[i].bytes.size();
    binds[i].length = &cells[i].length;
    binds[i].is_null = &cells[i].is_null;
  }
  if (mysql_stmt_bind_result(statement, binds.data()) != 0 || mysql_stmt_store_result(statement) != 0)
    throw refusal(statement, text);
  std::vector<Row> rows;
  while (mysql_stmt_fetch(statement) == 0) {
    Row& row = rows.emplace_back();
    for (const auto& cell : cells)
      row.push_back(cell.is_null != 0 ? "NULL"
                                      : std::string(cell.bytes.data(),
                                                    std::min<std::size_t>(cell.length, cell.bytes.size())));
  }
  return rows;
}

}  // namespace

struct Connection::Session {
  Session() : handle(mysql_init(nullptr)) {}
  ~Session() { mysql_close(handle); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] bool connect(const ServerAddress& server, const std::string& user,
                             const std::string& database, std::chrono::seconds answer) {
    const auto answer_seconds = static_cast<unsigned>(answer.count());
    const unsigned connect_seconds = std::min(15U, answer_seconds);
    mysql_options(handle, MYSQL_OPT_CONNECT_TIMEOUT, &connect_seconds);
    mysql_options(handle, MYSQL_OPT_READ_TIMEOUT, &answer_seconds);
    mysql_options(handle, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    return mysql_real_connect(handle, "localhost", user.c_str(), nullptr,
                              database.empty() ? nullptr : database.c_str(), 0, server.socket.c_str(),
                              0) != nullptr;
  }

  MYSQL* handle;
};

Connection::Connection(ServerAddress address, std::string user, std::string database,
                       std::chrono::seconds answer)
    : address_(std::move(address)), user_(std::move(user)), database_(std::move(database)), answer_(answer) {}
Connection::~Connection() = default;
Connection::Connection(Connection&&) noexcept = default;

void Connection::open() {
  auto session = std::make_unique<Session>();
  if (!session->connect(address_, user_, database_, answer_)) throw refusal(session->handle, "connecting");
  session_ = std::move(session);
  sql("SET time_zone = '+00:00'");
}

bool Connection::can_connect(const ServerAddress& address, const std::string& user) {
  Session session;
  return session.connect(address, user, "", 30s);
}

std::vector<Row> Connection::sql(const std::string& query) {
  if (session_ && mysql_ping(session_->handle) != 0) session_.reset();
  if (!session_) open();
  return sql_in_session(query);
}

std::vector<Row> Connection::sql_in_session(const std::string& query) {
  MYSQL* const handle = session_->handle;
  if (mysql_real_query(handle, query.data(), query.size()) != 0) throw refusal(handle, query);
  std::vector<Row> rows;
  MYSQL_RES* const result = mysql_store_result(handle);
  if (result == nullptr) {
    if (mysql_errno(handle) != 0) throw refusal(handle, query);
    return rows;
  }
  const unsigned columns = mysql_num_fields(result);
  while (MYSQL_ROW cells = mysql_fetch_row(result)) {
    const unsigned long* const lengths = mysql_fetch_lengths(result);
    Row& row = rows.emplace_back();
    for (unsigned i = 0; i < columns; ++i)
      row.push_back(cells[i] == nullptr ? "NULL" : std::string(cells[i], lengths[i]));
  }
  mysql_free_result(result);
  // Behind the rows of a CALL comes its status.
  while (mysql_next_result(handle) == 0) mysql_free_result(mysql_store_result(handle));
  if (mysql_errno(handle) != 0) throw refusal(handle, query);
  return rows;
}

std::vector<Row> Connection::sql_prepared(const std::string& text,
                                          const std::vector<std::optional<std::string>>& values) {
  const std::unique_ptr<MYSQL_STMT, decltype(&mysql_stmt_close)> statement(mysql_stmt_init(session_->handle),
                                                                           &mysql_stmt_close);
  std::vector<MYSQL_BIND> binds(values.size(), MYSQL_BIND{});
  my_bool null = 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    binds[i].buffer_type = MYSQL_TYPE_STRING;
    if (!values[i]) {
      binds[i].is_null = &null;
      continue;
    }
    binds[i].buffer = const_cast<char*>(values[i]->data());  // it is only read
    binds[i].buffer_length = values[i]->size();
  }
  if (mysql_stmt_prepare(statement.get(), text.data(), text.size()) != 0 ||
      mysql_stmt_bind_param(statement.get(), binds.data()) != 0 || mysql_stmt_execute(statement.get()) != 0)
    throw refusal(statement.get(), text);
  auto rows = fetch_all(statement.get(), text);
  while (mysql_stmt_next_result(statement.get()) == 0) mysql_stmt_free_result(statement.get());
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
